package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileSystems that people put data on, by statfs(2), with what speaks against them.
var fileSystems = map[int64]struct{ name, fix string }{
	unix.EXT4_SUPER_MAGIC:      {"ext4", ""},
	unix.XFS_SUPER_MAGIC:       {"xfs", ""},
	unix.BTRFS_SUPER_MAGIC:     {"btrfs", "copying on write makes each sync dear: chattr +C on the empty directory, or ext4 or xfs"},
	unix.F2FS_SUPER_MAGIC:      {"f2fs", ""},
	0x2fc12fc1:                 {"zfs", ""},
	unix.TMPFS_MAGIC:           {"tmpfs: it is memory, and nothing is left of it after a restart of the machine", "put the data on a disk with --data-dir"},
	unix.RAMFS_MAGIC:           {"ramfs: it is memory, and nothing is left of it after a restart of the machine", "put the data on a disk with --data-dir"},
	unix.NFS_SUPER_MAGIC:       {"nfs: its locks and its mapped files do not do what a disk's do", "put the data on a local disk with --data-dir"},
	unix.SMB2_SUPER_MAGIC:      {"smb: its locks and its mapped files do not do what a disk's do", "put the data on a local disk with --data-dir"},
	unix.CIFS_SUPER_MAGIC:      {"cifs: its locks and its mapped files do not do what a disk's do", "put the data on a local disk with --data-dir"},
	unix.FUSE_SUPER_MAGIC:      {"fuse: what a sync means there is up to a program", "put the data on a local disk with --data-dir"},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlayfs: a container's own layer, which goes with the container", "mount a volume and point --data-dir at it"},
}

// fileSystem tells what kind of file system a directory is on, and what to do if it is no good one.
func fileSystem(dir string) (kind, fix string) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return "", ""
	}
	if known, ok := fileSystems[int64(s.Type)&0xffffffff]; ok {
		return known.name, known.fix
	}
	return fmt.Sprintf("of type %#x", s.Type), ""
}

// clockSynced asks the kernel whether something keeps its clock right.
func clockSynced() (synced, known bool) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return state != unix.TIME_ERROR, err == nil
}
