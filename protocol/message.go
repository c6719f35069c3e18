package protocol

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Decode reads a request's body into a new request. Byte fields (records) alias body, strings do not. It allocates at most MemoryLimit(len(body)).
// Bytes behind the body are ignored, as Kafka ignores them. Errors are *MalformedError.
func Decode(h Header, body []byte) (kmsg.Request, error) {
	if layoutOf(h.Key) == nil {
		return nil, &MalformedError{Key: h.Key, Version: h.Version, Msg: "there is no such request"}
	}
	req := kmsg.RequestForKey(h.Key)
	if err := DecodeInto(h, body, req); err != nil {
		return nil, err
	}
	return req, nil
}

// DecodeInto is Decode into a request of the header's key that is used again: its outer arrays are reused, so nothing of it may be held on to.
func DecodeInto(h Header, body []byte, req kmsg.Request) error {
	l := layoutOf(h.Key)
	if l == nil || req.Key() != h.Key {
		panic(fmt.Sprintf("BUG: decoding a request with key %d as %T", h.Key, req))
	}
	if len(body) > smallBody {
		limit := MemoryLimit(len(body))
		switch memory, ok := l.measure(h.Version, body, limit); {
		case !ok:
			return malformedBody(h)
		case memory > limit:
			return &MalformedError{Key: h.Key, Version: h.Version, Msg: fmt.Sprintf("%d bytes would need more than %d bytes of memory", len(body), limit)}
		}
	}
	req.SetVersion(h.Version)
	if err := req.ReadFrom(body); err != nil {
		return malformedBody(h)
	}
	return nil
}

func malformedBody(h Header) error {
	return &MalformedError{Key: h.Key, Version: h.Version, Msg: "the body ends early or has an impossible length"}
}

// AppendResponse appends a whole answer frame: size, header, body. The response's version decides the format.
func AppendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = appendInt32(dst, correlationID)
	if resp.IsFlexible() && resp.Key() != KeyAPIVersions {
		dst = append(dst, 0) // no tagged fields. ApiVersions answers have the old header in every version
	}
	return finishFrame(resp.AppendTo(dst), at)
}

// finishFrame writes the size of the frame that begins at into its first 4 bytes.
func finishFrame(dst []byte, at int) []byte {
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}
