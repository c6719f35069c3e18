package segment

import (
	"fmt"
	"io"
	"os"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// The functions of this file and of verify.go read segment files offline and as they are. They change nothing and need no lock; of a segment
// that is being written they see a moment.

// DumpedBatch is a batch of a data file as a dump sees it.
type DumpedBatch struct {
	Pos     int64
	Batch   record.Batch // whole; valid during the call
	Problem error        // what Check says: a checksum that does not match, a header that contradicts itself
}

// DumpEnd tells what is behind the last batch of a data file.
type DumpEnd struct {
	Pos    int64  // end of the last batch
	Size   int64  // of the file
	Reason Reason // Clean, ZeroTail or Torn
	Detail string // for Torn: why this is no batch
}

// DumpLog calls fn for each batch of the data file name, valid or not, as long as one follows the other. An error of fn ends it.
func DumpLog(fsys vfs.FS, name string, fn func(DumpedBatch) error) (DumpEnd, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return DumpEnd{}, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return DumpEnd{}, err
	}
	r := newBatches(f, size)
	defer r.close()
	end := DumpEnd{Size: size}
	for {
		b, err := r.at(end.Pos)
		switch {
		case err == io.EOF:
			return end, nil
		case err != nil && notABatch(err):
			return describeTail(f, end, err)
		case err != nil:
			return end, err
		}
		if err := fn(DumpedBatch{Pos: end.Pos, Batch: b, Problem: b.Check()}); err != nil {
			return end, err
		}
		end.Pos += int64(len(b))
	}
}

func describeTail(f vfs.File, end DumpEnd, why error) (DumpEnd, error) {
	zeros, err := onlyZeros(f, end.Pos, end.Size)
	if err != nil {
		return end, err
	}
	end.Reason = ZeroTail
	if !zeros {
		end.Reason, end.Detail = Torn, why.Error()
	}
	return end, nil
}

// DumpIndex calls fn for each entry of an offset index file. problem is nil, an *index.CorruptError, or index.ErrUnused for the
// rest of a file that was allocated ahead.
func DumpIndex(fsys vfs.FS, name string, fn func(i int, e index.OffsetEntry, problem error) error) error {
	base, err := baseOf(name, IndexSuffix)
	if err != nil {
		return err
	}
	return index.ScanOffsets(fsys, name, base, fn)
}

// DumpTimeIndex is DumpIndex for a time index file.
func DumpTimeIndex(fsys vfs.FS, name string, fn func(i int, e index.TimeEntry, problem error) error) error {
	base, err := baseOf(name, TimeIndexSuffix)
	if err != nil {
		return err
	}
	return index.ScanTimes(fsys, name, base, fn)
}

// DumpTxnIndex is DumpIndex for a transaction index file.
func DumpTxnIndex(fsys vfs.FS, name string, fn func(i int, t index.AbortedTxn, problem error) error) error {
	if _, err := baseOf(name, TxnIndexSuffix); err != nil {
		return err
	}
	return index.ScanTxns(fsys, name, fn)
}

// NameError says that a file is not named like one of a segment, so its base offset is not known.
type NameError struct {
	Name string
	Want string // the suffix
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%s is not named like a file of a segment: 20 digits and %s", e.Name, e.Want)
}

// baseOf returns the base offset of a file with this suffix, which may have .deleted behind it.
func baseOf(name, want string) (int64, error) {
	base, suffix, ok := ParseFileName(name)
	if !ok || suffix != want && suffix != want+DeletedSuffix {
		return 0, &NameError{Name: name, Want: want}
	}
	return base, nil
}
