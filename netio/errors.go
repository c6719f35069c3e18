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

// PanicError is a panic of Handler.OnRequest.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return fmt.Sprintf("netio: handler panicked: %v", e.Value) }
