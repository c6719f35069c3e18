package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

const (
	testStartMs = 1_700_000_000_000
	// testIndexBytes keeps the mapped index files small: in memory they are really there.
	testIndexBytes = 64 << 10
)

// clock is the broker clock of a test.
type clock struct {
	mu  sync.Mutex
	now int64
}

func (c *clock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(ms int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += ms
	return c.now
}

// seeded is a source of ids.
type seeded struct{ r *rand.Rand }

func (s seeded) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.r.Uint32())
	}
	return len(p), nil
}

// fixture is an engine on some file system, with a clock of its own.
type fixture struct {
	t     testing.TB
	fs    vfs.FS
	clock *clock
	e     *Engine
	logs  *bytes.Buffer
	dirs  []string
	tweak func(*Options)
}

type lockedWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func newFixture(t testing.TB, fsys vfs.FS) *fixture {
	return &fixture{t: t, fs: fsys, clock: &clock{now: testStartMs}, dirs: []string{"/data"}, logs: new(bytes.Buffer)}
}

// open opens the engine and closes it at the end of the test if the test has not.
func (f *fixture) open() *Engine {
	f.t.Helper()
	e, err := f.tryOpen()
	if err != nil {
		f.t.Fatalf("open: %v", err)
	}
	return e
}

func (f *fixture) tryOpen() (*Engine, error) {
	o := Options{
		FS: f.fs, Dirs: f.dirs, NodeID: 1, Workers: 2, Now: f.clock.Now,
		Rand:   seeded{rand.New(rand.NewPCG(1, 2))},
		Logger: slog.New(slog.NewTextHandler(&lockedWriter{w: f.logs}, nil)),
	}
	b, err := config.NewSet().Broker()
	if err != nil {
		f.t.Fatal(err)
	}
	b.TopicDefaults.SegmentIndexBytes = testIndexBytes
	o.Defaults = b
	if f.tweak != nil {
		f.tweak(&o)
	}
	e, err := Open(o)
	if err == nil {
		f.e = e
		f.t.Cleanup(func() { _ = e.Close(context.Background()) })
	}
	return e, err
}

func (f *fixture) close() {
	f.t.Helper()
	if err := f.e.Close(context.Background()); err != nil {
		f.t.Fatalf("close: %v", err)
	}
}

// restart closes the engine and opens another on the same files.
func (f *fixture) restart() *Engine {
	f.t.Helper()
	f.close()
	return f.open()
}

// abandonFiles makes what a killed process leaves behind: the engine's goroutines end without writing anything.
func (f *fixture) kill() {
	f.e.life.Lock()
	f.e.life.closed = true
	f.e.life.Unlock()
	f.e.abandon()
}

var testID = [16]byte{1, 2, 3}

func topicConfig(t testing.TB, overrides map[string]string) *config.Topic {
	t.Helper()
	cfg, err := config.NewSet().Topic(overrides)
	if err != nil {
		t.Fatal(err)
	}
	cfg.SegmentIndexBytes = testIndexBytes
	return cfg
}

// log returns the log of partition 0 of topic, created with the overrides.
func (f *fixture) log(topic string, overrides map[string]string) *Log {
	f.t.Helper()
	l, err := f.e.Create(TopicPartition{Topic: topic}, testID, topicConfig(f.t, overrides))
	if err != nil {
		f.t.Fatalf("create: %v", err)
	}
	return l
}

// batchOf builds a client's batch of n records with values of size bytes, timestamps ts, ts+1, ...
func batchOf(ts int64, n, size int) []byte {
	return buildBatch(record.Options{}, ts, n, size)
}

func buildBatch(o record.Options, ts int64, n, size int) []byte {
	b := record.NewBuilder(o)
	for i := range n {
		value := make([]byte, size)
		if size >= 16 {
			binary.BigEndian.PutUint64(value, uint64(ts))
			binary.BigEndian.PutUint64(value[8:], uint64(i))
		}
		b.Append(ts+int64(i), []byte("key"), value, nil)
	}
	return b.Bytes()
}

func idempotentBatch(pid int64, epoch int16, seq int32, n int) []byte {
	return buildBatch(record.Options{Idempotent: true, ProducerID: pid, Epoch: epoch, BaseSequence: seq}, testStartMs, n, 20)
}

// waiter is a Completer one can wait for.
type waiter struct{ done chan struct{} }

