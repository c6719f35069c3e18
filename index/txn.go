package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/leatmq/leat/internal/vfs"
)

// TxnEntrySize is the size of an entry of a transaction index in bytes.
const TxnEntrySize = 34

// txnBytesMax bounds what is read of a transaction index file: 30 million aborted transactions in one segment.
const txnBytesMax = 1 << 30

// AbortedTxn is an entry of the transaction index.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64 // of the transaction
	LastOffset       int64 // of its abort marker
	LastStableOffset int64 // of the log when the marker was written
}

// Txn is a transaction index: the aborted transactions whose marker is in the segment, in marker order. It is kept in memory; the file is
// created with the first entry and only appended to, so it is never longer than its entries unless a write failed half way.
type Txn struct {
	fsys vfs.FS
	name string

	mu struct {
		sync.RWMutex
		file    vfs.File // nil before the first entry
		entries []AbortedTxn
	}
}

// OpenTxn opens or starts the index. A file that holds anything but valid entries is a *CorruptError; x is then the valid prefix of it,
// and the rest of the file is overwritten by the next Append, Reset or TruncateTo.
func OpenTxn(fsys vfs.FS, name string) (x *Txn, err error) {
	x = &Txn{fsys: fsys, name: name}
	data, err := vfs.ReadFile(fsys, name, txnBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return nil, err
	}
	entries, problem := decodeTxns(data)
	x.mu.entries = entries
	if problem != "" {
		return x, &CorruptError{File: name, Entry: len(entries), Msg: problem}
	}
	return x, nil
}

func decodeTxns(data []byte) (entries []AbortedTxn, problem string) {
	for ; len(data) >= TxnEntrySize; data = data[TxnEntrySize:] {
		t, p := decodeTxn(data)
		if p == "" && len(entries) > 0 && t.LastOffset <= entries[len(entries)-1].LastOffset {
			p = "last offset does not increase"
		}
		if p != "" {
			return entries, p
		}
		entries = append(entries, t)
	}
	if len(data) > 0 {
		return entries, "incomplete entry"
	}
	return entries, ""
}

func decodeTxn(b []byte) (t AbortedTxn, problem string) {
	if version := int16(binary.BigEndian.Uint16(b)); version != 0 {
		return t, fmt.Sprintf("version %d is not 0", version)
	}
	t = AbortedTxn{
		ProducerID:       int64(binary.BigEndian.Uint64(b[2:])),
		FirstOffset:      int64(binary.BigEndian.Uint64(b[10:])),
		LastOffset:       int64(binary.BigEndian.Uint64(b[18:])),
		LastStableOffset: int64(binary.BigEndian.Uint64(b[26:])),
	}
	// A marker comes behind at least one record, so an all-zero entry fails here too.
	if t.ProducerID < 0 || t.FirstOffset < 0 || t.LastOffset <= t.FirstOffset {
		return t, "offsets out of order"
	}
	return t, ""
}

func encodeTxn(b []byte, t AbortedTxn) {
	binary.BigEndian.PutUint16(b, 0)
	binary.BigEndian.PutUint64(b[2:], uint64(t.ProducerID))
	binary.BigEndian.PutUint64(b[10:], uint64(t.FirstOffset))
	binary.BigEndian.PutUint64(b[18:], uint64(t.LastOffset))
	binary.BigEndian.PutUint64(b[26:], uint64(t.LastStableOffset))
}

// Append adds a transaction whose marker is behind all others'.
func (x *Txn) Append(t AbortedTxn) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.openLocked(); err != nil {
		return err
	}
	var b [TxnEntrySize]byte
	encodeTxn(b[:], t)
	if _, err := x.mu.file.WriteAt(b[:], int64(len(x.mu.entries)*TxnEntrySize)); err != nil {
		return err
	}
	x.mu.entries = append(x.mu.entries, t)
	return nil
}

func (x *Txn) openLocked() (err error) {
	if x.mu.file == nil {
		x.mu.file, err = x.fsys.OpenFile(x.name, os.O_RDWR|os.O_CREATE, 0o644)
	}
	return err
}

// Collect appends to dst the transactions with records in [from, upTo). complete tells that no later segment has another one.
func (x *Txn) Collect(dst []AbortedTxn, from, upTo int64) (txns []AbortedTxn, complete bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, t := range x.mu.entries {
		if t.LastOffset >= from && t.FirstOffset < upTo {
			dst = append(dst, t)
		}
		if t.LastStableOffset >= upTo {
			return dst, true
		}
	}
	return dst, false
}

// Entries returns the number of transactions.
func (x *Txn) Entries() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.mu.entries)
}

// TruncateTo drops the transactions whose marker is at or behind offset.
func (x *Txn) TruncateTo(offset int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := len(x.mu.entries)
	for n > 0 && x.mu.entries[n-1].LastOffset >= offset {
		n--
	}
	x.mu.entries = x.mu.entries[:n]
	if x.mu.file == nil {
		if _, err := x.fsys.Stat(x.name); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err := x.openLocked(); err != nil {
		return err
	}
	return x.mu.file.Truncate(int64(n * TxnEntrySize))
}

// Reset drops all transactions.
func (x *Txn) Reset() error { return x.TruncateTo(0) }

// Sync makes the entries durable.
func (x *Txn) Sync() error {
	x.mu.RLock()
	f := x.mu.file
	x.mu.RUnlock()
	if f == nil {
		return nil
	}
	return f.Sync()
}

// Close closes the file.
func (x *Txn) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.file == nil {
		return nil
	}
	f := x.mu.file
	x.mu.file = nil
	return f.Close()
}
