//go:build unix

package soak

import (
	"encoding/binary"
	"fmt"
	"sync"
)

// id names one record: who wrote it, and the how-manieth of that producer in that partition it is, from 0 on.
type id struct {
	producer uint32
	seq      uint32
}

const idBytes = 8

func (i id) String() string { return fmt.Sprintf("producer %d record %d", i.producer, i.seq) }

// value is a record's value: its id, then padding that follows from it.
func (i id) value(size int) []byte {
	v := make([]byte, max(size, idBytes))
	binary.BigEndian.PutUint32(v, i.producer)
	binary.BigEndian.PutUint32(v[4:], i.seq)
	for n := idBytes; n < len(v); n++ {
		v[n] = byte(i.seq + uint32(n))
	}
	return v
}

// parseValue is the inverse of value; an error says that the bytes are not those of any record.
func parseValue(v []byte) (id, error) {
	if len(v) < idBytes {
		return id{}, fmt.Errorf("a value of %d bytes", len(v))
	}
	i := id{binary.BigEndian.Uint32(v), binary.BigEndian.Uint32(v[4:])}
	for n := idBytes; n < len(v); n++ {
		if v[n] != byte(i.seq+uint32(n)) {
			return i, fmt.Errorf("%v: byte %d is not what was written", i, n)
		}
	}
	return i, nil
}

// ledger is what the producers and readers of one partition were told.
type ledger struct {
	sync.Mutex
	acked  map[int64]id // by offset
	seen   []id         // by a reader that ran along; index is offset
	latest int64        // the highest end offset anybody was told
	errs   []error
}

const errorsMax = 10

func (l *ledger) fail(format string, args ...any) {
	if len(l.errs) < errorsMax {
		l.errs = append(l.errs, fmt.Errorf(format, args...))
	}
}

// ack notes that a producer was told that i is at offset.
func (l *ledger) ack(offset int64, i id) {
	l.Lock()
	defer l.Unlock()
	if other, twice := l.acked[offset]; twice {
		l.fail("offset %d was given to %v and to %v", offset, other, i)
	}
	l.acked[offset] = i
}

// see notes what a reader got: offsets follow each other.
func (l *ledger) see(offset int64, value []byte) {
	l.Lock()
	defer l.Unlock()
	i, err := parseValue(value)
	if err != nil {
		l.fail("offset %d: %w", offset, err)
		return
	}
	if offset != int64(len(l.seen)) {
		l.fail("the reader got offset %d after %d", offset, len(l.seen)-1)
		return
	}
	l.seen = append(l.seen, i)
}

// ended notes the end of the partition that somebody was told: it only grows.
func (l *ledger) ended(offset int64) {
	l.Lock()
	defer l.Unlock()
	if offset < l.latest {
		l.fail("the end of the partition went back from %d to %d", l.latest, offset)
	}
	l.latest = max(l.latest, offset)
}

// verify compares what the partition holds in the end, index is offset, with what was told; written is how many records each producer wrote.
func (l *ledger) verify(final []id, written map[uint32]uint32) []error {
	l.Lock()
	defer l.Unlock()
	for offset, i := range l.acked {
		if offset >= int64(len(final)) || final[offset] != i {
			l.fail("lost: %v was acknowledged at offset %d", i, offset)
		}
	}
	for offset, i := range l.seen {
		if offset >= len(final) || final[offset] != i {
			l.fail("vanished: a reader saw %v at offset %d", i, offset)
		}
	}
	if l.latest > int64(len(final)) {
		l.fail("the end of the partition was %d and is %d", l.latest, len(final))
	}
	next := map[uint32]uint32{}
	for offset, i := range final {
		switch want := next[i.producer]; {
		case i.seq < want:
			l.fail("duplicate or out of order: %v at offset %d, after its record %d", i, offset, want-1)
		case i.seq > want:
			l.fail("gap: %v at offset %d, record %d was due", i, offset, want)
		}
		next[i.producer] = max(next[i.producer], i.seq+1)
	}
	for producer, n := range written {
		if next[producer] != n {
			l.fail("producer %d wrote %d records, the last one there is %d", producer, n, int(next[producer])-1)
		}
	}
	return l.errs
}
