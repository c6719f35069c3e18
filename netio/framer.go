package netio

import (
	"encoding/binary"

	"github.com/leatmq/leat/internal/invariant"
)

const (
	frameHeaderSize = 4
	minRequestSize  = 1
	// eagerFrame is how much of a frame gets memory at its header, before its bytes, while the account is roomy. Frames up
	// to this are then read into place without a copy.
	eagerFrame = 1 << 20
	// firstFrame is the same when the account is not roomy. Frames that fit in the connection's allowance are whole at once.
	firstFrame = 4 << 10
	// frameGrowth is by how much a frame's memory grows when it is full of bytes that have arrived.
	frameGrowth = 2
)

// framer cuts a byte stream into frames. The caller copies or reads bytes into space and says how many with advance.
//
// States: size == 0: got of the 4 header bytes are there. size > 0, need > 0 (hungry): the length is known, and the next
// bytes need memory for need bytes in all before anything else. size > 0, need == 0: got of size bytes are there, got <
// len(frame.B) <= size. Between frames got and size are 0 and frame nil.
type framer struct {
	header [frameHeaderSize]byte
	got    int
	size   int
	need   int
	frame  *Frame
	number int64 // of the frame, counting those that began
}

// begun tells that the length of a frame has arrived, but not the whole frame.
func (f *framer) begun() bool { return f.size > 0 }

// hungry tells that feed must succeed before space is asked for.
func (f *framer) hungry() bool { return f.need > 0 }

// space is where the next bytes of the stream belong; it is never empty.
func (f *framer) space() []byte {
	if !f.begun() {
		return f.header[f.got:]
	}
	invariant.Check(!f.hungry(), "netio: frame without memory")
	return f.frame.B[f.got:]
}

// advance takes note of n bytes put at the start of space. It returns the frame that they completed, if any, which is the
// caller's from then on; a *FrameError if they completed an unacceptable length.
func (f *framer) advance(n, limit int, b *budget) (*Frame, error) {
	f.got += n
	switch {
	case !f.begun() && f.got < frameHeaderSize:
		return nil, nil
	case !f.begun():
		return nil, f.begin(limit, b)
	case f.got < len(f.frame.B):
		return nil, nil
	case f.got < f.size:
		f.need = f.bounded(min(f.size, len(f.frame.B)*frameGrowth), b.account)
		f.feed(b)
		return nil, nil
	}
	frame := f.frame
	*f = framer{number: f.number}
	return frame, nil
}

// begin checks the length and takes memory.
func (f *framer) begin(limit int, b *budget) error {
	size := int32(binary.BigEndian.Uint32(f.header[:]))
	if size < minRequestSize || int64(size) > int64(limit) {
		return &FrameError{Size: size, Limit: limit}
	}
	f.got, f.size = 0, int(size)
	f.number++
	first := firstFrame
	if f.size <= connAllowance {
		first = f.size
	}
	if eager := min(f.size, eagerFrame); b.account.roomy(eager) {
		first = eager
	}
	f.need = f.bounded(first, b.account)
	f.feed(b)
	return nil
}

// bounded avoids a dead end: a step that leaves no room in the account to hold the whole frame beside it, as growing does,
// is replaced by the whole. So every frame that fits in the account fits at its end.
func (f *framer) bounded(step int, a *account) int {
	if step < f.size && int64(capacityFor(step)+capacityFor(f.size)) > a.limit {
		return f.size
	}
	return step
}

// feed takes the memory that is needed; false: there is none, and the connection waits for it.
func (f *framer) feed(b *budget) bool {
	n := int64(capacityFor(f.need))
	own, ok := b.take(n)
	if !ok {
		return false
	}
	old := f.frame
	f.frame = NewFrame(f.need)
	f.frame.charge(b, n, own)
	f.need = 0
	if old != nil {
		copy(f.frame.B, old.B)
		old.Release()
	}
	return true
}

// sharedBytes is what the unfinished frame holds of the account.
func (f *framer) sharedBytes() int64 {
	if f.frame == nil || f.frame.own {
		return 0
	}
	return f.frame.charged.Load()
}

// release gives up an unfinished frame.
func (f *framer) release(b *budget) {
	b.cancel()
	if f.frame != nil {
		f.frame.Release()
	}
	*f = framer{number: f.number}
}
