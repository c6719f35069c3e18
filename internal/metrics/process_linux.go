package metrics

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
)

// residentBytes is the second number of /proc/self/statm, in pages.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return -1
	}
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			return pages * int64(os.Getpagesize())
		}
	}
	return -1
}

// openFDs counts /proc/self/fd, without the one that it needs for that. There may be many: they are read in parts.
func openFDs() int64 {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return -1
	}
	defer dir.Close()
	n := int64(-1)
	for {
		names, err := dir.Readdirnames(1024)
		n += int64(len(names))
		switch {
		case errors.Is(err, io.EOF):
			return n
		case err != nil:
			return -1
		}
	}
}
