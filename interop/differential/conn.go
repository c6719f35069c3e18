package differential

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerLimit is how long a step waits for an answer that should come.
const answerLimit = 10 * time.Second

// conn is one raw client connection: whole frames out, whole frames in, no negotiation and no retries.
type conn struct {
	c    net.Conn
	corr int32
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{c: c, corr: 100}, nil
}

// header describes what precedes a request body. Its zero value plus key and version is an ordinary header.
type header struct {
	key, version int16
	flexible     bool    // header v2: tagged fields follow the client id
	clientID     *string // nil: the null string
	tags         []byte  // encoded tagged fields instead of none
}

func (h header) append(dst []byte, corr int32) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.key))
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(corr))
	if h.clientID == nil {
		dst = append(dst, 0xff, 0xff)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(*h.clientID)))
		dst = append(dst, *h.clientID...)
	}
	if h.flexible {
		if h.tags == nil {
			dst = append(dst, 0)
		}
		dst = append(dst, h.tags...)
	}
	return dst
}

// frame prefixes a payload with its size.
func frame(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// request encodes req with the next correlation id.
func (c *conn) request(req kmsg.Request, h header) []byte {
	c.corr++
	return frame(req.AppendTo(h.append(nil, c.corr)))
}

func (c *conn) write(b []byte) error {
	c.c.SetWriteDeadline(time.Now().Add(answerLimit))
	_, err := c.c.Write(b)
	return err
}

var (
	errClosed = errors.New("closed")
	errSilent = errors.New("no answer")
)

// read returns the next frame's payload, errClosed when the peer hung up, errSilent when the limit passed.
func (c *conn) read(limit time.Duration) ([]byte, error) {
	c.c.SetReadDeadline(time.Now().Add(limit))
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		return nil, readError(err)
	}
	n := int32(binary.BigEndian.Uint32(size[:]))
	if n < 4 || n > 200<<20 {
		return nil, fmt.Errorf("answer of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.c, b); err != nil {
		return nil, fmt.Errorf("answer cut short: %w", err)
	}
	return b, nil
}

func readError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSilent
	}
	return errClosed // EOF or reset: which one is the kernel's choice
}

func (c *conn) close() { c.c.Close() }

// split cuts the response header off a payload.
func split(payload []byte, key int16, flexible bool) (corr int32, body []byte, err error) {
	corr = int32(binary.BigEndian.Uint32(payload))
	body = payload[4:]
	if !flexible || key == 18 {
		return corr, body, nil
	}
	if len(body) == 0 {
		return corr, nil, errors.New("no tag section in the response header")
	}
	if body[0] != 0 {
		return corr, nil, fmt.Errorf("%d tags in the response header", body[0])
	}
	return corr, body[1:], nil
}
