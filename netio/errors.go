package netio

import (
	"errors"
	"fmt"
)

// Reasons given to Handler.OnClose.
var (
	ErrClosed       = errors.New("netio: closed by the handler")
	ErrServerClosed = errors.New("netio: server is shutting down")
	ErrIdle         = errors.New("netio: idle for too long")
	ErrHalfClosed   = errors.New("netio: peer closed its side and an answer took too long")
	ErrShortFile    = errors.New("netio: a file ended inside a range that was promised")
)

// FrameError is a length prefix that is not acceptable; nothing was allocated for it.
type FrameError struct {
	Size  int32 // as sent
	Limit int   // largest size allowed to this connection then
}

func (e *FrameError) Error() string {
	if e.Size <= 0 {
		return fmt.Sprintf("netio: frame of %d bytes", e.Size)
	}
	return fmt.Sprintf("netio: frame of %d bytes is over the limit of %d", e.Size, e.Limit)
}

// SlowFrameError is a request that did not arrive: its peer sent too little per Options.FrameTimeout, or, in a Shortage of
// frame memory, it was one of those that held memory and made the least progress.
type SlowFrameError struct {
	Size, Received int
	Shortage       bool
}

func (e *SlowFrameError) Error() string {
	why := "it makes too little progress"
	if e.Shortage {
		why = "others need its memory and it was the slowest"
	}
	return fmt.Sprintf("netio: %d bytes of a frame of %d were received: %s", e.Received, e.Size, why)
}

// PanicError is a panic of Handler.OnRequest.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return fmt.Sprintf("netio: handler panicked: %v", e.Value) }
