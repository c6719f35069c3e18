package protocol

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// eachVersion runs a subtest for every API and every version this broker answers.
func eachVersion(t *testing.T, fn func(t *testing.T, a *API, version int16)) {
	t.Helper()
	for i := range APIs {
		a := &APIs[i]
		for version := a.Min; version <= a.Max; version++ {
			t.Run(fmt.Sprintf("%s/v%d", a.Name, version), func(t *testing.T) { fn(t, a, version) })
		}
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// filledRequest is a request with something in every field; arrays have 1 to 3 elements.
func filledRequest(key, version int16, r *rand.Rand) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fill(reflect.ValueOf(req).Elem(), r)
	req.SetVersion(version)
	return req
}

func fill(v reflect.Value, r *rand.Rand) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), r)
		}
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), 1+r.IntN(3), 3)
		for i := range s.Len() {
			fill(s.Index(i), r)
		}
		v.Set(s)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), r)
		}
	case reflect.Pointer:
		if r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), r)
		}
	case reflect.String:
		v.SetString(strings.Repeat("x", r.IntN(20)))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(200)) - 2)
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(uint64(r.IntN(200)))
	}
}

// allocated is how many bytes fn allocates.
func allocated(fn func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// lengthField is where a length of a string, of bytes or of an array stands in a body.
type lengthField struct{ at, width int }

// lengthFields finds every length of a well formed body, in order.
func lengthFields(t *testing.T, l *layout, version int16, body []byte) []lengthField {
	t.Helper()
	f := finder{r: reader{b: body}, version: version, flexible: l.flexible >= 0 && version >= l.flexible, body: body}
	f.structure(l.fields)
	if f.r.bad || len(f.r.b) != 0 {
		t.Fatalf("the layout does not fit the body: bad %v, %d bytes left", f.r.bad, len(f.r.b))
	}
	return f.found
}

type finder struct {
	r        reader
	version  int16
	flexible bool
	body     []byte
	found    []lengthField
}

func (f *finder) note(before int) {
	at := len(f.body) - before
	f.found = append(f.found, lengthField{at, before - len(f.r.b)})
}

func (f *finder) structure(fields []field) {
	for i := range fields {
		if fields[i].in(f.version) {
			f.field(&fields[i])
		}
	}
	if f.flexible {
		before := len(f.r.b)
		f.r.uvarint() // test requests have no unknown tags; known ones are skipped as a whole
		f.note(before)
		f.r = reader{b: f.body[len(f.body)-before:]}
		f.r.skipTags()
	}
}

func (f *finder) field(fd *field) {
	before := len(f.r.b)
	switch fd.kind {
	case kindFixed:
		f.r.span(fd.size)
	case kindString, kindNullStr:
		n := 0
		if f.flexible {
			n = f.r.compact()
		} else {
			n = int(f.r.int16())
		}
		f.note(before)
		f.r.span(max(n, 0))
	case kindBytes, kindPlainBytes:
		n := 0
		if f.flexible {
			n = f.r.compact()
		} else {
			n = int(f.r.int32())
		}
		f.note(before)
		f.r.span(max(n, 0))
	case kindArray:
		n := f.r.arrayLen(f.flexible)
		f.note(before)
		for range n {
			if fd.elem != nil {
				f.field(fd.elem)
			} else {
				f.structure(fd.fields)
			}
		}
	case kindOption:
		there := f.r.span(1)
		f.note(before)
		if there[0] != 0xff {
			f.structure(fd.fields)
		}
	}
}

// mutateLength returns bodies in which one length says something else.
func mutateLength(body []byte, lf lengthField, flexible bool) [][]byte {
	var lengths []int64
	old := int64(0)
	for _, c := range body[lf.at : lf.at+lf.width] {
		old = old<<8 | int64(c)
	}
	lengths = []int64{0, 1, 2, old - 1, old + 1, old + 2, 127, 128, 255, 32767, 32768, 65535, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<32 - 2}
	var out [][]byte
	for _, n := range lengths {
		fixed := append([]byte(nil), body...)
		for i := range lf.width {
			fixed[lf.at+i] = byte(n >> (8 * (lf.width - 1 - i)))
		}
		out = append(out, fixed)
		if flexible {
			spliced := append([]byte(nil), body[:lf.at]...)
			spliced = appendUvarint(spliced, uint32(n))
			out = append(out, append(spliced, body[lf.at+lf.width:]...))
		}
	}
	if flexible { // a varint that never ends, one of too many bits, one that is longer than needed
		for _, v := range [][]byte{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff, 0x7f}, {0x80, 0x80, 0x00}} {
			spliced := append([]byte(nil), body[:lf.at]...)
			spliced = append(spliced, v...)
			out = append(out, append(spliced, body[lf.at+lf.width:]...))
		}
	}
	return out
}
