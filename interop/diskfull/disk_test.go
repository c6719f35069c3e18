//go:build linux

package diskfull

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leatmq/leat/interop/harness"
)

const diskBytes = 64 << 20

// disk is a small file system, mounted while the test runs.
type disk struct {
	t    testing.TB
	root string // mount point
}

// required tells whether a machine that cannot do it fails the test.
func required() bool { return harness.Required() || os.Getenv("CI") == "true" }

func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if required() {
		t.Fatalf("required here: "+format, args...)
	}
	t.Skipf(format, args...)
}

// mount makes a file system of a kind: tmpfs, or ext4 on a loop device.
func mount(t testing.TB, kind string) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "mounting a file system needs root")
	}
	dir := t.TempDir()
	d := &disk{t: t, root: filepath.Join(dir, "disk")}
	if err := os.Mkdir(d.root, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"-t", "tmpfs", "-o", fmt.Sprintf("size=%d", diskBytes), "tmpfs", d.root}
	if kind == "ext4" {
		harness.Need(t, "mkfs.ext4")
		image := filepath.Join(dir, "image")
		if err := os.WriteFile(image, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(image, diskBytes); err != nil {
			t.Fatal(err)
		}
		harness.Program(t, limit, nil, "mkfs.ext4", "-q", "-m", "0", "-N", "4096", image)
		args = []string{"-o", "loop", image, d.root}
	}
	if out, err := harness.TryProgram(limit, nil, "mount", args...); err != nil {
		missing(t, "a %s file system cannot be mounted: %v %s", kind, err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.root, 0); err != nil {
			_ = unix.Unmount(d.root, unix.MNT_DETACH)
			t.Errorf("unmount: %v", err)
		}
	})
	return d
}

// link makes path a name of a directory on the disk.
func (d *disk) link(path string) {
	d.t.Helper()
	target := filepath.Join(d.root, filepath.Base(path))
	if err := os.Mkdir(target, 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		d.t.Fatal(err)
	}
}

// free is how much space there is.
func (d *disk) free() int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(d.root, &s); err != nil {
		d.t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

// occupy puts a file of somebody else there that takes n bytes, or what there is, to the last block.
func (d *disk) occupy(n int64) {
	f, err := os.OpenFile(d.filler(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return
	}
	at := st.Size()
	for step, end := int64(256<<10), at+n; at < end && step >= 4<<10; {
		if unix.Fallocate(int(f.Fd()), 0, at, step) != nil {
			step /= 2
			continue
		}
		at += step
	}
}

// vacate takes it away.
func (d *disk) vacate() { os.Remove(d.filler()) }

func (d *disk) filler() string { return filepath.Join(d.root, "somebody-elses") }
