package vfs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A9, A11: an access behind the end of a truncated mapped file is an error, not the end of the process.
func TestGuardTurnsFaultsIntoErrors(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f := create(t, OS, name)
	must(t, f.Allocate(0, 64<<10))
	r, err := f.Map(64 << 10)
	must(t, err)
	defer r.Close()
	mem := r.Bytes()
	must(t, Guard(name, func() { mem[60000] = 1 }))
	must(t, f.Truncate(100))

	var fault *FaultError
	err = Guard(name, func() { mem[60000] = 2 })
	if !errors.As(err, &fault) || fault.Name != name {
		t.Fatalf("write: %v", err)
	}
	var got byte
	if err := Guard(name, func() { got = mem[60000] }); !errors.As(err, &fault) {
		t.Fatalf("read: %v, %d", err, got)
	}
	if _, err := guardedLookup(name, mem, 60000); !errors.As(err, &fault) {
		t.Fatalf("GuardEnter: %v", err)
	}
	// The routines behind copy and comparison are assembly; they fault as well.
	buf := make([]byte, 40000)
	for what, fn := range map[string]func(){
		"copy from": func() { copy(buf, mem[20000:]) },
		"copy to":   func() { copy(mem[20000:], buf) },
		"compare":   func() { sink = uint64(bytes.Compare(buf, mem[20000:60000])) },
		"clear":     func() { clear(mem[20000:]) },
		"load":      func() { sink = binary.BigEndian.Uint64(mem[59999:]) },
		"atomic":    func() { sink = atomic.LoadUint64((*uint64)(unsafe.Pointer(&mem[56000]))) },
	} {
		if err := Guard(name, fn); !errors.As(err, &fault) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must(t, Guard(name, func() { mem[50] = 3 })) // the first page is still there
	must(t, f.Allocate(0, 64<<10))
	v, err := guardedLookup(name, mem, 60000)
	must(t, err)
	equal(t, v, 0)
}

var sink uint64 // keeps the compiler from dropping loads

//go:noinline
func guardedLookup(name string, mem []byte, i int) (v byte, err error) {
	defer GuardExit(GuardEnter(), name, &err)
	return mem[i], nil
}

func TestLinuxAllocatesNothing(t *testing.T) {
	f := create(t, OS, filepath.Join(t.TempDir(), "f"))
	bufs := [][]byte{make([]byte, 100), make([]byte, 5000), make([]byte, 3)}
	buf := make([]byte, 5103)
	mem := make([]byte, 10)
	check := func(what string, fn func()) {
		t.Helper()
		if n := testing.AllocsPerRun(200, fn); n >= 1 { // the pools may be emptied by a collection in between
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	check("WritevAt", func() { f.WritevAt(bufs, 0) })
	check("WritevAt of one", func() { f.WritevAt(bufs[:1], 0) })
	check("ReadAt", func() { f.ReadAt(buf, 0) })
	check("WriteAt", func() { f.WriteAt(buf, 0) })
	check("Cached", func() { f.Cached(0, 5103) })
	check("Sync", func() { f.Sync() })
	check("Prefetch", func() { f.Prefetch(0, 5103) })
	check("StartWriteback", func() { f.StartWriteback(0, 5103) })
	check("Guard", func() { Guard("x", func() { mem[3]++ }) })
	check("GuardEnter", func() { guardedLookup("x", mem, 3) })
}

func TestCachedSeesEviction(t *testing.T) {
	dir := t.TempDir()
	f := create(t, OS, filepath.Join(dir, "f"))
	const n = 3 << 20
	writeAt(t, f, strings.Repeat("x", n), 0)
	must(t, f.Sync())
	fd, _ := f.Fd()
	for _, useMincore := range []bool{false, true} {
		noCachestat.Store(useMincore)
		defer noCachestat.Store(false)
		f.ReadAt(make([]byte, n), 0)
		if !f.Cached(0, n) || !f.Cached(n-1, 1) {
			t.Fatalf("mincore %t: what was just read is not cached", useMincore)
		}
		must(t, unix.Fadvise(int(fd), 2<<20, 1<<20, unix.FADV_DONTNEED))
		if f.Cached(0, n) || f.Cached(2<<20, 1) {
			t.Skipf("mincore %t: the file system keeps its pages whatever it is told", useMincore)
		}
		if !f.Cached(0, 1<<20) {
			t.Errorf("mincore %t: the part that was not evicted is not cached", useMincore)
		}
	}
}

func TestAllocateTakesSpace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f := create(t, OS, name)
	must(t, f.Allocate(0, 1<<20))
	var s unix.Stat_t
	must(t, unix.Stat(name, &s))
	if s.Blocks*512 < 1<<20 {
		t.Fatalf("only %d bytes are allocated", s.Blocks*512)
	}
}

func TestAllocateByWriting(t *testing.T) {
	f := create(t, OS, filepath.Join(t.TempDir(), "f"))
	writeAt(t, f, "abc", 0)
	must(t, allocateByWriting(f, 0, 3<<20))
	equal(t, contentOf(t, f), "abc"+strings.Repeat("\x00", 3<<20-3))
	must(t, allocateByWriting(f, 4<<20, 5))
	size, err := f.Size()
	must(t, err)
	equal(t, size, 4<<20+5)
	n, err := writevByWriteAt(f, [][]byte{[]byte("x"), nil, []byte("yz")}, 1)
	must(t, err)
	equal(t, n, 3)
	equal(t, contentOf(t, f)[:5], "axyz\x00")
}

// The helper process of TestLockOfAnotherProcess.
func TestLockHelper(t *testing.T) {
	name := os.Getenv("VFS_TEST_LOCK")
	if name == "" {
		t.Skip("only runs as a helper process")
	}
	if os.Getenv("VFS_TEST_POSIX") != "" {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		must(t, err)
		must(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	} else {
		_, err := OS.Lock(name)
		must(t, err)
	}
	os.Stdout.WriteString("locked\n")
	os.Stdin.Read(make([]byte, 1)) // until killed
}

// A lock of another process is respected, ours (flock) and the one a Kafka broker takes (POSIX), and ends with that process.
func TestLockOfAnotherProcess(t *testing.T) {
	for _, posix := range []string{"", "1"} {
		name := filepath.Join(t.TempDir(), ".lock")
		cmd := exec.Command(os.Args[0], "-test.run=^TestLockHelper$")
		cmd.Env = append(os.Environ(), "VFS_TEST_LOCK="+name, "VFS_TEST_POSIX="+posix)
		stdin, err := cmd.StdinPipe()
		must(t, err)
		stdout, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil || line != "locked\n" {
			t.Fatalf("helper said %q, %v", line, err)
		}
		_, err = OS.Lock(name)
		var held *LockedError
		if !errors.As(err, &held) {
			t.Fatalf("posix %q: locked what another process holds: %v", posix, err)
		}
		if posix == "" && !strings.HasPrefix(held.Holder, "pid ") {
			t.Fatalf("holder is %q", held.Holder)
		}
		must(t, cmd.Process.Kill())
		cmd.Wait()
		stdin.Close()
		l, err := OS.Lock(name)
		must(t, err)
		must(t, l.Close())
	}
}

func TestIovecs(t *testing.T) {
	iov := new(iovecs)
	bufs := make([][]byte, iovMax+10)
	for i := range bufs {
		bufs[i] = make([]byte, 2)
	}
	count, n := fillIovecs(iov, bufs, 1)
	equal(t, count, iovMax)
	equal(t, n, 2*iovMax-1)
	rest, skip := advance(bufs, 1, 2)
	equal(t, len(rest), len(bufs)-1)
	equal(t, skip, 1)
	rest, skip = advance(rest, skip, 1)
	equal(t, len(rest), len(bufs)-2)
	equal(t, skip, 0)
	rest, _ = advance(bufs[:2], 0, 4)
	equal(t, len(rest), 0)
}

func BenchmarkGuard(b *testing.B) {
	mem := make([]byte, 100)
	b.Run("closure", func(b *testing.B) {
		for b.Loop() {
			Guard("x", func() { mem[3]++ })
		}
	})
	b.Run("enter-exit", func(b *testing.B) {
		for b.Loop() {
			guardedLookup("x", mem, 3)
		}
	})
}

func BenchmarkWritev(b *testing.B) {
	f := create(b, OS, filepath.Join(b.TempDir(), "f"))
	bufs := [][]byte{make([]byte, 1000), make([]byte, 1000), make([]byte, 1000), make([]byte, 1000)}
	b.ReportAllocs()
	for b.Loop() {
		f.WritevAt(bufs, 0)
	}
}
