package fuzz

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// FuzzLogRecovery: whatever an unclean stop leaves of the bytes that were not synced, the recovered log is a prefix of the batches that were written, contains every
// synced one, and a second recovery changes nothing. sizes are the batches (a byte each; 0: synced up to here); tail overwrites the
// active segment from the synced end on; mode and seed say what the power cut leaves.
func FuzzLogRecovery(f *testing.F) {
	f.Add([]byte{3, 1, 0, 7}, []byte(nil), uint8(0), uint64(1))
	f.Add([]byte{200, 1, 0, 7, 90, 0, 5}, []byte{0, 0, 0, 0}, uint8(1), uint64(2))
	f.Add([]byte{1, 1, 1, 0, 250, 250}, bytes.Repeat([]byte{0xff}, 70), uint8(2), uint64(3))
	f.Fuzz(func(t *testing.T, sizes, tail []byte, mode uint8, seed uint64) {
		if len(sizes) > 40 || len(tail) > 4096 {
			return
		}
		disk := vfs.NewMem(seed)
		o := &oneLog{t: t, fsys: disk, topic: map[string]string{"write.caching": "true", "flush.ms": "86400000", "segment.ms": "5000"}}
		o.now.Store(sampleEpochMs)
		o.open()
		for i, size := range sizes {
			if size == 0 {
				o.close()
				o.open()
				continue
			}
			o.appendCached(i, int(size))
		}
		written, synced := o.read(0), o.l.FlushedOffset()
		o.fsys = disk.Crash([]vfs.CrashMode{vfs.LoseUnsynced, vfs.KeepAll, vfs.RandomPages, vfs.Torn512}[mode%4])
		abandonLog(o)
		overwriteTail(t, o.fsys, written, synced, tail)
		var before []record.Batch
		for round := range 3 {
			o.open()
			if err := o.l.Err(); err != nil {
				t.Fatalf("round %d: the log failed though only unsynced bytes changed: %v", round, err)
			}
			got := o.read(0)
			if o.l.EndOffset() < synced {
				t.Fatalf("round %d: the log ends at %d, synced was up to %d", round, o.l.EndOffset(), synced)
			}
			for i, b := range got {
				if i < len(written) && !sameBatch(b, written[i]) || i >= len(written) {
					if b.BaseOffset() < synced || !bytes.Contains(tail, b[16:]) { // the fuzzer may write a batch of its own
						t.Fatalf("round %d: batch %d is not what was written", round, i)
					}
				}
			}
			if round > 0 && len(got) != len(before) {
				t.Fatalf("round %d: %d batches, before %d", round, len(got), len(before))
			}
			before = got
			if round == 1 {
				o.close()
				continue
			}
			o.fsys = o.fsys.Crash(vfs.LoseUnsynced) // what was seen must not disappear
			abandonLog(o)
		}
	})
}

// appendCached appends without waiting for a sync.
func (o *oneLog) appendCached(i, size int) {
	o.t.Helper()
	b := record.NewBuilder(record.Options{})
	b.Append(o.now.Load(), nil, bytes.Repeat([]byte{byte(i)}, size*5), nil)
	o.now.Add(1000)
	o.enqueue(b.Bytes())
}

// abandonLog ends the engine of a disk that was copied before.
func abandonLog(o *oneLog) {
	_ = o.e.Close(context.Background())
}

// overwriteTail puts bytes where the synced ones end.
func overwriteTail(t *testing.T, fsys vfs.FS, written []record.Batch, synced int64, tail []byte) {
	dir := filepath.Join("/data", oneLogTP.String())
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	last, base := "", int64(0)
	for _, e := range entries {
		if filepath.Ext(e.Name) == ".log" {
			last = filepath.Join(dir, e.Name)
			_, _ = fmt.Sscanf(e.Name, "%d.log", &base)
		}
	}
	if last == "" || base > synced || len(tail) == 0 {
		return
	}
	pos := int64(0)
	for _, b := range written {
		if b.BaseOffset() >= base && b.NextOffset() <= synced {
			pos += int64(len(b))
		}
	}
	f, err := fsys.OpenFile(last, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(tail, pos); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}
