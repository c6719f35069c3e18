//go:build unix

package metrics

import (
	"math"
	"syscall"
)

func usage() processUsage {
	u := processUsage{cpuSeconds: -1, residentBytes: residentBytes(), openFDs: openFDs(), maxFDs: -1}
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		u.cpuSeconds = seconds(&r.Utime) + seconds(&r.Stime)
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		u.maxFDs = int64(min(uint64(limit.Cur), math.MaxInt64))
	}
	return u
}

func seconds(t *syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
