package segment

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// File name suffixes.
const (
	LogSuffix       = ".log"
	IndexSuffix     = ".index"
	TimeIndexSuffix = ".timeindex"
	TxnIndexSuffix  = ".txnindex"
	DeletedSuffix   = ".deleted"
	CleanedSuffix   = ".cleaned" // behind the name of a file that a compaction is writing
	SwapSuffix      = ".swap"    // of one that is whole and takes the place of others
)

// suffixes lists the files of a segment, data first: without its data file a segment is not there.
var suffixes = [...]string{LogSuffix, IndexSuffix, TimeIndexSuffix, TxnIndexSuffix}

const (
	preallocStepDefault = 64 << 10
	preallocStepMax     = 64 << 20
	preallocAlign       = 4 << 10

	// headerChunkBytes is read at once when looking for a batch: a little more than the default distance of index entries.
	headerChunkBytes = 4<<10 + 128
	// zeroTailBytesMax is how much behind the last batch is looked at to tell space allocated ahead from something torn.
	zeroTailBytesMax = 16 << 10
	// scanChunkBytesMin is read at first by a scan of whole batches, then twice as much each time up to scanChunkBytes: often there is little to scan.
	scanChunkBytesMin = 16 << 10
	// scanChunkBytes is read at once by scans of whole batches.
	scanChunkBytes = 1 << 20

	// indexBytesMin makes room for the entries any index must be able to hold.
	indexBytesMin = 64
)

// FileName returns the name of the file of a segment.
func FileName(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// ParseFileName splits the name of a file of a segment; ok is false for any other name.
func ParseFileName(name string) (base int64, suffix string, ok bool) {
	digits, rest, found := strings.Cut(filepath.Base(name), ".")
	if !found || len(digits) != 20 {
		return 0, "", false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || base < 0 {
		return 0, "", false
	}
	return base, "." + rest, true
}
