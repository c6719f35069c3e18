package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// Every file system passes the same tests.
func TestConformance(t *testing.T) {
	systems := map[string]func(t *testing.T) (FS, string){
		"OS":       func(t *testing.T) (FS, string) { return OS, t.TempDir() },
		"Mem":      func(t *testing.T) (FS, string) { return newMemDir(t, "/data"), "/data" },
		"FaultMem": func(t *testing.T) (FS, string) { return NewFault(newMemDir(t, "data")), "data" },
	}
	tests := map[string]func(t *testing.T, fsys FS, dir string){
		"ReadWrite":       testReadWrite,
		"OpenFlags":       testOpenFlags,
		"Writev":          testWritev,
		"Truncate":        testTruncate,
		"Allocate":        testAllocate,
		"Map":             testMap,
		"MapGrows":        testMapGrows,
		"Rename":          testRename,
		"RenameDir":       testRenameDir,
		"Remove":          testRemove,
		"RemoveAll":       testRemoveAll,
		"UnlinkedIsAlive": testUnlinkedIsAlive,
		"ReadDir":         testReadDir,
		"Stat":            testStat,
		"Sync":            testSync,
		"Closed":          testClosed,
		"Lock":            testLock,
		"Usage":           testUsage,
		"WriteFileAtomic": testWriteFileAtomic,
		"ReadFile":        testReadFile,
		"AgainstModel":    testAgainstModel,
		"ConcurrentUse":   testConcurrentUse,
	}
	for sysName, open := range systems {
		for name, test := range tests {
			t.Run(sysName+"/"+name, func(t *testing.T) {
				fsys, dir := open(t)
				test(t, fsys, dir)
			})
		}
	}
}

func newMemDir(t testing.TB, dir string) *Mem {
	t.Helper()
	m := NewMem(1)
	must(t, m.MkdirAll(dir, 0o755))
	must(t, m.SyncDir("/"))
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustBe(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func create(t testing.TB, fsys FS, name string) File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func writeAt(t testing.TB, f File, data string, off int64) {
	t.Helper()
	n, err := f.WriteAt([]byte(data), off)
	if err != nil || n != len(data) {
		t.Fatalf("WriteAt = %d, %v", n, err)
	}
}

// contentOf returns the whole content of an open file.
func contentOf(t testing.TB, f File) string {
	t.Helper()
	size, err := f.Size()
	must(t, err)
	buf := make([]byte, size)
	n, err := f.ReadAt(buf, 0)
	if n != len(buf) || err != nil && err != io.EOF {
		t.Fatalf("ReadAt = %d, %v; want %d", n, err, size)
	}
	return string(buf)
}

// read returns the content of a file, "-" when there is none.
func read(t testing.TB, fsys FS, name string) string {
	t.Helper()
	data, err := ReadFile(fsys, name, 1<<30)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	must(t, err)
	return string(data)
}

func equal[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %.200v, want %.200v", got, want)
	}
}

func testReadWrite(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	f := create(t, fsys, name)
	equal(t, f.Name(), name)
	writeAt(t, f, "hello", 0)
	writeAt(t, f, "world", 5000) // leaves a hole
	want := "hello" + string(make([]byte, 4995)) + "world"
	equal(t, contentOf(t, f), want)
	writeAt(t, f, "J", 0)
	equal(t, contentOf(t, f), "J"+want[1:])

	buf := make([]byte, 10)
	n, err := f.ReadAt(buf, 5000)
	if n != 5 || err != io.EOF || string(buf[:5]) != "world" {
		t.Fatalf("ReadAt over the end = %d, %v", n, err)
	}
	if n, err := f.ReadAt(buf, 9000); n != 0 || err != io.EOF {
		t.Fatalf("ReadAt behind the end = %d, %v", n, err)
	}
	if n, err := f.ReadAt(nil, 0); n != 0 || err != nil {
		t.Fatalf("ReadAt of nothing = %d, %v", n, err)
	}
	if _, err := f.ReadAt(buf, -1); err == nil {
		t.Fatal("ReadAt(-1) succeeded")
	}
	if _, err := f.WriteAt(buf, -1); err == nil {
		t.Fatal("WriteAt(-1) succeeded")
	}
	if n, err := f.WriteAt(nil, 100000); n != 0 || err != nil {
		t.Fatalf("WriteAt of nothing = %d, %v", n, err)
	}
	size, err := f.Size()
	must(t, err)
	equal(t, size, 5005)
}

func testOpenFlags(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	_, err := fsys.OpenFile(name, os.O_RDWR, 0)
	mustBe(t, err, fs.ErrNotExist)
	_, err = fsys.OpenFile(filepath.Join(dir, "no", "f"), os.O_RDWR|os.O_CREATE, 0o644)
	mustBe(t, err, fs.ErrNotExist)
	_, err = fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	mustBe(t, err, errors.ErrUnsupported)

	f := create(t, fsys, name)
	writeAt(t, f, "abc", 0)
	equal(t, contentOf(t, create(t, fsys, name)), "abc")
	_, err = fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	mustBe(t, err, fs.ErrExist)

	r, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	must(t, err)
	defer r.Close()
	equal(t, contentOf(t, r), "abc")
	if _, err := r.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("wrote to a file opened for reading")
	}
	if _, err := r.Map(4096); err == nil {
		t.Fatal("mapped a file opened for reading")
	}
	w, err := fsys.OpenFile(name, os.O_RDWR|os.O_TRUNC, 0)
	must(t, err)
	defer w.Close()
	equal(t, contentOf(t, f), "")
}

