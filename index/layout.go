package index

import (
	"encoding/binary"
	"math"

	"github.com/leatmq/leat/internal/invariant"
)

const (
	// OffsetEntrySize is the size of an entry of an offset index in bytes.
	OffsetEntrySize = 8
	// TimeEntrySize is the size of an entry of a time index in bytes.
	TimeEntrySize = 12

	// warmBytes is the end of an index searched first: nearly all lookups are for its tail, and these pages stay in memory.
	warmBytes = 8 << 10
	// pageBytes is the unit read from a sealed index; pages hold whole entries only, so those of a time index are 4 bytes shorter.
	pageBytes = 4 << 10
	// stepBytesMin and stepBytesMax bound how much is allocated at a time: as much as there is already.
	stepBytesMin = 4 << 10
	stepBytesMax = 256 << 10
)

// OffsetEntry says that the batch at Position ends with Offset.
type OffsetEntry struct {
	Offset   int64
	Position int32
}

// TimeEntry says that Timestamp is the largest one up to the batch that ends with Offset, and first reached by it.
type TimeEntry struct {
	Timestamp int64
	Offset    int64
}

// columns is what the two sorted index files differ in. rel is an offset minus the base.
type columns struct {
	width int
	// search returns the greatest i in [0, n) whose key is <= target, or -1. The key is the first column.
	search func(entries []byte, n int, target int64) int
	key    func(entry []byte) int64
	rel    func(entry []byte) int32
	// check returns what is wrong with cur following prev (nil for the first entry), or "".
	check func(prev, cur []byte) string
}

var offsetColumns = columns{
	width:  OffsetEntrySize,
	search: searchOffsets,
	key:    func(e []byte) int64 { return int64(offsetRel(e)) },
	rel:    offsetRel,
	check:  checkOffsetEntry,
}

var timeColumns = columns{
	width:  TimeEntrySize,
	search: searchTimes,
	key:    timestamp,
	rel:    timeRel,
	check:  checkTimeEntry,
}

func searchOffsets(b []byte, n int, target int64) int {
	lo, hi := -1, n // key(lo) <= target < key(hi)
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if int64(int32(binary.BigEndian.Uint32(b[mid*OffsetEntrySize:]))) <= target {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

func searchTimes(b []byte, n int, target int64) int {
	lo, hi := -1, n
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if int64(binary.BigEndian.Uint64(b[mid*TimeEntrySize:])) <= target {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

func offsetRel(e []byte) int32 { return int32(binary.BigEndian.Uint32(e)) }
func timestamp(e []byte) int64 { return int64(binary.BigEndian.Uint64(e)) }
func timeRel(e []byte) int32   { return int32(binary.BigEndian.Uint32(e[8:])) }
func position(e []byte) int32  { return int32(binary.BigEndian.Uint32(e[4:])) }

func checkOffsetEntry(prev, cur []byte) string {
	rel, pos := offsetRel(cur), position(cur)
	switch {
	case allZero(cur):
		return "all zero"
	case rel < 0 || pos < 0:
		return "negative offset or position"
	case prev != nil && rel <= offsetRel(prev):
		return "offset does not increase"
	case prev != nil && pos <= position(prev):
		return "position does not increase"
	}
	return ""
}

func checkTimeEntry(prev, cur []byte) string {
	ts, rel := timestamp(cur), timeRel(cur)
	switch {
	case allZero(cur):
		return "all zero"
	case ts < 0 || rel < 0:
		return "negative timestamp or offset"
	case prev != nil && ts <= timestamp(prev):
		return "timestamp does not increase"
	case prev != nil && rel <= timeRel(prev):
		return "offset does not increase"
	}
	return ""
}

// validPrefix returns how many entries at the start of data are valid and what is wrong with the next one; "" when data ends there.
func (c *columns) validPrefix(data []byte) (n int, problem string) {
	var prev []byte
	for (n+1)*c.width <= len(data) {
		cur := data[n*c.width : (n+1)*c.width]
		if p := c.check(prev, cur); p != "" {
			return n, p
		}
		prev = cur
		n++
	}
	if len(data)%c.width != 0 {
		return n, "incomplete entry"
	}
	return n, ""
}

// relative returns offset - base, which the segment has made sure fits (it rolls before).
func relative(offset, base int64) int32 {
	rel := offset - base
	if rel < 0 || rel > math.MaxInt32 { // a call with arguments allocates even when the condition holds
		invariant.Must(false, "offset %d cannot be expressed relative to base %d", offset, base)
	}
	return int32(rel)
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
