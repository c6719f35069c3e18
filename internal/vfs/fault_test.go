package vfs

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestFaultFailsTheNth(t *testing.T) {
	f := NewFault(newMemDir(t, "d"))
	third := f.Inject(Injection{Match: OfKind(OpSync), Nth: 3, Err: ErrDiskBroken})
	x := create(t, f, "d/f")
	for i := 1; i <= 5; i++ {
		if err := x.Sync(); (err != nil) != (i == 3) {
			t.Fatalf("sync %d: %v", i, err)
		}
	}
	equal(t, third.Hits(), 1)
	equal(t, f.Count(OpSync), 5)
	third.Remove()

	sticky := f.Inject(Injection{Match: OfKind(OpSync), Nth: 2, Sticky: true, Err: ErrDiskBroken})
	for i := 1; i <= 4; i++ {
		if err := x.Sync(); (err != nil) != (i >= 2) {
			t.Fatalf("sync %d: %v", i, err)
		}
	}
	equal(t, sticky.Hits(), 3)
	mustBe(t, x.Sync(), ErrDiskBroken)
	f.Clear()
	must(t, x.Sync())
}

func TestFaultShortWrites(t *testing.T) {
	f := NewFault(newMemDir(t, "d"))
	x := create(t, f, "d/f")
	f.Inject(Injection{Match: OfKind(OpWrite, OpRead), Err: ErrDiskFull, Short: 3})
	n, err := x.WriteAt([]byte("abcdef"), 0)
	mustBe(t, err, ErrDiskFull)
	equal(t, n, 3)
	n64, err := x.WritevAt([][]byte{[]byte("AB"), []byte("CD")}, 3)
	mustBe(t, err, ErrDiskFull)
	equal(t, n64, 3)
	buf := make([]byte, 6)
	n, err = x.ReadAt(buf, 0)
	mustBe(t, err, ErrDiskFull)
	equal(t, string(buf[:n]), "abc")
	f.Clear()
	equal(t, contentOf(t, x), "abcABC")
}

// Each operation can be made to fail, and then has not happened.
func TestFaultFailsEverything(t *testing.T) {
	inner := newMemDir(t, "d")
	writeAt(t, create(t, inner, "d/f"), "abc", 0)
	f := NewFault(inner)
	x := create(t, f, "d/f")
	r, err := x.Map(10)
	must(t, err)
	f.Inject(Injection{Err: ErrDiskBroken})
	f.Record()
	attempts := []func() error{
		func() error { _, err := f.OpenFile("d/new", os.O_CREATE|os.O_RDWR, 0o644); return err },
		func() error { _, err := f.OpenFile("d/f", os.O_RDONLY, 0); return err },
		func() error { return f.Rename("d/f", "d/g") },
		func() error { return f.Remove("d/f") },
		func() error { return f.RemoveAll("d") },
		func() error { return f.MkdirAll("d/x", 0o755) },
		func() error { _, err := f.ReadDir("d"); return err },
		func() error { _, err := f.Stat("d"); return err },
		func() error { return f.SetModTime("d", inner.mu.now()) },
		func() error { return f.SyncDir("d") },
		func() error { return f.SyncFS("d") },
		func() error { _, err := f.Lock("d/l"); return err },
		func() error { _, err := f.Usage("d"); return err },
		func() error { _, err := x.ReadAt(make([]byte, 1), 0); return err },
		func() error { _, err := x.WriteAt([]byte("x"), 0); return err },
		func() error { _, err := x.WritevAt([][]byte{{1}}, 0); return err },
		func() error { return x.Truncate(0) },
		func() error { return x.Allocate(0, 100) },
		func() error { return x.Sync() },
		func() error { return x.StartWriteback(0, 1) },
		func() error { _, err := x.Map(10); return err },
		func() error { return r.Sync() },
	}
	for i, attempt := range attempts {
		err := attempt()
		mustBe(t, err, ErrDiskBroken)
		if len(f.Recorded()) != i+1 {
			t.Fatalf("attempt %d was not recorded: %v", i, f.Recorded())
		}
	}
	mustBe(t, x.Close(), ErrDiskBroken)
	mustBe(t, x.Close(), ErrDiskBroken)
	f.Clear()
	mustBe(t, x.Close(), fs.ErrClosed) // the first one did close
	equal(t, fileLetters(t, inner), "f=abc")
}

func TestFaultBeforeAndRecord(t *testing.T) {
	m := newMemDir(t, "d")
	f := NewFault(m)
	var atSync string
	f.Inject(Injection{
		Match:  func(op Op) bool { return op.Kind == OpSync && strings.HasSuffix(op.Name, "/f") },
		Before: func(Op) { atSync = fileLetters(t, m.Crash(KeepAll)) },
	})
	f.Record()
	must(t, WriteFileAtomic(f, "d/f", []byte("x")))
	x := create(t, f, "d/f")
	must(t, x.Sync())
	equal(t, atSync, "f=x")
	var got []string
	for _, op := range f.Recorded() {
		got = append(got, op.String())
	}
	equal(t, strings.Join(got, "\n"), strings.Join([]string{
		"create d/f.tmp", "write d/f.tmp [0,+1)", "sync d/f.tmp", "close d/f.tmp", "rename d/f.tmp d/f", "sync-dir d", "create d/f", "sync d/f",
	}, "\n"))
	equal(t, f.Count(), 8)
}

func TestFaultCached(t *testing.T) {
	f := NewFault(newMemDir(t, "d"))
	x := create(t, f, "d/f")
	equal(t, x.Cached(0, 1), true)
	f.SetCached(func(name string, off, n int64) bool { return name != "d/f" || off+n <= 10 })
	equal(t, x.Cached(0, 10), true)
	equal(t, x.Cached(0, 11), false)
	f.SetCached(nil)
	equal(t, x.Cached(0, 11), true)
}

// Whichever operation of WriteFileAtomic fails, the file is the old or the new one.
func TestWriteFileAtomicWithFailures(t *testing.T) {
	for n := 1; ; n++ {
		m := newMemDir(t, "d")
		must(t, WriteFileAtomic(m, "d/f", []byte("old")))
		f := NewFault(m)
		i := f.Inject(Injection{Nth: n, Err: ErrDiskBroken})
		err := WriteFileAtomic(f, "d/f", []byte("new"))
		if i.Hits() == 0 {
			must(t, err)
			return
		}
		if err == nil {
			t.Fatalf("operation %d failed, WriteFileAtomic did not", n)
		}
		if got := read(t, m, "d/f"); got != "old" && got != "new" {
			t.Fatalf("operation %d failed: %q", n, got)
		}
	}
}
