// Package logtest keeps what is logged, for tests to look into.
package logtest

import (
	"bytes"
	"sync"
)

// Buffer is a writer for a log handler; any goroutine may read it meanwhile.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is all that was logged.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
