package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leatmq/leat/internal/vfs"
)

// What is enough.
const (
	doctorFilesMin  = 65536 // descriptors: README, "Open files"
	doctorFreeShare = 20    // one part in so many of a disk that is free
	doctorSyncs     = 20
	doctorSyncBytes = 4096
	doctorSyncSlow  = 50 * time.Millisecond
)

// examineMachine looks at what a broker with these log directories would find here.
func examineMachine(dirs []string) (f diagnoses) {
	for _, dir := range dirs {
		f.dir(dir)
	}
	f.files()
	f.clock()
	return f
}

// dir looks at a log directory, or at the first directory above it that exists.
func (f *diagnoses) dir(dir string) {
	check := "data directory " + dir
	at, err := filepath.Abs(dir)
	if err != nil {
		at = dir
	}
	made := true
	for {
		info, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(at) != at {
			made, at = false, filepath.Dir(at)
			continue
		}
		if err != nil {
			f.bad(check, "choose another one with --data-dir, or make it readable", "%v", err)
			return
		}
		if !info.IsDir() {
			f.bad(check, "choose another one with --data-dir", "%s is no directory", at)
			return
		}
		break
	}
	if made {
		f.ok(check, "is there")
	} else {
		f.ok(check, "is not there yet; it would be made in %s", at)
	}
	f.space(dir, at)
	if kind, fix := fileSystem(at); fix != "" {
		f.warn("file system of "+dir, fix, "%s", kind)
	} else if kind != "" {
		f.ok("file system of "+dir, "%s", kind)
	}
	f.syncs(dir, at)
}

func (f *diagnoses) space(dir, at string) {
	check := "space for " + dir
	u, err := vfs.OS.Usage(at)
	if err != nil {
		f.warn(check, "look at the file system with df", "cannot be told: %v", err)
		return
	}
	f.spaceOf(check, u.Free, u.Total)
}

// spaceOf judges how much of a disk is free.
func (f *diagnoses) spaceOf(check string, free, total int64) {
	if free < total/doctorFreeShare {
		f.bad(check, "make room, or set retention.bytes or retention.ms of the topics; a full disk refuses appends, it loses nothing", "%s of %s are free", bytesOf(&free), bytesOf(&total))
		return
	}
	f.ok(check, "%s of %s are free", bytesOf(&free), bytesOf(&total))
}

// syncs writes and syncs a small file a few times: an acknowledgement waits for such a sync.
func (f *diagnoses) syncs(dir, at string) {
	check := "syncs of " + dir
	took, err := timeSyncs(at)
	if err != nil {
		f.bad(check, "let the user who runs leat write there: chown, or another --data-dir", "a file cannot be written and synced: %v", err)
		return
	}
	median, worst := took[len(took)/2], took[len(took)-1]
	if median > doctorSyncSlow {
		f.warn(check, "use a disk with a write cache that survives a power cut, or write.caching=true for topics that may lose the last second", "4 KiB take %v, %v at worst: every acknowledgement waits for one", median, worst)
		return
	}
	f.ok(check, "4 KiB take %v, %v at worst", median, worst)
}

// timeSyncs are the times that writing and syncing takes, ascending.
func timeSyncs(dir string) (took []time.Duration, err error) {
	file, err := os.CreateTemp(dir, ".leat-doctor-")
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, file.Close(), os.Remove(file.Name()))
	}()
	block := make([]byte, doctorSyncBytes)
	for n := range int64(doctorSyncs) {
		begin := time.Now()
		if _, err := file.WriteAt(block, n*doctorSyncBytes); err != nil {
			return nil, err
		}
		if err := file.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin).Round(time.Microsecond))
	}
	slices.Sort(took)
	return took, nil
}

func (f *diagnoses) files() {
	const check = "open files"
	most, known := fileLimit()
	switch {
	case !known:
	case most < doctorFilesMin:
		f.warn(check, "raise it: ulimit -Hn 65536, or LimitNOFILE=65536 in the systemd unit", "the hard limit is %d: every connection needs one descriptor, every partition in use three", most)
	default:
		f.ok(check, "the hard limit is %d", most)
	}
}

func (f *diagnoses) clock() {
	const check = "clock"
	switch synced, known := clockSynced(); {
	case !known:
	case !synced:
		f.warn(check, "run an NTP client such as chrony or systemd-timesyncd", "the kernel says that nothing keeps it right; timestamps of records and look-ups by time go by it")
	default:
		f.ok(check, "is kept right")
	}
}
