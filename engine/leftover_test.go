package engine

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// B-B4, A16: a roll that fails on the way (no space for an index) leaves no segment behind, though the log then goes on in the one it has: a start would take the
// empty file for the end of the log, and what was appended after the failure would be gone.
func TestFailedRollLeavesNoSegment(t *testing.T) {
	for nth := 1; nth <= 4; nth++ {
		for stop, restart := range stops {
			for _, noted := range []bool{true, false} {
				t.Run(fmt.Sprint(nth, stop, noted), func(t *testing.T) {
					mem := vfs.NewMem(1)
					fault := vfs.NewFault(mem)
					f := newFixture(t, fault)
					f.open()
					l := f.logWith("t", smallSegments(t))
					f.fillFlushedSized(l, 100)
					next := strings.TrimSuffix(logFileName(l.EndOffset()), logSuffix) // of the new segment; its snapshot is written in the background
					fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool {
						return (op.Kind == vfs.OpCreate || op.Kind == vfs.OpWrite) && strings.Contains(op.Name, next) && !strings.Contains(op.Name, snapshotSuffix)
					}, Nth: nth, Err: syscall.ENOSPC})
					if a := appendBatch(l, batchOf(testStartMs, 1, 300)); a.Err == nil {
						t.Fatal("the roll succeeded")
					}
					fault.Clear()
					for range 2 { // fits into the old segment
						f.fillFlushedSized(l, 1)
					}
					if noted {
						f.e.Tick(f.clock.advance(2_000))
					}
					f.settle()
					f.fs = mem
					end := l.EndOffset()
					restart(f)
					if l = f.log2("t"); l.Err() != nil || l.EndOffset() != end {
						t.Fatalf("end %d, %v; it was %d", l.EndOffset(), l.Err(), end)
					}
					f.readAll(l, 0, end)
					f.fillFlushedSized(l, 1)
				})
			}
		}
	}
}

// Nor does a start believe in a segment whose removal a power cut undid.
func TestStartRemovesFailedRoll(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, marked := range []bool{true, false} {
			mem := vfs.NewMem(1)
			f := newFixture(t, mem)
			f.open()
			l := f.log("t", nil)
			f.fillFlushedSized(l, 20)
			f.fillFlushedSized(l, 20)
			f.fillFlushedSized(l, 20)
			if clean {
				f.close()
			} else {
				f.e.Tick(f.clock.advance(2_000))
				f.kill()
			}
			if !marked {
				sideMust(t, mem.Remove("/data/"+logStateFileName))
				_ = mem.Remove("/data/" + logStateRecentFileName)
			}
			sidePutAt(t, mem, "/data/t-0/"+logFileName(1))
			f.open()
			if l = f.log2("t"); l.Err() != nil || l.EndOffset() != 3 || l.StartOffset() != 0 {
				t.Fatalf("clean %v, marked %v: %d to %d, %v", clean, marked, l.StartOffset(), l.EndOffset(), l.Err())
			}
			f.readAll(l, 0, 3)
			f.fillFlushedSized(l, 20)
			if _, err := mem.Stat("/data/t-0/" + logFileName(1)); err == nil {
				t.Error("the left-over is still there")
			}
			f.close()
		}
	}
}

// fillFlushedSized appends a batch with a value of size bytes and waits until it is flushed.
func (f *fixture) fillFlushedSized(l *Log, size int) {
	f.t.Helper()
	a := f.mustAppend(l, batchOf(testStartMs, 1, size))
	if err := watch(l).await(a.LastOffset + 1); err != nil {
		f.t.Fatal(err)
	}
}

// sidePutAt makes an empty file, durably.
func sidePutAt(t *testing.T, fsys vfs.FS, path string) {
	t.Helper()
	sideMust(t, vfs.WriteFileAtomic(fsys, path, nil))
}
