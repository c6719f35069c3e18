package netio

import "encoding/binary"

const (
	frameHeaderSize = 4
	// wholeFrameMax is the largest frame for which memory is taken at its header. A longer frame gets this much and
	// grows eightfold each time that is full, so that a peer must send an eighth of the memory it makes us take.
	wholeFrameMax  = 2 << 20
	frameGrowth    = 8
	minRequestSize = 1
)

// framer cuts a byte stream into frames. The caller copies or reads bytes into space and says how many with advance.
//
// States: frame == nil: got of the 4 header bytes are there. frame != nil: got of size bytes are there, got < len(frame.B)
// <= size. Between frames got is 0 and frame nil.
type framer struct {
	header [frameHeaderSize]byte
	got    int
	size   int
	frame  *Frame
}

// space is where the next bytes of the stream belong; it is never empty.
func (f *framer) space() []byte {
	if f.frame == nil {
		return f.header[f.got:]
	}
	return f.frame.B[f.got:]
}

// advance takes note of n bytes put at the start of space. It returns the frame that they completed, if any, which is the
// caller's from then on; a *FrameError if they completed an unacceptable length.
func (f *framer) advance(n, limit int, a *account) (*Frame, error) {
	f.got += n
	switch {
	case f.frame == nil && f.got < frameHeaderSize:
		return nil, nil
	case f.frame == nil:
		return nil, f.begin(limit, a)
	case f.got < len(f.frame.B):
		return nil, nil
	case f.got < f.size:
		f.grow(a)
		return nil, nil
	}
	frame := f.frame
	*f = framer{}
	return frame, nil
}

// begin checks the length and takes memory.
func (f *framer) begin(limit int, a *account) error {
	size := int32(binary.BigEndian.Uint32(f.header[:]))
	if size < minRequestSize || int64(size) > int64(limit) {
		return &FrameError{Size: size, Limit: limit}
	}
	f.got, f.size = 0, int(size)
	f.frame = NewFrame(min(f.size, wholeFrameMax))
	f.frame.charge(a)
	return nil
}

func (f *framer) grow(a *account) {
	old := f.frame
	f.frame = NewFrame(min(f.size, len(old.B)*frameGrowth))
	f.frame.charge(a)
	copy(f.frame.B, old.B)
	old.Release()
}

// release gives up an unfinished frame.
func (f *framer) release() {
	if f.frame != nil {
		f.frame.Release()
	}
	*f = framer{}
}
