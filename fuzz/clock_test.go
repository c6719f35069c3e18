package fuzz

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

const (
	hourMs = int64(time.Hour / time.Millisecond)
	dayMs  = 24 * hourMs
)

// oneLog is an engine with one log whose clock the test turns.
type oneLog struct {
	t     testing.TB
	fsys  *vfs.Mem
	now   atomic.Int64 // ms; the engine's and the disk's goroutines read it, too
	topic map[string]string
	e     *engine.Engine
	l     *engine.Log
}

var oneLogTP = engine.TopicPartition{Topic: "clock"}

func (o *oneLog) open() {
	o.t.Helper()
	if err := o.tryOpen(); err != nil {
		o.t.Fatal(err)
	}
}

func (o *oneLog) tryOpen() error {
	set := config.NewSet()
	for k, v := range map[string]string{"log.dirs": "/data", "log.index.size.max.bytes": "4096", "log.index.interval.bytes": "300"} {
		if err := set.Override(k, v, config.Flag); err != nil {
			return err
		}
	}
	defaults, err := set.Broker()
	if err != nil {
		return err
	}
	cfg, err := set.Topic(o.topic)
	if err != nil {
		return err
	}
	o.fsys.SetNow(func() time.Time { return time.UnixMilli(o.now.Load()) })
	o.e, err = engine.Open(engine.Options{FS: o.fsys, Dirs: []string{"/data"}, NodeID: 1, Defaults: defaults, Workers: 1, Now: o.now.Load})
	if err != nil {
		return err
	}
	o.l, err = o.e.Create(oneLogTP, [16]byte{0: 7, 9: 77}, cfg)
	return err
}

func (o *oneLog) close() {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), corruptionPatience)
	defer cancel()
	if err := o.e.Close(ctx); err != nil {
		o.t.Fatal(err)
	}
}

// answered and flushWaiter tell a test of progress.
type answered chan error

func (c answered) AppendDone(a *engine.Append) { c <- a.Err }

type flushWaiter chan int64

func (flushWaiter) Appended(int64)    {}
func (w flushWaiter) Flushed(f int64) { w <- f }
func (flushWaiter) Failed(error)      {}

// append appends a batch and waits until it is on stable storage.
func (o *oneLog) append(batch []byte) {
	o.t.Helper()
	flushed := make(flushWaiter, 100)
	o.l.SetObserver(flushed)
	defer o.l.SetObserver(nil)
	last := o.enqueue(batch)
	for o.l.FlushedOffset() <= last {
		<-flushed
	}
	o.l.SetHighWatermark(o.l.FlushedOffset())
}

// enqueue appends a batch and returns its last offset; it need not be durable.
func (o *oneLog) enqueue(batch []byte) int64 {
	o.t.Helper()
	done := make(answered, 1)
	a := &engine.Append{Batch: batch, Done: done}
	o.l.Enqueue(a)
	if err := <-done; err != nil {
		o.t.Fatal(err)
	}
	return a.LastOffset
}

func (o *oneLog) appendValue(value string) {
	o.t.Helper()
	b := record.NewBuilder(record.Options{})
	b.Append(o.now.Load(), nil, []byte(value), nil)
	o.append(b.Bytes())
}

// read returns the batches from an offset on.
func (o *oneLog) read(from int64) (all []record.Batch) {
	o.t.Helper()
	for end := o.l.EndOffset(); from < end; {
		r, err := o.l.Read(from, 1<<20, end, true)
		if err == nil {
			r, err = o.l.Check(r)
		}
		if err != nil || r.N == 0 {
			o.t.Fatalf("read at %d: %d bytes, %v", from, r.N, err)
		}
		data := make([]byte, r.N)
		if n, err := r.ReadAt(data, 0); n < r.N {
			o.t.Fatal(err)
		}
		r.Release()
		if _, err := record.Walk(data, func(_ int, b record.Batch) error {
			if b.BaseOffset() < from {
				return fmt.Errorf("offset %d where %d is due", b.BaseOffset(), from)
			}
			all = append(all, bytes.Clone(b))
			from = b.NextOffset()
			return nil
		}); err != nil {
			o.t.Fatal(err)
		}
	}
	return all
}

// TestClockJumps: a clock that jumps a day forward or back, while running or across a restart, deletes nothing early, pins nothing for ever, reorders nothing
// and does not keep checkpoints from being written. R10, B10.
func TestClockJumps(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, jumps := range [][]int64{{dayMs, -dayMs}, {-dayMs, dayMs}, {dayMs, dayMs, -dayMs}, {-dayMs, -dayMs, dayMs}} {
			t.Run(fmt.Sprint(restart, jumps), func(t *testing.T) {
				o := &oneLog{t: t, fsys: vfs.NewMem(1), topic: map[string]string{
					"segment.ms": "60000", "retention.ms": fmt.Sprint(4 * dayMs), "message.timestamp.after.max.ms": "9223372036854775807", "file.delete.delay.ms": "0",
				}}
				o.now.Store(sampleEpochMs)
				o.open()
				n := 0
				write := func() {
					for range 5 {
						o.appendValue(fmt.Sprint("value ", n))
						n++
						o.e.Tick(o.now.Add(30_000))
					}
				}
				write()
				latest := o.now.Load()
				for _, jump := range jumps {
					if restart {
						o.close()
						o.now.Add(jump)
						o.open()
					} else {
						o.now.Add(jump)
					}
					o.e.Tick(o.now.Load())
					write()
					latest = max(latest, o.now.Load())
				}
				o.e.Tick(o.now.Add(61_000)) // a checkpoint is due
				if got := o.l.StartOffset(); got != 0 {
					t.Fatalf("records below %d are deleted early", got)
				}
				for i, b := range o.read(0) {
					value := ""
					_ = b.Records(func(r *record.Record) error { value = string(r.Value); return nil })
					if b.BaseOffset() != int64(i) || value != fmt.Sprint("value ", i) {
						t.Fatalf("offset %d holds %q where %d is due", b.BaseOffset(), value, i)
					}
				}
				marks, err := vfs.ReadFile(o.fsys, "/data/replication-offset-checkpoint", 1<<20)
				if err != nil || !bytes.Contains(marks, fmt.Appendf(nil, "clock 0 %d\n", n)) {
					t.Errorf("no checkpoint after the jumps: %q, %v; the log ends at %d", marks, err, n)
				}
				// The longest that anything may be kept: from the largest time the clock ever showed.
				for late := hourMs; late < 2*hourMs; late += 10 * 60_000 {
					o.now.Store(latest + 4*dayMs + late)
					o.e.Tick(latest + 4*dayMs + late)
				}
				if got := o.l.StartOffset(); got != int64(n) {
					t.Errorf("the log begins at %d and not at %d: records are kept for ever", got, n)
				}
				o.close()
			})
		}
	}
}
