package broker

import (
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/vfs"
)

// coldFS says that no data file is in the page cache, and notes what the disk is asked for.
type coldFS struct {
	vfs.FS
	mu    sync.Mutex
	cold  bool
	asked []diskAsk
}

// diskAsk is a call that may make the disk read. n is 0 for NoReadAhead.
type diskAsk struct {
	call   string
	off, n int64
}

func (c *coldFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &coldFile{f, c}, nil
}

func (c *coldFS) note(a diskAsk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cold {
		c.asked = append(c.asked, a)
	}
}

// drop makes everything cold from now on.
func (c *coldFS) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cold = true
}

func (c *coldFS) taken() []diskAsk {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]diskAsk(nil), c.asked...)
}

type coldFile struct {
	vfs.File
	fs *coldFS
}

func (f *coldFile) Cached(off, n int64) bool {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return !f.fs.cold
}

func (f *coldFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.note(diskAsk{"read", off, int64(len(p))})
	return f.File.ReadAt(p, off)
}

func (f *coldFile) Prefetch(off, n int64) {
	f.fs.note(diskAsk{"prefetch", off, n})
	f.File.Prefetch(off, n)
}

func (f *coldFile) NoReadAhead() {
	f.fs.note(diskAsk{"no read-ahead", 0, 0})
	f.File.NoReadAhead()
}

// Cold data is read in small pieces: the kernel is told first to read nothing ahead, and what the disk is given at once is bounded, for the syncs of producers
// wait behind it.
func TestFetchReadsColdDataInSmallPieces(t *testing.T) {
	disk := &coldFS{FS: vfs.OS}
	n := startOn(t, disk, "log.dirs="+t.TempDir())
	c := n.dial()
	c.create("t", 1, "max.message.bytes=2000000")
	for range 6 {
		c.mustProduce("t", 0, plain(strings.Repeat("x", 400_000)))
	}
	disk.drop()
	req := fetchRequest(12, "t", 0, 0)
	req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 1<<20, 1<<20
	got := int64(len(onlyFetched(t, do[*kmsg.FetchResponse](c, req)).RecordBatches))
	if got < 800_000 {
		t.Fatalf("%d bytes", got)
	}
	reached, told := int64(0), false // what the disk was asked for, contiguously, and whether the kernel was told
	var read int64
	for _, a := range disk.taken() {
		switch a.call {
		case "no read-ahead":
			told = true
		case "prefetch":
			if !told || a.n > warmNextBytes || a.off < got && a.n > warmBytes {
				t.Errorf("%+v (told: %v)", a, told)
			}
			if a.off < got && a.off > read+2*warmBytes {
				t.Errorf("%+v when %d bytes were read", a, read)
			}
			reached = max(reached, a.off+a.n)
		case "read":
			if a.n > warmBytes {
				t.Errorf("%+v", a)
			}
			if told {
				read = max(read, a.off+a.n)
			}
		}
	}
	if !told || read < got || reached <= got || reached > got+warmNextBytes {
		t.Errorf("told: %v, %d of %d bytes read, prefetched up to %d", told, read, got, reached)
	}
}
