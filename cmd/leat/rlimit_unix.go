//go:build unix

package main

import (
	"log/slog"
	"syscall"
)

// raiseFileLimit takes all the descriptors that the system lets the process have: every connection and every open segment needs one.
func raiseFileLimit(logger *slog.Logger) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur >= l.Max {
		return
	}
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		logger.Warn("the limit of open files could not be raised", "limit", l.Cur, "error", err)
	}
}

// fileLimit is how many descriptors a process may have at most.
func fileLimit() (most uint64, known bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return uint64(l.Max), err == nil
}
