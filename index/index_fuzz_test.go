package index

import (
	"bytes"
	"errors"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// FuzzIndexLoad: whatever the bytes of an index file are, opening it for writing keeps a valid prefix that survives another opening, and opening
// it as sealed takes all or refuses. Nothing panics.
func FuzzIndexLoad(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(make([]byte, 48))
	f.Add([]byte{0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 20})
	f.Add([]byte{0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 20, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 1, 0x90, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 1, 0x90, 0, 0, 0, 10, 0, 0, 0, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		m := newMem(t)
		put := func() { must(t, vfs.WriteFileAtomic(m, "d/x", data)) }
		get := func() []byte { return value[[]byte](t)(vfs.ReadFile(m, "d/x", 1<<20)) }

		put()
		sealed, serr := OpenSealedOffset(m, "d/x", 1000)
		x, damaged, err := OpenOffset(m, "d/x", 1000, 1<<16)
		must(t, err)
		n := x.Entries()
		checkOffsets(t, x, entriesOf(t, x))
		must(t, x.Seal())
		if !bytes.Equal(get(), data[:n*OffsetEntrySize]) {
			t.Fatal("the file is not its valid prefix")
		}
		if serr == nil && (sealed.Entries() != n || damaged || n*OffsetEntrySize != len(data)) {
			t.Fatalf("sealed has %d entries, the prefix %d, damaged %v", sealed.Entries(), n, damaged)
		}
		if serr != nil && (!errors.As(serr, new(*CorruptError)) || n*OffsetEntrySize == len(data)) {
			t.Fatalf("%v, but %d entries are valid", serr, n)
		}
		value[*Offset](t)(OpenSealedOffset(m, "d/x", 1000))

		put()
		_, serr = OpenSealedTime(m, "d/x", 1000)
		y, _, err := OpenTime(m, "d/x", 1000, 1<<16)
		must(t, err)
		if serr != nil && y.Entries()*TimeEntrySize == len(data) {
			t.Fatalf("%v, but all is valid", serr)
		}
		if last := y.Last(); last.Offset < 1000+1<<31-1 {
			must(t, y.MaybeAppend(1<<62, last.Offset+1, true))
		}
		must(t, y.Seal())
		value[*Time](t)(OpenSealedTime(m, "d/x", 1000))

		put()
		z, err := OpenTxn(m, "d/x")
		if err != nil && !errors.As(err, new(*CorruptError)) {
			t.Fatal(err)
		}
		z.Collect(nil, 0, 1<<60)
		must(t, z.TruncateTo(1<<62))
		value[*Txn](t)(OpenTxn(m, "d/x"))

		scanAll(t, m)
	})
}

func scanAll(t *testing.T, m *vfs.Mem) {
	ignore := func(err error) {
		if err != nil && !errors.As(err, new(*CorruptError)) {
			t.Fatal(err)
		}
	}
	ignore(ScanOffsets(m, "d/x", 1000, func(int, OffsetEntry, error) error { return nil }))
	ignore(ScanTimes(m, "d/x", 1000, func(int, TimeEntry, error) error { return nil }))
	ignore(ScanTxns(m, "d/x", func(int, AbortedTxn, error) error { return nil }))
}