func testWritev(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"))
	check := func(off int64, sizes ...int) {
		t.Helper()
		must(t, f.Truncate(0))
		var bufs [][]byte
		want := make([]byte, off)
		for i, n := range sizes {
			b := bytes.Repeat([]byte{byte(i + 1)}, n)
			bufs = append(bufs, b)
			want = append(want, b...)
		}
		n, err := f.WritevAt(bufs, off)
		must(t, err)
		equal(t, n, int64(len(want))-off)
		if n > 0 {
			equal(t, contentOf(t, f), string(want))
		}
		for i, b := range bufs {
			equal(t, len(b), sizes[i])
		}
	}
	check(0)
	check(0, 0, 0)
	check(7, 5)
	check(3, 1, 0, 4096, 2, 0)
	many := make([]int, 2500) // more than IOV_MAX
	for i := range many {
		many[i] = i % 13
	}
	check(100, many...)
	if _, err := f.WritevAt([][]byte{{1}, {2}}, -1); err == nil {
		t.Fatal("WritevAt(-1) succeeded")
	}
}

func testTruncate(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"))
	writeAt(t, f, string(bytes.Repeat([]byte{1}, 10000)), 0)
	must(t, f.Truncate(5000))
	must(t, f.Truncate(9000))
	equal(t, contentOf(t, f), string(bytes.Repeat([]byte{1}, 5000))+string(make([]byte, 4000)))
	must(t, f.Truncate(0))
	equal(t, contentOf(t, f), "")
	if err := f.Truncate(-1); err == nil {
		t.Fatal("Truncate(-1) succeeded")
	}
}

func testAllocate(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"))
	writeAt(t, f, "abc", 0)
	must(t, f.Allocate(0, 10000))
	equal(t, contentOf(t, f), "abc"+string(make([]byte, 9997)))
	must(t, f.Allocate(1, 5)) // changes nothing
	equal(t, contentOf(t, f), "abc"+string(make([]byte, 9997)))
	must(t, f.Allocate(20000, 1))
	equal(t, contentOf(t, f), "abc"+string(make([]byte, 19998)))
	if err := f.Allocate(0, 0); err == nil {
		t.Fatal("Allocate of nothing succeeded")
	}
}

func testMap(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	f := create(t, fsys, name)
	writeAt(t, f, "before", 0)
	must(t, f.Allocate(0, 8192))
	r, err := f.Map(8192)
	must(t, err)
	mem := r.Bytes()
	equal(t, len(mem), 8192)
	equal(t, string(mem[:6]), "before")

	copy(mem[4090:], "mapped across pages")
	buf := make([]byte, 19)
	_, err = f.ReadAt(buf, 4090)
	must(t, err)
	equal(t, string(buf), "mapped across pages")
	writeAt(t, f, "WRITTEN", 4090)
	equal(t, string(mem[4090:4109]), "WRITTENacross pages")

	must(t, r.Sync())
	must(t, f.Close())
	copy(mem, "BEFORE") // a region outlives its file
	must(t, r.Close())
	mustBe(t, r.Close(), fs.ErrClosed)
	equal(t, read(t, fsys, name)[:6], "BEFORE")
	if _, err := create(t, fsys, name).Map(0); err == nil {
		t.Fatal("Map(0) succeeded")
	}
}

