package netio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/leatmq/leat/internal/invariant"
)

func TestSizeClasses(t *testing.T) {
	for class := range classCount {
		size := classSize(class)
		if got := classFor(size); got != class {
			t.Fatalf("classFor(%d) = %d, want %d", size, got, class)
		}
		if got := classFor(size + 1); got != class+1 {
			t.Fatalf("classFor(%d) = %d, want %d", size+1, got, class+1)
		}
		if got := classOf(size); got != class {
			t.Fatalf("classOf(%d) = %d, want %d", size, got, class)
		}
		if class > 0 {
			if got := classOf(size - 1); got != class-1 {
				t.Fatalf("classOf(%d) = %d, want %d", size-1, got, class-1)
			}
			if waste := size - classSize(class-1) - 1; waste*5 > size {
				t.Fatalf("class of %d bytes wastes %d", size, waste)
			}
		}
	}
	if classFor(0) != 0 || classFor(1) != 0 || classOf(0) != -1 || classOf(255) != -1 || classOf(1<<maxClassBits+1) != -1 {
		t.Fatal("wrong at the ends")
	}
}

func TestNewFrameHasRoom(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 5000, 1 << 20, 1<<20 + 1, 1 << 23, 1<<23 + 1} {
		f := NewFrame(n)
		if len(f.B) != n {
			t.Errorf("NewFrame(%d) has %d bytes", n, len(f.B))
		}
		f.B = append(f.B, 1, 2, 3)
		f.Release()
	}
}

func mustPanic(t *testing.T, what string, fn func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	fn()
}

// B-H1: a frame released twice would be handed to two users.
func TestFrameMisuse(t *testing.T) {
	if !invariant.Enabled {
		t.Log("releases of recycled frames are only found with invariants on")
		return
	}
	f := NewFrame(10)
	f.Retain()
	f.Release()
	f.Release()
	mustPanic(t, "second release", f.Release)
	g := NewFrame(10)
	g.Release()
	if !bytes.Equal(g.B, bytes.Repeat([]byte{0xDB}, 10)) {
		t.Error("released frame is not overwritten")
	}
	mustPanic(t, "retain after release", g.Retain)
}

func TestCompleteTwice(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		calls := make(chan *Call, 1)
		s := start(t, d.options(Options{Handler: newTestHandler(func(c *Call) { calls <- c })}))
		dial(t, d, s).send([]byte("x"))
		c := receive(t, calls, "a request")
		dial(t, d, s).send([]byte("y"))
		other := receive(t, calls, "a request") // so that c's completion cannot be recycled for it
		c.Complete(Response{None: true})
		if invariant.Enabled {
			mustPanic(t, "second Complete", func() { c.Complete(Response{None: true}) })
		}
		other.Complete(Response{None: true})
	})
}

// cut is the simplest framer: it has the whole stream.
func cut(stream []byte, limit int) (frames [][]byte, bad bool) {
	for len(stream) >= 4 {
		n := int(int32(binary.BigEndian.Uint32(stream)))
		if n < 1 || n > limit {
			return frames, true
		}
		if len(stream) < 4+n {
			break
		}
		frames = append(frames, stream[4:4+n])
		stream = stream[4+n:]
	}
	return frames, false
}

// feed gives a stream to a framer in pieces of the given sizes, cycled.
func feed(stream []byte, sizes []byte, limit int) (frames [][]byte, left int64, err error) {
	a := &account{limit: 1 << 40, nowMs: func() int64 { return 0 }}
	b := &budget{account: a}
	var f framer
	for i := 0; len(stream) > 0; i++ {
		piece := stream
		if len(sizes) > 0 {
			piece = stream[:min(len(stream), 1+int(sizes[i%len(sizes)]))]
		}
		stream = stream[len(piece):]
		for len(piece) > 0 {
			n := copy(f.space(), piece)
			piece = piece[n:]
			frame, err := f.advance(n, limit, b)
			if err != nil {
				f.release(b)
				return frames, a.bytes(), err
			}
			if frame != nil {
				frames = append(frames, bytes.Clone(frame.B))
				frame.Release()
			}
		}
	}
	f.release(b)
	return frames, a.bytes(), nil
}

func checkFramer(stream, sizes []byte, limit int) error {
	want, bad := cut(stream, limit)
	got, left, err := feed(stream, sizes, limit)
	if fe := (*FrameError)(nil); bad != errors.As(err, &fe) {
		return fmt.Errorf("bad frame %v, error %v", bad, err)
	}
	if left != 0 {
		return fmt.Errorf("%d bytes not released", left)
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d frames, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("frame %d differs", i)
		}
	}
	return nil
}

func TestFramerLongFrames(t *testing.T) {
	for _, n := range []int{eagerFrame - 1, eagerFrame, eagerFrame + 1, 8 * eagerFrame, 8*eagerFrame + 1} {
		stream := append(frameOf(pattern(n)), frameOf([]byte("next"))...)
		if err := checkFramer(stream, nil, 1<<30); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// FuzzFramer: however a stream is cut into reads, the frames are the same, and nothing is kept.
func FuzzFramer(f *testing.F) {
	f.Add([]byte{}, []byte{0}, uint16(100))
	f.Add(frameOf([]byte("hello")), []byte{0}, uint16(100))
	f.Add(append(frameOf([]byte("one")), frameOf([]byte("two"))...), []byte{2, 5, 0}, uint16(3))
	f.Add([]byte{0, 0, 0, 0}, []byte{3}, uint16(100))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1}, []byte{0}, uint16(100))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 1}, []byte{}, uint16(65535))
	f.Add([]byte{0, 0, 0, 101}, []byte{1}, uint16(100))
	f.Fuzz(func(t *testing.T, stream, sizes []byte, limit uint16) {
		if err := checkFramer(stream, sizes, max(1, int(limit))); err != nil {
			t.Fatal(err)
		}
	})
}
