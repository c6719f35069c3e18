package index

import (
	"errors"

	"github.com/leatmq/leat/internal/vfs"
)

// The functions of this file read index files offline, as they are: for dump and verify.

// ErrUnused is given to a scan for the rest of a file that holds only zeros: space allocated ahead.
var ErrUnused = errors.New("index: only zeros from here on")

// scanBytesMax bounds the index files that are read offline.
const scanBytesMax = 1 << 30

// ScanOffsets calls fn for every 8 bytes of an offset index file: the entry, and what is wrong with it, a *CorruptError, if something is.
// ErrUnused ends the scan, with entry number i.
func ScanOffsets(fsys vfs.FS, name string, base int64, fn func(i int, e OffsetEntry, problem error) error) error {
	x := Offset{table: table{base: base}}
	return scan(fsys, name, &offsetColumns, func(i int, entry []byte, problem error) error {
		return fn(i, x.decode(entry), problem)
	})
}

// ScanTimes is ScanOffsets for a time index file.
func ScanTimes(fsys vfs.FS, name string, base int64, fn func(i int, e TimeEntry, problem error) error) error {
	x := Time{table: table{base: base}}
	return scan(fsys, name, &timeColumns, func(i int, entry []byte, problem error) error {
		return fn(i, x.decode(entry), problem)
	})
}

func scan(fsys vfs.FS, name string, c *columns, fn func(i int, entry []byte, problem error) error) error {
	data, err := vfs.ReadFile(fsys, name, scanBytesMax)
	if err != nil {
		return err
	}
	var prev []byte
	i := 0
	for ; (i+1)*c.width <= len(data); i++ {
		cur := data[i*c.width : (i+1)*c.width]
		if allZero(data[i*c.width:]) {
			return fn(i, cur, ErrUnused)
		}
		if err := fn(i, cur, asCorrupt(name, i, c.check(prev, cur))); err != nil {
			return err
		}
		prev = cur
	}
	if len(data)%c.width != 0 {
		return &CorruptError{File: name, Entry: i, Msg: "incomplete entry"}
	}
	return nil
}

func asCorrupt(name string, i int, msg string) error {
	if msg == "" {
		return nil
	}
	return &CorruptError{File: name, Entry: i, Msg: msg}
}

// ScanTxns calls fn for every entry of a transaction index file.
func ScanTxns(fsys vfs.FS, name string, fn func(i int, t AbortedTxn, problem error) error) error {
	data, err := vfs.ReadFile(fsys, name, scanBytesMax)
	if err != nil {
		return err
	}
	i := 0
	for ; (i+1)*TxnEntrySize <= len(data); i++ {
		t, problem := decodeTxn(data[i*TxnEntrySize:])
		if err := fn(i, t, asCorrupt(name, i, problem)); err != nil {
			return err
		}
	}
	if len(data)%TxnEntrySize != 0 {
		return &CorruptError{File: name, Entry: i, Msg: "incomplete entry"}
	}
	return nil
}
