package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// holderTextLimit bounds what is read of a lock file's text.
const holderTextLimit = 256

// Lock opens (or creates) the file and takes a lock that the system drops with the process: a lock file left behind is no lock.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		defer f.Close()
		if isHeld(err) {
			return nil, &LockedError{Path: name, Holder: readHolder(f)}
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	if err := writeHolder(f); err != nil {
		unlockFile(f)
		f.Close()
		return nil, err
	}
	return &osLock{f: f}, nil
}

func readHolder(f *os.File) string {
	buf := make([]byte, holderTextLimit)
	n, _ := f.ReadAt(buf, 0) // the text only helps a human
	return strings.TrimSpace(string(buf[:n]))
}

func writeHolder(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(holderText()+"\n"), 0)
	return err
}

func holderText() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("pid %d on %s", os.Getpid(), host)
}

type osLock struct {
	once sync.Once
	f    *os.File
}

func (l *osLock) Close() error {
	err := error(&fs.PathError{Op: "unlock", Path: l.f.Name(), Err: fs.ErrClosed})
	l.once.Do(func() {
		unlockFile(l.f)
		err = l.f.Close()
	})
	return err
}