// The way an index uses it: mapped at its maximum once, allocated in steps, trimmed at the end.
func testMapGrows(t *testing.T, fsys FS, dir string) {
	if runtime.GOOS == "windows" {
		t.Skip("a file cannot be truncated there while it is mapped")
	}
	name := filepath.Join(dir, "f")
	f := create(t, fsys, name)
	r, err := f.Map(1 << 20)
	must(t, err)
	var want []byte
	for step := int64(0); step < 4; step++ {
		must(t, f.Allocate(step*8192, 8192))
		part := bytes.Repeat([]byte{byte('a' + step)}, 8192)
		must(t, Guard(name, func() { copy(r.Bytes()[step*8192:], part) }))
		want = append(want, part...)
	}
	equal(t, contentOf(t, f), string(want))
	must(t, f.Truncate(10000))
	must(t, f.Allocate(0, 16384))
	must(t, Guard(name, func() {
		if !bytes.Equal(r.Bytes()[:10000], want[:10000]) || !bytes.Equal(r.Bytes()[10000:16384], make([]byte, 6384)) {
			t.Error("the mapping does not show the cut")
		}
	}))
	must(t, r.Close())
	r, err = f.Map(2 << 20) // longer, now that the other one is gone
	must(t, err)
	must(t, Guard(name, func() { equal(t, string(r.Bytes()[:10000]), string(want[:10000])) }))
	must(t, r.Close())
}

func testRename(t *testing.T, fsys FS, dir string) {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	fa := create(t, fsys, a)
	writeAt(t, fa, "A", 0)
	writeAt(t, create(t, fsys, b), "B", 0)
	must(t, fsys.Rename(a, b))
	equal(t, read(t, fsys, a), "-")
	equal(t, read(t, fsys, b), "A")
	writeAt(t, fa, "AA", 0) // an open file follows
	equal(t, read(t, fsys, b), "AA")
	must(t, fsys.Rename(b, b))
	equal(t, read(t, fsys, b), "AA")
	mustBe(t, fsys.Rename(a, b), fs.ErrNotExist)
	mustBe(t, fsys.Rename(b, filepath.Join(dir, "no", "b")), fs.ErrNotExist)
	must(t, fsys.SyncDir(dir))
}

func testRenameDir(t *testing.T, fsys FS, dir string) {
	sub := filepath.Join(dir, "t-0")
	must(t, fsys.MkdirAll(sub, 0o755))
	writeAt(t, create(t, fsys, filepath.Join(sub, "f")), "x", 0)
	moved := filepath.Join(dir, "t-0.1-delete")
	must(t, fsys.Rename(sub, moved))
	equal(t, read(t, fsys, filepath.Join(moved, "f")), "x")
	_, err := fsys.Stat(sub)
	mustBe(t, err, fs.ErrNotExist)
	if err := fsys.Rename(moved, filepath.Join(moved, "below")); err == nil {
		t.Fatal("moved a directory below itself")
	}
	must(t, fsys.MkdirAll(filepath.Join(sub, "full"), 0o755))
	if err := fsys.Rename(moved, sub); err == nil {
		t.Fatal("replaced a directory that is not empty")
	}
}

func testRemove(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	mustBe(t, fsys.Remove(name), fs.ErrNotExist)
	create(t, fsys, name)
	must(t, fsys.Remove(name))
	equal(t, read(t, fsys, name), "-")
	sub := filepath.Join(dir, "sub")
	must(t, fsys.MkdirAll(sub, 0o755))
	create(t, fsys, filepath.Join(sub, "f"))
	if err := fsys.Remove(sub); err == nil {
		t.Fatal("removed a directory that is not empty")
	}
	must(t, fsys.Remove(filepath.Join(sub, "f")))
	must(t, fsys.Remove(sub))
}

func testRemoveAll(t *testing.T, fsys FS, dir string) {
	sub := filepath.Join(dir, "x", "y")
	must(t, fsys.MkdirAll(sub, 0o755))
	create(t, fsys, filepath.Join(sub, "f"))
	create(t, fsys, filepath.Join(dir, "x", "g"))
	must(t, fsys.RemoveAll(filepath.Join(dir, "x")))
	must(t, fsys.RemoveAll(filepath.Join(dir, "x")))
	must(t, fsys.RemoveAll(filepath.Join(dir, "x", "y")))
	list, err := fsys.ReadDir(dir)
	must(t, err)
	equal(t, len(list), 0)
}

