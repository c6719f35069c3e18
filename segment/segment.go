package segment

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
)

// Options are the same for all segments of a log; a Segment keeps the pointer, and no field changes while it is open.
type Options struct {
	FS                 vfs.FS
	MaxBytes           int         // segment.bytes: Full tells when a batch no longer fits; also bounds allocation ahead
	IndexIntervalBytes int         // index.interval.bytes
	IndexMaxBytes      int         // segment.index.bytes, for each of the two indexes
	PreallocStep       int64       // bytes allocated by the first append; 0 means 64 KiB. Doubles up to 64 MiB. Negative: nothing is allocated ahead
	Sparing            func() bool // the disk has so little left that no more is to be allocated than is needed; nil: never
	// Dense: the log never has gaps in its offsets, because nothing compacts it. A batch that does not continue the one before is then damage: no checksum
	// covers the base offset.
	Dense bool
	// Now gives the append time of a segment that has none yet, in ms; nil means 0.
	Now func() int64
	// Reap gets a segment whose last reference is gone and must call Destroy, which closes and perhaps unlinks: slow on a large file.
	// nil: the goroutine of the last Release does it.
	Reap func(*Segment)
}

func (o *Options) indexMaxBytes() int { return max(o.IndexMaxBytes, indexBytesMin) }

// Segment is one data file with its indexes.
//
// The writer is the one goroutine that calls Append, Recover, TruncateTo and Seal. All other methods may be called from any goroutine that
// holds a reference.
type Segment struct {
	o    *Options
	dir  atomic.Pointer[string]
	base int64
	refs atomic.Int32 // 1 for the owner + readers

	size       atomic.Int64 // end of the last batch; grows after the bytes are written. Unloaded sealed: the length of the file
	nextOffset atomic.Int64 // base <= it, -1 on a sealed segment not loaded
	sealed     atomic.Bool
	resting    atomic.Bool // active, and its files are closed (rest.go)
	used       atomic.Bool // since the last Idle
	recent     recent      // positions of the batches appended last
	checked    checked

	// data and the indexes are nil until opened; set once except by reopening a sealed segment for writing.
	data    atomic.Pointer[vfs.File]
	offsets atomic.Pointer[index.Offset]
	times   atomic.Pointer[index.Time]

	// syncErr is the error of the first failed Sync.
	syncErr atomic.Pointer[error]
	// damage is what a sealed segment could not be loaded past: it ends there, as far as readers go.
	damage atomic.Pointer[CorruptError]
	// indexErr is the first error that kept an entry out of an index.
	indexErr atomic.Pointer[error]

	// Of the writer:
	allocated int64 // size <= it; the file's length while active
	unclean   bool
	failed    error
	builder   indexer

	stat struct {
		sync.Mutex
		appendTimeMaxMs int64
		maxTimestamp    int64 // -1: none
		maxOffset       int64 // last offset of the first batch with maxTimestamp
		maxKnown        bool  // false on a sealed segment whose time index was not read
		firstTimestamp  int64
		firstKnown      bool
	}

	// waking is held while a segment is put to rest or woken; taken before mu.
	waking sync.Mutex

	// mu is held while lazily opened files are opened, synced (indexes) and renamed. There is I/O under it; nobody takes it on a hot path.
	mu struct {
		sync.Mutex
		txn     *index.Txn
		deleted bool
		closed  bool
	}
}

func newSegment(dir string, base int64, o *Options) *Segment {
	s := &Segment{o: o, base: base}
	s.dir.Store(&dir)
	s.refs.Store(1)
	s.stat.maxTimestamp, s.stat.maxOffset = index.NoTimestamp, base
	s.builder.reset(base)
	return s
}

// Create makes a new empty segment in dir; a data file of that name must not exist, leftover indexes are replaced. The caller syncs dir. What a Create that
// failed has made is removed, though not durably.
func Create(dir string, base int64, o *Options) (*Segment, error) {
	s := newSegment(dir, base, o)
	if err := s.create(); err != nil {
		made := s.data.Load() != nil
		_ = s.closeFiles()
		if made {
			s.removeMade()
		}
		return nil, err
	}
	if o.Now != nil {
		s.stat.appendTimeMaxMs = o.Now()
	}
	s.stat.maxKnown = true
	s.nextOffset.Store(base)
	s.recent.reset(0, 0)
	s.checked.trust(0)
	return s, nil
}

