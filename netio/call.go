package netio

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/netip"
	"sync/atomic"

	"github.com/leatmq/leat/internal/invariant"
)

// Handler is what the frames are for. Its methods run on an event loop (epoll) or on the connection's reader goroutine
// (net), one connection's requests in order, and must not block.
type Handler interface {
	// OnRequest gets one frame. The call must be completed exactly once, now or later, from any goroutine.
	OnRequest(c *Call)
	// OnClose tells that c is gone; no OnRequest of c follows. err is the reason: io.EOF (the peer closed),
	// io.ErrUnexpectedEOF (inside a frame), ErrClosed (Conn.Close or Response.Close), ErrServerClosed, ErrIdle,
	// ErrHalfClosed, ErrShortFile, *FrameError, *PanicError, or an error of the operating system.
	OnClose(c Conn, err error)
}

// Conn is one connection. All methods may be called from any goroutine.
type Conn interface {
	// ID is unique in the life of the process.
	ID() uint64
	// Principal is what SetPrincipal stored, nil before that. While it is nil, Options.MaxFrameUnauthenticated is the
	// limit of a frame, if that is set.
	Principal() any
	SetPrincipal(p any)
	// Data is the handler's own state of the connection.
	Data() any
	SetData(d any)
	// RemoteAddr is "address:port" of the peer.
	RemoteAddr() string
	// RemoteIP is the peer's address, IPv4 also where it arrived mapped into IPv6; the zero Addr where there is none.
	RemoteIP() netip.Addr
	// LocalAddr is the address by which the peer reached us; invalid where the transport has none.
	LocalAddr() netip.AddrPort
	// TLSState is nil on a connection without TLS.
	TLSState() *tls.ConnectionState
	// Mute stops OnRequest: called inside OnRequest, no further request is delivered until Unmute. Mutes are counted; each
	// needs its Unmute.
	Mute()
	Unmute()
	// Close drops the connection and everything not yet sent. It does not wait.
	Close()
}

// FileRef is a reference to a file that stays readable until Release (a segment with a reference taken).
type FileRef interface {
	// Fd is the descriptor for sendfile; false where there is none (an in-memory file), then ReadAt is used.
	Fd() (uintptr, bool)
	// ReadAt is io.ReaderAt's.
	ReadAt(p []byte, off int64) (int, error)
	Release()
}

// Part is a piece of an answer: the bytes B, or, when File is set, N bytes of File from offset Off. A range must be in the
// page cache (or quick to read) when the call is completed, and must not reach past what the file will keep.
type Part struct {
	B    []byte
	File FileRef
	Off  int64
	N    int
}

// Response is the answer to one request: Body, then Parts. Size prefixes and headers are the handler's. A part's B must
// not alias the request's frame unless that was taken (Call.TakeFrame) and is released by Buffer or Release.
type Response struct {
	Body    []byte // first bytes; all there is in most answers
	Parts   []Part // what follows; netio may change its elements
	Buffer  *Frame // released when the answer has left or is dropped; usually what Body is a part of
	Release func() // runs once, last, when the answer has left or is dropped; from any goroutine; may be nil
	Close   bool   // close the connection when this answer is out; later requests are not read
	None    bool   // nothing is sent (acks=0); Body and Parts must be empty
}

// A call's state is its use count times callUse plus one of these. The count tells a handler that panics late from the next
// use of the same Call.
const (
	callOpen      = iota // the handler has it
	callCompleted        // netio has it
	callAbandoned        // the handler panicked; a late Complete only releases
	callUse       = 4
)

// Call is one request on its way to its answer. See the package comment for who owns it when.
type Call struct {
	Conn  Conn
	Frame *Frame // the request without its length; nil after TakeFrame
	User  any    // the handler's; kept when the Call is reused

	owner callOwner
	state atomic.Uint32
	resp  Response

	next      *Call // younger request of the same connection; guarded by the pipeline's owner
	ready     *Call // link in a loop's stack of completed calls
	done      bool  // response present; guarded by the pipeline's owner
	frameSize int   // bytes of the request, for the in-flight limit
	queued    int   // bytes of the response in memory
	part, off int   // the next byte to send: offset off in piece part (0 is Body, i is Parts[i-1])
}

// callOwner is the driver's side of a connection.
type callOwner interface {
	// completed takes over a call whose response is set. Any goroutine.
	completed(c *Call)
	isClosed() bool
}

// Complete answers the request. It may be called from any goroutine, exactly once; the call must not be used afterwards.
// If the connection is gone the response is released at once or soon.
func (c *Call) Complete(r Response) {
	invariant.Check(!r.None || len(r.Body) == 0 && len(r.Parts) == 0, "netio: Response.None with bytes to send")
	s := c.state.Load()
	if s%callUse != callOpen || !c.state.CompareAndSwap(s, s+callCompleted) {
		invariant.Must(c.state.Load()%callUse == callAbandoned, "netio: Call completed twice")
		r.drop()
		return
	}
	if f := c.Frame; f != nil {
		c.Frame = nil
		f.Release()
	}
	c.resp = r
	c.owner.completed(c)
}

// Reply completes the call with the bytes of f, and releases f when they are out.
func (c *Call) Reply(f *Frame) { c.Complete(Response{Body: f.B, Buffer: f}) }

// Canceled tells that the connection is gone, so nobody will read the answer. Complete must still be called.
func (c *Call) Canceled() bool { return c.owner.isClosed() }

// TakeFrame makes the caller the owner of the request's frame; Complete will not release it. Take it before the call is
// shared with another goroutine.
func (c *Call) TakeFrame() *Frame {
	f := c.Frame
	c.Frame = nil
	return f
}

// pieces is the number of pieces the response has, Body included.
func (c *Call) pieces() int { return 1 + len(c.resp.Parts) }

// piece returns piece i as bytes or as a file range of n bytes.
func (c *Call) piece(i int) (b []byte, file FileRef, off int64, n int) {
	if i == 0 {
		return c.resp.Body, nil, 0, len(c.resp.Body)
	}
	p := &c.resp.Parts[i-1]
	if p.File != nil {
		return nil, p.File, p.Off, p.N
	}
	return p.B, nil, 0, len(p.B)
}

// releasePiece gives back the file of piece i, which is out.
func (c *Call) releasePiece(i int) {
	if i == 0 {
		return
	}
	p := &c.resp.Parts[i-1]
	if f := p.File; f != nil {
		p.File, p.N = nil, 0
		f.Release()
	}
}

// inMemory is the number of bytes the response holds in memory.
func (r *Response) inMemory() int {
	n := len(r.Body)
	for i := range r.Parts {
		n += len(r.Parts[i].B)
	}
	return n
}

// drop releases whatever the response still holds.
func (r *Response) drop() {
	for i := range r.Parts {
		if f := r.Parts[i].File; f != nil {
			r.Parts[i].File, r.Parts[i].N = nil, 0
			f.Release()
		}
	}
	buffer, release := r.Buffer, r.Release
	*r = Response{}
	if buffer != nil {
		buffer.Release()
	}
	if release != nil {
		release()
	}
}

// readRange fills b from the file.
func readRange(file FileRef, b []byte, off int64) error {
	n, err := file.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || err == io.EOF:
		return ErrShortFile
	}
	return fmt.Errorf("netio: reading a range to send: %w", err)
}