func testUnlinkedIsAlive(t *testing.T, fsys FS, dir string) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed there")
	}
	name := filepath.Join(dir, "f")
	f := create(t, fsys, name)
	writeAt(t, f, "old", 0)
	must(t, fsys.Remove(name))
	writeAt(t, create(t, fsys, name), "new", 0)
	writeAt(t, f, "OLD", 0)
	equal(t, contentOf(t, f), "OLD")
	equal(t, read(t, fsys, name), "new")
}

func testReadDir(t *testing.T, fsys FS, dir string) {
	for _, name := range []string{"b", "a", "c"} {
		writeAt(t, create(t, fsys, filepath.Join(dir, name)), name+name, 0)
	}
	must(t, fsys.MkdirAll(filepath.Join(dir, "aa"), 0o755))
	list, err := fsys.ReadDir(dir)
	must(t, err)
	want := []DirEntry{{"a", false, 2}, {"aa", true, 0}, {"b", false, 2}, {"c", false, 2}}
	if !slices.Equal(list, want) {
		t.Fatalf("got %v, want %v", list, want)
	}
	_, err = fsys.ReadDir(filepath.Join(dir, "no"))
	mustBe(t, err, fs.ErrNotExist)
	if _, err = fsys.ReadDir(filepath.Join(dir, "a")); err == nil {
		t.Fatal("listed a file")
	}
}

func testStat(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	_, err := fsys.Stat(name)
	mustBe(t, err, fs.ErrNotExist)
	writeAt(t, create(t, fsys, name), "abc", 0)
	when := time.UnixMilli(1700000000123)
	must(t, fsys.SetModTime(name, when))
	info, err := fsys.Stat(name)
	must(t, err)
	if info.Size != 3 || info.IsDir || info.ModTime.UnixMilli() != when.UnixMilli() {
		t.Fatalf("got %+v", info)
	}
	info, err = fsys.Stat(dir)
	must(t, err)
	if !info.IsDir || info.Size != 0 {
		t.Fatalf("got %+v", info)
	}
	mustBe(t, fsys.SetModTime(filepath.Join(dir, "no"), when), fs.ErrNotExist)
}

func testSync(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"))
	writeAt(t, f, "abc", 0)
	must(t, f.StartWriteback(0, 3))
	must(t, f.Sync())
	must(t, fsys.SyncDir(dir))
	if err := fsys.SyncFS(dir); err != nil {
		mustBe(t, err, errors.ErrUnsupported)
	}
	fsys.OwnFS(dir)
	mustBe(t, fsys.SyncDir(filepath.Join(dir, "no")), fs.ErrNotExist)
	f.Prefetch(0, 3)
	if !f.Cached(0, 3) {
		t.Error("what was just written is not cached")
	}
}

func testClosed(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"))
	must(t, f.Close())
	mustBe(t, f.Close(), fs.ErrClosed)
	_, err := f.ReadAt(make([]byte, 1), 0)
	mustBe(t, err, fs.ErrClosed)
	_, err = f.WriteAt(make([]byte, 1), 0)
	mustBe(t, err, fs.ErrClosed)
	_, err = f.WritevAt([][]byte{{1}, {2}}, 0)
	mustBe(t, err, fs.ErrClosed)
	_, err = f.Size()
	mustBe(t, err, fs.ErrClosed)
	_, err = f.Map(4096)
	mustBe(t, err, fs.ErrClosed)
	mustBe(t, f.Sync(), fs.ErrClosed)
	mustBe(t, f.Truncate(0), fs.ErrClosed)
	mustBe(t, f.Allocate(0, 1), fs.ErrClosed)
	if runtime.GOOS == "linux" {
		mustBe(t, f.StartWriteback(0, 1), fs.ErrClosed)
	}
	if fd, ok := f.Fd(); ok {
		t.Fatalf("a closed file has descriptor %d", fd)
	}
	f.Prefetch(0, 1)
	f.Cached(0, 1)
}

func testLock(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, ".lock")
	l, err := fsys.Lock(name)
	must(t, err)
	_, err = fsys.Lock(name)
	var held *LockedError
	if !errors.As(err, &held) || held.Path != name {
		t.Fatalf("second lock: %v", err)
	}
	host, _ := os.Hostname()
	equal(t, held.Holder, fmt.Sprintf("pid %d on %s", os.Getpid(), host))
	must(t, l.Close())
	mustBe(t, l.Close(), fs.ErrClosed)
	l, err = fsys.Lock(name) // the file is still there: it is no lock by itself
	must(t, err)
	must(t, l.Close())
}

