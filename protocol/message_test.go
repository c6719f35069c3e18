package protocol

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Every API and version: what kmsg writes is read back the same, and the layout walks over exactly these bytes.
func TestRoundTrip(t *testing.T) {
	eachVersion(t, func(t *testing.T, a *API, version int16) {
		r := newRand(uint64(a.Key)<<8 | uint64(version))
		for range 20 {
			req := filledRequest(a.Key, version, r)
			body := req.AppendTo(nil)
			lengthFields(t, layoutOf(a.Key), version, body)
			if _, ok := layoutOf(a.Key).measure(version, body, 1<<30); !ok {
				t.Fatal("the layout does not fit")
			}
			got, err := Decode(Header{Key: a.Key, Version: version}, body)
			if err != nil {
				t.Fatal(err)
			}
			if again := got.AppendTo(nil); !bytes.Equal(again, body) {
				t.Fatalf("read and written again:\n%x\nwas\n%x", again, body)
			}
			// Seen on Kafka 4.4.0: bytes behind a body are ignored.
			more, err := Decode(Header{Key: a.Key, Version: version}, append(body, "more"...))
			if err != nil || !reflect.DeepEqual(more, got) {
				t.Fatalf("with bytes behind it: %v", err)
			}
		}
	})
}

// Every layout is of an API of the table and the other way round, with kmsg's flexible version.
func TestLayoutsComplete(t *testing.T) {
	if len(requestLayouts) != len(APIs) {
		t.Errorf("%d layouts for %d APIs", len(requestLayouts), len(APIs))
	}
	eachVersion(t, func(t *testing.T, a *API, version int16) {
		if layoutOf(a.Key) == nil {
			t.Fatal("no layout")
		}
		req := kmsg.RequestForKey(a.Key)
		req.SetVersion(version)
		if version > req.MaxVersion() || req.IsFlexible() != a.IsFlexible(version) {
			t.Errorf("max %d, flexible %v, the table says %v", req.MaxVersion(), req.IsFlexible(), a.IsFlexible(version))
		}
		if kmsg.NameForKey(a.Key) != a.Name && a.Name != "InitProducerId" {
			t.Errorf("kmsg calls it %s", kmsg.NameForKey(a.Key))
		}
	})
}

// Every prefix of a valid request: an error, or a success where only tagged fields are missing; never a panic.
func TestEveryPrefix(t *testing.T) {
	eachVersion(t, func(t *testing.T, a *API, version int16) {
		h := Header{Key: a.Key, Version: version}
		body := filledRequest(a.Key, version, newRand(7)).AppendTo(nil)
		for n := range len(body) {
			prefix := body[:n:n]
			_, err := Decode(h, prefix)
			checkAgreement(t, h, prefix, err)
			if err == nil {
				t.Errorf("the first %d of %d bytes are taken for a request", n, len(body))
			}
		}
	})
}

// Every length of a valid request replaced by every interesting number: an error or a success, never a panic, and the measuring walk agrees
// with the decoder about what is well formed.
func TestEveryLength(t *testing.T) {
	eachVersion(t, func(t *testing.T, a *API, version int16) {
		h := Header{Key: a.Key, Version: version}
		body := filledRequest(a.Key, version, newRand(8)).AppendTo(nil)
		for _, lf := range lengthFields(t, layoutOf(a.Key), version, body) {
			for _, bad := range mutateLength(body, lf, a.IsFlexible(version)) {
				_, err := Decode(h, bad)
				checkAgreement(t, h, bad, err)
			}
		}
	})
}

// Every byte of a valid request replaced.
func TestEveryByte(t *testing.T) {
	eachVersion(t, func(t *testing.T, a *API, version int16) {
		h := Header{Key: a.Key, Version: version}
		body := filledRequest(a.Key, version, newRand(9)).AppendTo(nil)
		for at := range body {
			for _, c := range []byte{0, 1, 2, 0x7f, 0x80, 0xff} {
				bad := bytes.Clone(body)
				bad[at] = c
				_, err := Decode(h, bad)
				checkAgreement(t, h, bad, err)
			}
		}
	})
}

// checkAgreement: the walk that protects memory and the decoder must see the same request in the same bytes, and Produce's own walk too. The decoder
// is stricter with the inside of tagged fields that it knows; Fetch has some.
func checkAgreement(t *testing.T, h Header, body []byte, err error) {
	t.Helper()
	var malformed *MalformedError
	if err != nil && !errors.As(err, &malformed) {
		t.Fatalf("error of type %T", err)
	}
	memory, ok := layoutOf(h.Key).measure(h.Version, body, 1<<40)
	knownTags := h.Key == KeyFetch && h.Version >= 12
	if ok != (err == nil) && memory <= MemoryLimit(len(body)) && !(ok && knownTags) {
		t.Fatalf("%s v%d: the walk says %v, the decoder %v; body %x", LookupAPI(h.Key).Name, h.Version, ok, err, body)
	}
	if h.Key == KeyProduce {
		var p ProduceRequest
		if perr := p.Parse(h.Version, body); (perr == nil) != ok {
			t.Fatalf("Produce v%d: the walk says %v, the reader %v; body %x", h.Version, ok, perr, body)
		}
	}
}

func TestDecodeInto(t *testing.T) {
	h := Header{Key: KeyFetch, Version: 18}
	want := filledRequest(KeyFetch, 18, newRand(3))
	body := want.AppendTo(nil)
	req := kmsg.NewPtrFetchRequest()
	for range 3 {
		if err := DecodeInto(h, body, req); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(req.AppendTo(nil), body) {
			t.Fatal("reused request differs")
		}
	}
}

// Answers: size, correlation id, the header's tagged fields where the version has them, but never for ApiVersions.
func TestAppendResponse(t *testing.T) {
	eachVersion(t, func(t *testing.T, a *API, version int16) {
		resp := kmsg.ResponseForKey(a.Key)
		resp.SetVersion(version)
		body := resp.AppendTo(nil)
		want := append([]byte("before"), 0, 0, 0, 0, 1, 2, 3, 4)
		if a.IsFlexible(version) && a.Key != KeyAPIVersions {
			want = append(want, 0)
		}
		want = append(want, body...)
		want[9] = byte(len(want) - 10)
		want[8] = byte((len(want) - 10) >> 8)
		if got := AppendResponse([]byte("before"), 0x01020304, resp); !bytes.Equal(got, want) {
			t.Errorf("got %x, want %x", got, want)
		}
	})
}
