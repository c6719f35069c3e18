//go:build !linux

package load

import (
	"errors"
	"time"
)

// ProcessCPU needs Linux; PID 0 is 0 everywhere.
func ProcessCPU(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	return 0, errors.ErrUnsupported
}

// ProcessRSS needs Linux.
func ProcessRSS(int) (int64, error) { return 0, errors.ErrUnsupported }
