package protocol

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// frameOf is a request frame as kmsg's formatter writes it, without the size.
func frameOf(req kmsg.Request, correlationID int32, clientID *string) []byte {
	var opts []kmsg.RequestFormatterOpt
	if clientID != nil {
		opts = append(opts, kmsg.FormatterClientID(*clientID))
	}
	return kmsg.NewRequestFormatter(opts...).AppendRequest(nil, req, correlationID)[4:]
}

// Gotcha 24: the client id may be null or empty.
func TestParseHeader(t *testing.T) {
	name, empty := "a client", ""
	eachVersion(t, func(t *testing.T, a *API, version int16) {
		req := filledRequest(a.Key, version, newRand(1))
		body := req.AppendTo(nil)
		for _, id := range []*string{nil, &empty, &name} {
			h, rest, err := ParseHeader(frameOf(req, -5, id))
			if err != nil {
				t.Fatal(err)
			}
			want := Header{Key: a.Key, Version: version, CorrelationID: -5}
			if id != nil {
				want.ClientID, want.HasClientID = *id, true
			}
			if h != want || !bytes.Equal(rest, body) {
				t.Errorf("header %+v, want %+v; body %x", h, want, rest)
			}
		}
	})
}

// Unknown tagged fields in the header are skipped, in any order and number, and so is one of no length.
func TestParseHeaderTags(t *testing.T) {
	frame := []byte{0, 18, 0, 3, 0, 0, 0, 9, 0, 1, 'c', 3, 9, 1, 'x', 2, 0, 0x80, 1, 3, 1, 2, 3, 'b', 'o', 'd', 'y'}
	h, body, err := ParseHeader(frame)
	if err != nil || h.ClientID != "c" || string(body) != "body" {
		t.Errorf("%+v %q %v", h, body, err)
	}
	for n := 8; n < len(frame)-4; n++ {
		var malformed *MalformedError
		if _, _, err := ParseHeader(frame[:n:n]); !errors.As(err, &malformed) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

func TestParseHeaderShort(t *testing.T) {
	for n := range 8 {
		var malformed *MalformedError
		if _, _, err := ParseHeader(make([]byte, n)); !errors.As(err, &malformed) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A client id as long as it can be, longer than the frame, and of every negative length.
func TestParseHeaderClientID(t *testing.T) {
	long := strings.Repeat("x", 1<<15-1)
	frame := append([]byte{0, 3, 0, 0, 0, 0, 0, 1, 0x7f, 0xff}, long...)
	if h, body, err := ParseHeader(frame); err != nil || h.ClientID != long || len(body) != 0 {
		t.Errorf("the longest client id: %v", err)
	}
	if _, _, err := ParseHeader(frame[:len(frame)-1]); err == nil {
		t.Error("a client id longer than the frame is taken")
	}
	if h, _, err := ParseHeader([]byte{0, 3, 0, 0, 0, 0, 0, 1, 0x80, 0}); err != nil || h.HasClientID {
		t.Errorf("a negative length is not null: %v", err)
	}
}

// Unknown keys and versions are told apart from malformed frames, with what the caller needs for an answer.
func TestParseHeaderUnsupported(t *testing.T) {
	for _, c := range []struct {
		key, version int16
		want         string
	}{
		{KeyProduce, 2, "Produce version 2 is not supported (3-13 is)"},
		{KeyProduce, 14, "Produce version 14 is not supported (3-13 is)"},
		{KeyAPIVersions, 6, "ApiVersions version 6 is not supported (0-5 is)"},
		{KeyAPIVersions, -1, "ApiVersions version -1 is not supported (0-5 is)"},
		{KeyDescribeProducers, 1, "DescribeProducers version 1 is not supported (0 is)"},
		{4, 0, "request with the unknown API key 4 (version 0)"},
		{-1, 0, "request with the unknown API key -1 (version 0)"},
		{32767, 32767, "request with the unknown API key 32767 (version 32767)"},
	} {
		frame := append(appendInt16(appendInt16(nil, c.key), c.version), 0, 0, 0, 7)
		h, _, err := ParseHeader(frame)
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) || err.Error() != c.want || h.CorrelationID != 7 || unsupported.CorrelationID != 7 || h.Key != c.key || h.Version != c.version {
			t.Errorf("key %d version %d: %+v, %v; want %s", c.key, c.version, h, err, c.want)
		}
	}
}

// All requests of a connection into one Header: the client id is copied once.
func TestHeaderAllocations(t *testing.T) {
	id := "a client id that is longer than a few bytes"
	frame := frameOf(filledRequest(KeyFetch, 18, newRand(1)), 1, &id)
	var h Header
	if n := testing.AllocsPerRun(100, func() {
		if _, err := h.Parse(frame); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	other := "another"
	if _, err := h.Parse(frameOf(filledRequest(KeyFetch, 18, newRand(1)), 1, &other)); err != nil || h.ClientID != other {
		t.Errorf("%+v %v", h, err)
	}
	copy(frame[10:], "A CLIENT ID") // a Header does not alias its frame
	if h.ClientID != other {
		t.Errorf("client id %q", h.ClientID)
	}
}

func FuzzParseHeader(f *testing.F) {
	id := "client"
	for i := range APIs {
		f.Add(frameOf(filledRequest(APIs[i].Key, APIs[i].Max, newRand(1)), 1, &id))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, body, err := ParseHeader(frame)
		if err != nil {
			return
		}
		if a := LookupAPI(h.Key); a == nil || !a.Supports(h.Version) || len(body) > len(frame)-10 {
			t.Errorf("%+v with a body of %d bytes", h, len(body))
		}
	})
}

// A header that is parsed into again keeps nothing of the request before it, least of all its client's name.
func TestHeaderErrorHasNoClientID(t *testing.T) {
	var h Header
	good := []byte{0, 18, 0, 0, 0, 0, 0, 1, 0, 5, 'a', 'l', 'i', 'c', 'e'}
	for _, bad := range [][]byte{nil, {0, 99, 0, 0, 0, 0, 0, 2, 0, 3, 'b', 'o', 'b'}, {0, 18, 0, 0, 0, 0, 0, 2, 0, 3, 'b'}} {
		if _, err := h.Parse(good); err != nil || h.ClientID != "alice" || !h.HasClientID {
			t.Fatalf("%+v, %v", h, err)
		}
		if _, err := h.Parse(bad); err == nil || h.ClientID != "" || h.HasClientID {
			t.Errorf("%q: %+v, %v", bad, h, err)
		}
	}
}
