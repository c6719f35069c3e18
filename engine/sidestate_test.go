package engine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// What the tests of the side files share.

const sideDir = "d"

func newSideDir(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem(5)
	sideMust(t, m.MkdirAll(sideDir, 0o755))
	sideMust(t, m.SyncDir("/"))
	return m
}

func sideMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sidePut(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	sideMust(t, vfs.WriteFileAtomic(fsys, filepath.Join(sideDir, name), data))
}

func sideRead(t testing.TB, fsys vfs.FS, name string) string {
	t.Helper()
	data, err := vfs.ReadFile(fsys, filepath.Join(sideDir, name), 1<<20)
	sideMust(t, err)
	return string(data)
}

// kafkaFile returns a file that a Kafka 4.4 broker wrote.
func kafkaFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "kafka-4.4", name))
	sideMust(t, err)
	return data
}

func isCorruptError(err error) bool {
	var corrupt *CorruptError
	return errors.As(err, &corrupt)
}

// damaged calls fn with every truncation of data and with every byte of it changed in several ways.
func damaged(data []byte, fn func(bad []byte)) {
	for n := range data {
		fn(data[:n:n])
	}
	for i := range data {
		for _, x := range []byte{1, 0x80, 0xff, data[i] ^ '\n', data[i] ^ '9', data[i]} { // the last one makes it zero
			if x == 0 {
				continue
			}
			bad := bytes.Clone(data)
			bad[i] ^= x
			fn(bad)
		}
	}
}

// atEveryCrash runs write on a copy of the directory that setup makes, and calls check with what any crash on the way leaves, and with
// done when write has returned. check must also hold when write fails at any operation.
func atEveryCrash(t *testing.T, setup, write func(fsys vfs.FS) error, check func(after vfs.FS, done bool)) {
	t.Helper()
	m := newSideDir(t)
	sideMust(t, setup(m))
	points := 0
	crashes := func(done bool) {
		points++
		for _, mode := range vfs.CrashModes {
			for range 20 {
				check(m.Crash(mode), done)
			}
		}
	}
	m.OnOp = func(vfs.Op) { crashes(false) }
	sideMust(t, write(m))
	m.OnOp = nil
	crashes(true)
	if points < 3 {
		t.Fatalf("only %d crash points", points)
	}
	for n := 1; ; n++ {
		m := newSideDir(t)
		sideMust(t, setup(m))
		f := vfs.NewFault(m)
		hit := f.Inject(vfs.Injection{Nth: n, Err: vfs.ErrDiskBroken})
		err := write(f)
		if hit.Hits() == 0 {
			sideMust(t, err)
			return
		}
		check(m, false)
		for _, mode := range vfs.CrashModes {
			check(m.Crash(mode), err == nil)
		}
	}
}
