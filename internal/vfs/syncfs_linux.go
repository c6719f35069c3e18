package vfs

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SyncFilesystem implements FilesystemSyncer.
func (o *osFile) SyncFilesystem() error {
	if err := o.enter("syncfs"); err != nil {
		return err
	}
	defer o.exit()
	for {
		// EINTR means that the call did not report anything yet. Every other error is final.
		if err := unix.Syncfs(int(o.fd)); err != unix.EINTR {
			return o.pathErr("syncfs", err)
		}
	}
}

// DirtyBytes implements DirtyMeter.
func (osFS) DirtyBytes() (n int64, known bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	dirty, ok1 := meminfo(text, "Dirty:")
	writeback, ok2 := meminfo(text, "Writeback:")
	return dirty + writeback, ok1 && ok2
}

// meminfo returns a line of /proc/meminfo, "Name:  123 kB", in bytes.
func meminfo(text []byte, name string) (n int64, ok bool) {
	for line := range bytes.Lines(text) {
		if rest, found := bytes.CutPrefix(line, []byte(name)); found {
			number, unit, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
			kib, err := strconv.ParseInt(string(number), 10, 53)
			return kib << 10, err == nil && string(unit) == "kB"
		}
	}
	return 0, false
}
