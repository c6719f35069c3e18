package protocol

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// hostile writes bodies that ask for as much memory as a format can: one array as long as it may be, its elements as small as they may be.
type hostile struct {
	version  int16
	flexible bool
	tag      bool   // one unknown tagged field in every structure of the target
	str      int    // length of every string
	target   *field // the array that is long
	size     int
	claim    int // > 0: the target says this length and has no elements
	b        []byte
}

func (w *hostile) structure(fields []field, tag bool) {
	for i := range fields {
		if fields[i].in(w.version) {
			w.field(&fields[i], tag)
		}
	}
	if !w.flexible {
		return
	}
	if tag && w.tag {
		w.b = append(w.b, 1, 99, 0)
		return
	}
	w.b = append(w.b, 0)
}

func (w *hostile) field(f *field, tag bool) {
	switch f.kind {
	case kindFixed:
		w.b = append(w.b, make([]byte, f.size)...)
	case kindString, kindNullStr:
		w.b = appendString(w.b, "abcdefgh"[:w.str], w.flexible)
	case kindBytes, kindPlainBytes:
		w.b = appendLength(w.b, 0, w.flexible)
	case kindOption:
		w.b = append(w.b, 1)
		w.structure(f.fields, tag)
	case kindArray:
		w.array(f, tag)
	}
}

func (w *hostile) array(f *field, tag bool) {
	switch {
	case f == w.target && w.claim > 0:
		w.b = appendLength(w.b, w.claim, w.flexible)
	case f == w.target:
		w.long(f)
	case contains(f, w.target):
		w.b = appendLength(w.b, 1, w.flexible)
		w.element(f, tag)
	case w.target == nil && tag: // inside of long elements: one element each
		w.b = appendLength(w.b, 1, w.flexible)
		w.element(f, tag)
	default:
		w.b = appendLength(w.b, 0, w.flexible)
	}
}

func (w *hostile) element(f *field, tag bool) {
	if f.elem != nil {
		w.field(f.elem, tag)
		return
	}
	w.structure(f.fields, tag)
}

func (w *hostile) long(f *field) {
	probe := *w
	probe.target, probe.b = nil, nil
	probe.element(f, true)
	n := max((w.size-len(w.b))/len(probe.b), 1)
	w.b = appendLength(w.b, n, w.flexible)
	w.b = append(w.b, bytes.Repeat(probe.b, n)...)
}

func contains(f, target *field) bool {
	if target == nil {
		return false
	}
	for i := range f.fields {
		if &f.fields[i] == target || contains(&f.fields[i], target) {
			return true
		}
	}
	return false
}

// arrays lists every array of a version, at any depth.
func arrays(fields []field, version int16) []*field {
	var list []*field
	for i := range fields {
		if f := &fields[i]; f.in(version) {
			if f.kind == kindArray {
				list = append(list, f)
			}
			list = append(list, arrays(f.fields, version)...)
		}
	}
	return list
}

// hostileBodies are the worst bodies of a size for a version.
func hostileBodies(l *layout, version int16, size int) map[string][]byte {
	bodies := map[string][]byte{}
	base := hostile{version: version, flexible: l.flexible >= 0 && version >= l.flexible, size: size}
	for _, target := range arrays(l.fields, version) {
		for _, style := range []struct {
			tag bool
			str int
		}{{false, 0}, {true, 0}, {false, 1}} {
			w := base
			w.target, w.tag, w.str = target, style.tag, style.str
			w.structure(l.fields, false)
			bodies[fmt.Sprintf("long %s, %+v", target.name, style)] = w.b
		}
		for _, claim := range []int{size / 2, 1 << 30} {
			w := base
			w.target, w.claim = target, claim
			w.structure(l.fields, false)
			w.b = append(w.b, make([]byte, max(size-len(w.b), 0))...)
			bodies[fmt.Sprintf("claim %d %s", claim, target.name)] = w.b
		}
	}
	if base.flexible {
		w := base
		w.structure(l.fields, false)
		w.b = w.b[:len(w.b)-1]
		n := uint32(size / 4)
		w.b = appendUvarint(w.b, n)
		for i := range n {
			w.b = append(w.b, byte(i)|0x80, byte(i>>7)|0x80, byte(i>>14)&0x7f, 0)
		}
		bodies["many tags"] = w.b
	}
	return bodies
}

