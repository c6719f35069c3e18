package protocol

import (
	"fmt"
	"math"
	"reflect"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kind is how a field stands on the wire.
type kind uint8

const (
	kindFixed      kind = iota // a number, a bool or a uuid: size bytes
	kindString                 // null is not allowed
	kindNullStr                // null is allowed
	kindBytes                  // null is allowed
	kindPlainBytes             // not null in Kafka; kmsg takes null for none
	kindArray                  // of structures (fields) or of one primitive (elem)
	kindOption                 // a structure behind a byte that says if it is there
)

// field is one field of a request, with the versions that have it.
type field struct {
	name     string // of the kmsg field
	kind     kind
	size     int // kindFixed: bytes on the wire
	min, max int16
	long     bool    // a string that may be longer than 32,767 bytes
	fields   []field // of a structure
	elem     *field  // of an array of a primitive
	memory   int     // of one array element, optional structure or pointed-to string, once decoded; filled in from the kmsg types
}

const anyVersion = 1<<15 - 1

func fixed(name string, size int) field {
	return field{name: name, kind: kindFixed, size: size, max: anyVersion}
}
func str(name string) field           { return field{name: name, kind: kindString, max: anyVersion} }
func nullableStr(name string) field   { return field{name: name, kind: kindNullStr, max: anyVersion} }
func nullableBytes(name string) field { return field{name: name, kind: kindBytes, max: anyVersion} }
func plainBytes(name string) field    { return field{name: name, kind: kindPlainBytes, max: anyVersion} }
func array(name string, fields ...field) field {
	return field{name: name, kind: kindArray, max: anyVersion, fields: fields}
}
func arrayOf(name string, elem field) field {
	return field{name: name, kind: kindArray, max: anyVersion, elem: &elem}
}
func option(name string, fields ...field) field {
	return field{name: name, kind: kindOption, max: anyVersion, fields: fields}
}

func (f field) since(version int16) field { f.min = version; return f }
func (f field) until(version int16) field { f.max = version; return f }

// mayBeLong lets a string have more bytes than a 2-byte length can say. Others are not longer with compact lengths either: so it is with Kafka, and
// records and old answers have no other room for them.
func (f field) mayBeLong() field { f.long = true; return f }

func (f *field) in(version int16) bool { return version >= f.min && version <= f.max }

// layout is the format of one API's requests in all versions.
type layout struct {
	flexible int16
	fields   []field
	plans    [][]field // by version: the fields it has, neighbours of fixed size made one
}

// layoutOf returns a request's layout, completed with what its elements weigh in memory; nil when there is none.
func layoutOf(key int16) *layout { return layoutsByKey()[key] }

var layoutsByKey = sync.OnceValue(func() map[int16]*layout {
	m := make(map[int16]*layout, len(requestLayouts))
	for key, fields := range requestLayouts {
		api := LookupAPI(key)
		if api == nil {
			panic(fmt.Sprintf("BUG: a layout for key %d, which is not answered", key))
		}
		weigh(reflect.TypeOf(kmsg.RequestForKey(key)).Elem(), fields)
		l := &layout{flexible: api.Flexible, fields: fields}
		for version := int16(0); version <= api.Max; version++ {
			l.plans = append(l.plans, plan(fields, version))
		}
		m[key] = l
	}
	return m
})

// plan is what a walk needs of the fields of a version.
func plan(fields []field, version int16) []field {
	var p []field
	for _, f := range fields {
		if !f.in(version) {
			continue
		}
		if last := len(p) - 1; f.kind == kindFixed && last >= 0 && p[last].kind == kindFixed {
			p[last].size += f.size
			continue
		}
		f.fields = plan(f.fields, version)
		p = append(p, f)
	}
	return p
}

// weigh looks every field up in the kmsg structure, so that a wrong name shows at once, and notes the size of elements.
func weigh(t reflect.Type, fields []field) {
	for i := range fields {
		f := &fields[i]
		sf, ok := t.FieldByName(f.name)
		if !ok {
			panic(fmt.Sprintf("BUG: kmsg's %s has no field %s", t.Name(), f.name))
		}
		switch f.kind {
		case kindString, kindNullStr:
			if sf.Type.Kind() == reflect.Pointer {
				f.memory = pointerMemory
			}
		case kindArray, kindOption:
			f.memory = int(sf.Type.Elem().Size())
			if f.elem == nil {
				weigh(sf.Type.Elem(), f.fields)
			}
		}
	}
}

// What decoding one thing costs beside the bytes themselves, roundings of the allocator included.
const (
	stringMemory   = 16  // its bytes are rounded up
	pointerMemory  = 16  // some strings are pointers to strings
	firstTagMemory = 384 // tagged fields that kmsg does not know go into a map
	nextTagMemory  = 176
)

// A request may decode to memoryBase bytes and memoryTimes bytes for every byte of its body; more is refused before it is allocated. Real requests
// weigh 1 to 5 times their body.
const (
	memoryBase  = 256 << 10
	memoryTimes = 8

	// A body of at most this many bytes is not measured: no format needs more than memoryBase for it.
	smallBody = 2 << 10
)

// MemoryLimit is the most that Decode allocates for a body of so many bytes.
func MemoryLimit(bodyBytes int) int { return memoryBase + memoryTimes*bodyBytes }

// measurement walks over a body and adds up what decoding it would allocate.
type measurement struct {
	reader
	flexible bool
	memory   int
	limit    int
	items    int // elements of arrays
}

// measure walks over a body without allocating. ok: the body is well formed. The walk ends when memory is above limit.
func (l *layout) measure(version int16, body []byte, limit int) (memory int, ok bool) {
	m := measurement{reader: reader{b: body}, flexible: l.flexible >= 0 && version >= l.flexible, limit: limit}
	m.structure(l.plans[version])
	return m.memory, !m.bad
}

// Items counts the elements of all arrays in a body, without allocating: what answering it takes grows with them, not with its bytes. None is shorter than
// a byte. Of a body that is not well formed it counts what comes before the fault, which is Decode's to tell.
func Items(h Header, body []byte) int {
	l := layoutOf(h.Key)
	m := measurement{reader: reader{b: body}, flexible: l.flexible >= 0 && h.Version >= l.flexible, limit: math.MaxInt}
	m.structure(l.plans[h.Version])
	return m.items
}

func (m *measurement) structure(fields []field) {
	for i := range fields {
		if m.bad || m.memory > m.limit {
			return
		}
		m.field(&fields[i])
	}
	if m.flexible {
		m.tags()
	}
}

func (m *measurement) field(f *field) {
	switch f.kind {
	case kindFixed:
		m.span(f.size)
	case kindString:
		m.string(f, false)
	case kindNullStr:
		m.string(f, true)
	case kindBytes:
		m.bytes(m.flexible)
	case kindPlainBytes:
		m.plainBytes()
	case kindArray:
		m.array(f)
	case kindOption:
		m.option(f)
	}
}

func (m *measurement) string(f *field, nullable bool) {
	s, null := m.str(m.flexible)
	switch {
	case null && !nullable:
		m.fail()
	case null:
	case len(s) > math.MaxInt16 && !f.long:
		m.fail()
	default:
		m.memory += f.memory
		if len(s) > 0 {
			m.memory += len(s) + stringMemory
		}
	}
}

// plainBytes reads bytes that Kafka does not let be null. kmsg takes null for none all the same, but no other negative length.
func (m *measurement) plainBytes() {
	if m.flexible {
		m.bytes(true)
		return
	}
	if n := m.int32(); n >= 0 {
		m.span(int(n))
	} else if n != -1 {
		m.fail()
	}
}

func (m *measurement) array(f *field) {
	n := m.arrayLen(m.flexible)
	if n <= 0 {
		return
	}
	m.items += n
	m.memory += n * f.memory * 9 / 8 // kmsg grows a slice by append, which rounds up
	if f.elem != nil && f.elem.kind == kindFixed {
		m.span(n * f.elem.size)
		return
	}
	for ; n > 0 && !m.bad && m.memory <= m.limit; n-- {
		if f.elem != nil {
			m.field(f.elem)
		} else {
			m.structure(f.fields)
		}
	}
}

func (m *measurement) option(f *field) {
	s := m.span(1)
	if s == nil || s[0] == 0xff {
		return
	}
	m.memory += f.memory
	m.structure(f.fields)
}

func (m *measurement) tags() {
	n, size := m.skipTags()
	if n > 0 {
		m.memory += firstTagMemory + (n-1)*nextTagMemory + size
	}
}