// removeMade removes the files of a segment that could not be made, as far as that is possible: the data file first, by which it is known.
func (s *Segment) removeMade() {
	for _, suffix := range []string{LogSuffix, IndexSuffix, TimeIndexSuffix} {
		_ = s.o.FS.Remove(s.path(suffix))
	}
}

func (s *Segment) create() error {
	f, err := s.o.FS.OpenFile(s.path(LogSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	s.data.Store(&f)
	// Leftovers of an earlier segment of this name, if its data file went first.
	if err := s.o.FS.Remove(s.path(TxnIndexSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	offsets, err := index.CreateOffset(s.o.FS, s.path(IndexSuffix), s.base, s.o.indexMaxBytes())
	if err != nil {
		return err
	}
	s.offsets.Store(offsets)
	times, err := index.CreateTime(s.o.FS, s.path(TimeIndexSuffix), s.base, s.o.indexMaxBytes())
	if err != nil {
		return err
	}
	s.times.Store(times)
	return nil
}

// Open opens an existing segment.
//
// sealed, for one below the recovery point or after a clean stop, and not the last of its log: nothing is read until it is needed.
// Otherwise the end is found by walking from the last index entry, and a segment with anything behind it needs Recover before Append.
func Open(dir string, base int64, o *Options, sealed bool) (*Segment, error) {
	s := newSegment(dir, base, o)
	info, err := o.FS.Stat(s.path(LogSuffix))
	if err != nil {
		return nil, err
	}
	s.stat.appendTimeMaxMs = info.ModTime.UnixMilli()
	if info.Size > math.MaxInt32 {
		return nil, &CorruptError{File: s.path(LogSuffix), Pos: info.Size, Msg: "file is larger than any segment"}
	}
	s.size.Store(info.Size)
	if sealed {
		s.sealed.Store(true)
		s.nextOffset.Store(-1)
		return s, nil
	}
	if err := s.openActive(); err != nil {
		_ = s.closeFiles()
		return nil, err
	}
	return s, nil
}

// path returns the current name of a file.
func (s *Segment) path(suffix string) string { return filepath.Join(s.Dir(), FileName(s.base, suffix)) }

func (s *Segment) pathLocked(suffix string) string {
	if s.mu.deleted {
		return s.path(suffix) + DeletedSuffix
	}
	return s.path(suffix)
}

// file returns the data file, opened if it is not yet.
func (s *Segment) file() (vfs.File, error) {
	s.touch()
	if f := s.data.Load(); f != nil {
		return *f, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fileLocked()
}

func (s *Segment) fileLocked() (vfs.File, error) {
	if f := s.data.Load(); f != nil {
		return *f, nil
	}
	if s.mu.closed {
		return nil, ErrClosed
	}
	f, err := s.o.FS.OpenFile(s.pathLocked(LogSuffix), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s.data.Store(&f)
	return f, nil
}

// Damage returns what keeps readers from the end of a sealed segment; nil normally, and before Load.
func (s *Segment) Damage() error {
	if e := s.damage.Load(); e != nil {
		return e
	}
	return nil
}

// Base returns the base offset.
func (s *Segment) Base() int64 { return s.base }

// Dir returns the directory the files are in.
func (s *Segment) Dir() string { return *s.dir.Load() }

// Moved tells the segment that its directory was renamed: files not open yet are found in dir.
func (s *Segment) Moved(dir string) { s.dir.Store(&dir) }

// Size returns the published size in bytes. Of a sealed segment before Load it is the length of the file: an upper bound.
func (s *Segment) Size() int64 { return s.size.Load() }

// NextOffset returns the offset after the last batch, Base when there is none. -1 on a sealed segment before Load.
func (s *Segment) NextOffset() int64 { return s.nextOffset.Load() }

// Sealed tells whether the segment is read only.
func (s *Segment) Sealed() bool { return s.sealed.Load() }

// AppendTimeMaxMs returns the broker's time at the last append. After a restart it is the modification time of the data file.
func (s *Segment) AppendTimeMaxMs() int64 {
	s.stat.Lock()
	defer s.stat.Unlock()
	return s.stat.appendTimeMaxMs
}

// IndexErr returns the first error that kept an entry out of an index, nil normally. The segment works without the entry.
func (s *Segment) IndexErr() error {
	if p := s.indexErr.Load(); p != nil {
		return *p
	}
	return nil
}

// Full tells whether a batch of n bytes does not fit: time to roll. A segment without data takes a batch of any size.
func (s *Segment) Full(n int) bool {
	size := s.size.Load()
	return size > 0 && size+int64(n) > min(int64(s.o.MaxBytes), math.MaxInt32)
}

// Allocated returns how much of the data file has space: what is appended below needs none. For the writer.
func (s *Segment) Allocated() int64 { return s.allocated }

// IndexFull tells whether an index has no more room: time to roll. For the writer.
func (s *Segment) IndexFull() bool {
	if s.resting.Load() {
		return false // the append that asks wakes it first
	}
	return s.offsets.Load().Full() || s.times.Load().Full()
}

// OffsetFits tells whether an offset can be expressed relative to Base.
func (s *Segment) OffsetFits(lastOffset int64) bool {
	return lastOffset >= s.base && lastOffset-s.base <= math.MaxInt32
}

// Sync makes the appended data durable. A failure is final: what it covered may be gone, and every later Sync returns it.
func (s *Segment) Sync() error {
	if p := s.syncErr.Load(); p != nil {
		return *p
	}
	f := s.data.Load()
	if f == nil {
		return nil // never opened: nothing was written
	}
	err := (*f).Sync()
	if err != nil {
		first := err // on the heap only when it is needed
		s.syncErr.CompareAndSwap(nil, &first)
	}
	return err
}

// SyncIndexes makes the index files durable. To be called before a recovery point above this segment's data becomes durable: Recover trusts
// index entries below the recovery point.
func (s *Segment) SyncIndexes() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs [3]error
	if x := s.offsets.Load(); x != nil {
		errs[0] = x.Sync()
	}
	if x := s.times.Load(); x != nil {
		errs[1] = x.Sync()
	}
	if x := s.mu.txn; x != nil {
		errs[2] = x.Sync()
	}
	return errors.Join(errs[:]...)
}

// StartWriteback asks the kernel to start writing a range of the data file to disk. A hint.
func (s *Segment) StartWriteback(pos, n int64) error {
	f, err := s.file()
	if err != nil {
		return err
	}
	return f.StartWriteback(pos, n)
}

// Seal ends writing: the largest timestamp goes into the time index, the files are cut to what they hold, the data file's modification
// time becomes the time of the last append (at most nowMs). Also done to the active segment at a clean stop. Not durable before Sync and
// SyncIndexes. An index that cannot be finished does not stop it (IndexErr tells): the next Load makes it again. After an error, which is one
// about the data file, Seal may be tried again.
func (s *Segment) Seal(nowMs int64) error {
	if s.sealed.Load() {
		return nil
	}
	if s.unclean {
		return ErrNotRecovered
	}
	if err := s.Load(); err != nil {
		return err
	}
	if s.failed != nil && s.damage.Load() != nil {
		return s.failed
	}
	times, offsets := s.times.Load(), s.offsets.Load()
	s.noteIndexErr(times.MaybeAppend(s.builder.maxTimestamp, s.builder.maxOffset, true))
	s.noteIndexErr(times.Seal())
	s.noteIndexErr(offsets.Seal())
	f, err := s.file()
	if err != nil {
		return err
	}
	if err := f.Truncate(s.size.Load()); err != nil {
		return err
	}
	s.allocated = s.size.Load()
	if err := s.stampAppendTime(nowMs); err != nil {
		return err
	}
	s.sealed.Store(true)
	return nil
}

func (s *Segment) stampAppendTime(nowMs int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := min(s.AppendTimeMaxMs(), nowMs)
	if ms <= 0 {
		return nil // never known
	}
	return s.o.FS.SetModTime(s.pathLocked(LogSuffix), time.UnixMilli(ms))
}