func testUsage(t *testing.T, fsys FS, dir string) {
	u, err := fsys.Usage(dir)
	must(t, err)
	if u.Total <= 0 || u.Free < 0 || u.Free > u.Total {
		t.Fatalf("got %+v", u)
	}
	if _, err := fsys.Usage(filepath.Join(dir, "no")); err == nil {
		t.Fatal("usage of a missing directory")
	}
}

func testWriteFileAtomic(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	for _, data := range []string{"one", "", "twotwotwo"} {
		must(t, WriteFileAtomic(fsys, name, []byte(data)))
		equal(t, read(t, fsys, name), data)
		equal(t, read(t, fsys, name+TempSuffix), "-")
	}
	mustBe(t, WriteFileAtomic(fsys, filepath.Join(dir, "no", "f"), nil), fs.ErrNotExist)
}

func testReadFile(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	_, err := ReadFile(fsys, name, 10)
	mustBe(t, err, fs.ErrNotExist)
	must(t, WriteFileAtomic(fsys, name, []byte("0123456789")))
	data, err := ReadFile(fsys, name, 10)
	must(t, err)
	equal(t, string(data), "0123456789")
	_, err = ReadFile(fsys, name, 9)
	var large *TooLargeError
	if !errors.As(err, &large) || *large != (TooLargeError{name, 10, 9}) {
		t.Fatalf("got %v", err)
	}
}

// Random operations on one file, through the file and through a mapping, compared with a byte slice.
func testAgainstModel(t *testing.T, fsys FS, dir string) {
	const mapped = 64 << 10
	name := filepath.Join(dir, "f")
	f := create(t, fsys, name)
	r, err := f.Map(mapped)
	must(t, err)
	defer r.Close()
	if size, _ := f.Size(); size != 0 {
		t.Skip("mapping grows the file here")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var model []byte
	grow := func(n int64) {
		if n > int64(len(model)) {
			model = append(model, make([]byte, n-int64(len(model)))...)
		}
	}
	for i := range 3000 {
		off, p := rng.Int64N(100<<10), bytes.Repeat([]byte{byte(i + 1)}, 1+rng.IntN(9000))
		switch rng.IntN(8) {
		case 0, 1:
			writeAt(t, f, string(p), off)
			grow(off + int64(len(p)))
			copy(model[off:], p)
		case 2:
			_, err := f.WritevAt([][]byte{p[:len(p)/2], p[len(p)/2:]}, off)
			must(t, err)
			grow(off + int64(len(p)))
			copy(model[off:], p)
		case 3:
			must(t, f.Truncate(off))
			grow(off)
			model = model[:off:off]
		case 4:
			must(t, f.Allocate(off, int64(len(p))))
			grow(off + int64(len(p)))
		case 5:
			if rng.IntN(10) == 0 {
				must(t, f.Sync())
			}
		default:
			if end := min(off+int64(len(p)), int64(len(model)), mapped); off < end {
				must(t, Guard(name, func() { copy(r.Bytes()[off:end], p) }))
				copy(model[off:end], p)
			}
		}
		if i%16 == 0 {
			equal(t, contentOf(t, f), string(model))
			n := min(mapped, len(model))
			must(t, Guard(name, func() {
				if !bytes.Equal(r.Bytes()[:n], model[:n]) {
					t.Fatal("the mapping shows something else")
				}
			}))
		}
	}
}

// Several goroutines write and read their own parts of a file while it is closed: nothing but success or ErrClosed.
func testConcurrentUse(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"))
	errs := make(chan error)
	started := make(chan struct{}, 4)
	for g := range int64(4) {
		go func() {
			p := bytes.Repeat([]byte{byte(g)}, 3000)
			for i := 0; ; i++ {
				if _, err := f.WritevAt([][]byte{p, p}, g*6000); err != nil {
					errs <- err
					return
				}
				got := make([]byte, 6000)
				if _, err := f.ReadAt(got, g*6000); err != nil {
					errs <- err
					return
				}
				if !bytes.Equal(got, append(p, p...)) {
					errs <- errors.New("read something else than written")
					return
				}
				if i == 10 {
					started <- struct{}{}
				}
			}
		}()
	}
	for range 4 {
		select {
		case <-started:
		case err := <-errs:
			t.Fatal(err)
		}
	}
	must(t, f.Close())
	for range 4 {
		mustBe(t, <-errs, fs.ErrClosed)
	}
}