// B-R14, gotcha 27: for every API and version, no body makes decoding allocate more than the documented limit. At 1 MiB, at the size up to which
// nothing is measured, and in between.
func TestHostileMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("memory is not what it is without the race detector")
	}
	worst := map[string]float64{}
	sizes := []int{smallBody, smallBody + 64, 1 << 20}
	if testing.Short() {
		sizes = sizes[:2]
	}
	eachVersion(t, func(t *testing.T, a *API, version int16) {
		h := Header{Key: a.Key, Version: version}
		for _, size := range sizes {
			for name, body := range hostileBodies(layoutOf(a.Key), version, size) {
				var err error
				n := allocated(func() { _, err = Decode(h, body) })
				const slack = 16 << 10 // the request itself, the error, what else runs
				if limit := MemoryLimit(len(body)) + slack; n > limit {
					t.Errorf("%s: %d bytes allocate %d, allowed are %d (error: %v)", name, len(body), n, limit, err)
				}
				worst[fmt.Sprint(size)] = max(worst[fmt.Sprint(size)], float64(n)/float64(len(body)))
			}
		}
	})
	t.Logf("worst memory per byte of body, by size: %v", worst)
}

// The estimate of the walk is not below what the decoder really takes: else the limit would be a wish.
func TestMeasureIsHonest(t *testing.T) {
	if raceEnabled {
		t.Skip("memory is not what it is without the race detector")
	}
	worst := 0.0
	eachVersion(t, func(t *testing.T, a *API, version int16) {
		l := layoutOf(a.Key)
		for name, body := range hostileBodies(l, version, 64<<10) {
			memory, ok := l.measure(version, body, 1<<40)
			if !ok {
				continue
			}
			req := kmsg.RequestForKey(a.Key)
			req.SetVersion(version)
			n := allocated(func() { _ = req.ReadFrom(body) })
			const slack = 8 << 10
			if n > memory+slack {
				t.Errorf("%s: estimated %d, allocated %d", name, memory, n)
			}
			worst = max(worst, float64(n)/float64(len(body)))
		}
	})
	t.Logf("without a limit the worst body would take %.0f times its size", worst)
}

// Real requests are far from the limit: a Fetch, a Produce and a Metadata request of many partitions and topics pass.
func TestLargeHonestRequests(t *testing.T) {
	metadata := kmsg.NewPtrMetadataRequest()
	fetch := kmsg.NewPtrFetchRequest()
	produce := kmsg.NewPtrProduceRequest()
	for i := range 10_000 {
		name := fmt.Sprintf("t%d", i)
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = &name
		metadata.Topics = append(metadata.Topics, mt)
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic = name
		ft.Partitions = append(ft.Partitions, kmsg.NewFetchRequestTopicPartition())
		fetch.Topics = append(fetch.Topics, ft)
		pt := kmsg.NewProduceRequestTopic()
		pt.Topic = name
		pp := kmsg.NewProduceRequestTopicPartition()
		pp.Records = make([]byte, 70)
		pt.Partitions = append(pt.Partitions, pp)
		produce.Topics = append(produce.Topics, pt)
	}
	for _, req := range []kmsg.Request{metadata, fetch, produce} {
		a := LookupAPI(req.Key())
		for version := a.Min; version <= a.Max; version++ {
			req.SetVersion(version)
			if _, err := Decode(Header{Key: a.Key, Version: version}, req.AppendTo(nil)); err != nil {
				t.Errorf("%v", err)
			}
		}
	}
}