func (w waiter) AppendDone(*Append) { w.done <- struct{}{} }

// appendBatch appends and returns the result.
func appendBatch(l *Log, batch []byte) *Append { return appendAs(l, batch, FromClient, 0) }

func appendAs(l *Log, batch []byte, origin Origin, epoch int32) *Append {
	w := waiter{make(chan struct{}, 1)}
	a := &Append{Batch: batch, Origin: origin, LeaderEpoch: epoch, Done: w}
	l.Enqueue(a)
	<-w.done
	return a
}

func (f *fixture) mustAppend(l *Log, batch []byte) *Append {
	f.t.Helper()
	a := appendBatch(l, batch)
	if a.Err != nil {
		f.t.Fatalf("append to %v: %v", l.TP(), a.Err)
	}
	return a
}

// progress is an Observer one can wait on.
type progress struct {
	mu       sync.Mutex
	cond     *sync.Cond
	appended int64
	flushed  int64
	failed   error
	early    bool // Flushed came before Appended
	raise    *Log // its high watermark follows the flushed offset; nil = none does
}

func watch(l *Log) *progress { return watchOnly(l, l) }

// watchOnly watches l and lets the high watermark of raise, if not nil, follow.
func watchOnly(l, raise *Log) *progress {
	p := &progress{raise: raise}
	p.cond = sync.NewCond(&p.mu)
	l.SetObserver(p)
	p.mu.Lock()
	p.appended = max(p.appended, l.EndOffset())
	p.mu.Unlock()
	p.Flushed(l.FlushedOffset())
	return p
}

func (p *progress) Appended(logEnd int64) {
	p.mu.Lock()
	p.appended = logEnd
	p.mu.Unlock()
	p.cond.Broadcast()
}

func (p *progress) Flushed(flushed int64) {
	if p.raise != nil {
		p.raise.SetHighWatermark(flushed)
	}
	p.mu.Lock()
	p.early = p.early || flushed > p.appended
	p.flushed = max(p.flushed, flushed)
	p.mu.Unlock()
	p.cond.Broadcast()
}

func (p *progress) Failed(err error) {
	p.mu.Lock()
	p.failed = err
	p.mu.Unlock()
	p.cond.Broadcast()
}

// await waits until offset is flushed or the log has failed, and returns the failure.
func (p *progress) await(offset int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.flushed < offset && p.failed == nil {
		p.cond.Wait()
	}
	return p.failed
}

func (p *progress) awaitFailure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.failed == nil {
		p.cond.Wait()
	}
	return p.failed
}

// settle waits until the background has worked on everything queued so far.
func (f *fixture) settle() {
	done := make(chan struct{})
	f.e.jobs.add(job{kind: jobBarrier, done: done})
	<-done
}

// readAll returns all batches from offset up to upTo, and fails the test if they do not follow each other.
func (f *fixture) readAll(l *Log, offset, upTo int64) []record.Batch {
	f.t.Helper()
	batches, err := readBatches(l, offset, upTo)
	if err != nil {
		f.t.Fatalf("read %v from %d: %v", l.TP(), offset, err)
	}
	return batches
}

func readBatches(l *Log, offset, upTo int64) ([]record.Batch, error) {
	var all []record.Batch
	for offset < upTo {
		r, err := l.Read(offset, 1<<20, upTo, true)
		if err != nil {
			return all, err
		}
		buf := make([]byte, r.N)
		_, err = r.ReadAt(buf, 0)
		r.Release()
		if err != nil {
			return all, err
		}
		before := offset
		for len(buf) > 0 {
			b, rest, err := record.Frame(buf)
			if errors.Is(err, record.ErrShort) {
				break
			}
			if err == nil {
				err = b.Check()
			}
			if err != nil {
				return all, fmt.Errorf("at offset %d: %w", offset, err)
			}
			if b.LastOffset() < offset {
				return all, fmt.Errorf("batch ends at %d, wanted %d", b.LastOffset(), offset)
			}
			all, offset, buf = append(all, b), b.NextOffset(), rest
		}
		if offset == before {
			return all, fmt.Errorf("no progress at offset %d of %d", offset, upTo)
		}
	}
	return all, nil
}

// replicaBatch is a batch of one record at offset, as a follower gets it.
func replicaBatch(offset int64) []byte {
	return buildBatch(record.Options{BaseOffset: offset}, testStartMs, 1, 20)
}
