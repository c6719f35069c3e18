package protocol

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Decode reads a request's body. The request's byte fields (records) alias body, strings do not. Errors are *MalformedError.
func Decode(h Header, body []byte) (kmsg.Request, error) {
	req := kmsg.RequestForKey(h.Key)
	if req == nil {
		return nil, &MalformedError{Key: h.Key, Version: h.Version, Msg: "there is no such request"}
	}
	req.SetVersion(h.Version)
	if err := req.ReadFrom(body); err != nil {
		return nil, &MalformedError{Key: h.Key, Version: h.Version, Msg: "the body ends early or has an impossible length"}
	}
	return req, nil
}

// AppendResponse appends a whole answer frame: size, header, body. The response's version decides the format.
func AppendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if resp.IsFlexible() && resp.Key() != KeyAPIVersions {
		dst = append(dst, 0) // no tagged fields. ApiVersions answers have the old header in every version
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}
