//go:build unix

package engine

import "syscall"

// descriptorsMax is how many files the process may have open. The Go runtime has raised it to the hard limit.
func descriptorsMax() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20))
}
