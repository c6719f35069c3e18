package index

import (
	"errors"
	"fmt"
)

// ErrFull says that the index has no room for another entry: time to roll.
var ErrFull = errors.New("index: full")

// CorruptError says that an index file is not what its writer left: it has to be rebuilt.
type CorruptError struct {
	File  string
	Entry int // the first entry at fault
	Msg   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("index %s is corrupt at entry %d: %s", e.File, e.Entry, e.Msg)
}
