package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leatmq/leat/client/admin"
	"github.com/leatmq/leat/record"
)

// sampleEvery answers of a topic with a known layout one is read and checked whole.
const sampleEvery = 61

// FetchLoad reads a topic, one partition per request. Without Tail it reads what is there when it begins, again and again.
type FetchLoad struct {
	Addr, Topic string
	Connections int // connection c has the partitions p with p mod Connections = c, or partition c mod partitions when there are more connections
	InFlight    int // requests of a connection; more than one needs Uniform
	MaxBytes    int // of each answer
	MaxWait     time.Duration
	// Uniform says that every batch of the topic has this many bytes and records: most answers need not be read to know where the next begins.
	Uniform Layout
	// Exclusive says that offsets have no gaps (nothing was compacted, aborted or deleted).
	Exclusive bool
	// Tail begins at the end and waits for what a ProduceLoad of the same run writes; Stamp must be set there.
	Tail *ProduceLoad
}

// Layout is what batches of a topic have in common. The zero value: nothing.
type Layout struct{ BatchBytes, Records int }

type fetchSource struct {
	load       *FetchLoad
	partitions []int32
	begin, end []int64 // by place in partitions
	asks       []int64 // the offset that the next request asks for
	due        []int64 // the offset that the next answer must begin with
	head       int
	frameAt    int
	offsetAt   int
	since      []time.Time
}

func (l *FetchLoad) check() error {
	switch {
	case l.Connections < 1 || l.InFlight < 1 || l.MaxBytes < 1:
		return errors.New("a fetch load needs connections, requests in flight and a size")
	case l.InFlight > 1 && l.Uniform == Layout{}:
		return errors.New("several fetches of a connection at a time need a known layout")
	case l.Uniform != Layout{} && l.Uniform.BatchBytes > l.MaxBytes:
		return errors.New("a fetch must have room for a batch")
	case l.Tail != nil && (!l.Tail.Stamp || l.Uniform != Layout{}):
		return errors.New("a tail needs stamps and reads everything")
	}
	return nil
}

func (l *FetchLoad) open(ctx context.Context) ([]opened, *Result, error) {
	if err := l.check(); err != nil {
		return nil, nil, err
	}
	leaders, err := leadersOf(ctx, l.Addr, l.Topic)
	if err != nil {
		return nil, nil, err
	}
	if l.Tail != nil && l.Connections < len(leaders) {
		return nil, nil, fmt.Errorf("a tail of %d partitions needs at least as many connections", len(leaders))
	}
	begin, err := offsetsOf(ctx, l.Addr, l.Topic, len(leaders), admin.Earliest)
	if err != nil {
		return nil, nil, err
	}
	end, err := offsetsOf(ctx, l.Addr, l.Topic, len(leaders), admin.Latest)
	if err != nil {
		return nil, nil, err
	}
	result := &Result{Name: "fetch"}
	if l.Tail != nil && l.Tail.batchBytes == 0 {
		return nil, nil, errors.New("a tail comes behind its producer in a run")
	}
	if l.Tail != nil {
		result.Name, begin = "tail", end
	}
	var all []opened
	for c := range l.Connections {
		src := &fetchSource{load: l, partitions: partitionsOf(c, l.Connections, len(leaders))}
		if src.partitions, err = sameLeader(src.partitions, leaders); err != nil {
			return nil, nil, err
		}
		for _, p := range src.partitions {
			if l.Tail == nil && end[p] <= begin[p] {
				return nil, nil, fmt.Errorf("partition %s-%d has no records to fetch", l.Topic, p)
			}
			src.begin, src.end = append(src.begin, begin[p]), append(src.end, end[p])
		}
		src.asks, src.due = append(src.asks, src.begin...), append(src.due, src.begin...)
		if l.Uniform != (Layout{}) {
			src.head = fetchHead(l.Topic)
		}
		s := &stream{source: src, result: result, inflight: l.InFlight}
		s.frame, src.frameAt, src.offsetAt = fetchFrame(l.Topic, int32(l.MaxBytes), l.MaxWait)
		all = append(all, opened{s, leaders[src.partitions[0]]})
	}
	return all, result, nil
}

func (f *fetchSource) headSize() int       { return f.head }
func (f *fetchSource) whole(n uint32) bool { return f.head == 0 || n%sampleEvery == 0 }
func (f *fetchSource) endless() bool       { return f.load.Tail != nil }

// complete says that a consumer has seen all that was acknowledged.
func (f *fetchSource) complete() bool {
	return f.load.Tail == nil || f.due[0] >= f.load.Tail.acked[f.partitions[0]]
}

func (f *fetchSource) prepare(frame []byte, n uint32, _ time.Time) {
	i := int(n) % len(f.partitions)
	binary.BigEndian.PutUint32(frame[f.frameAt:], uint32(f.partitions[i]))
	if f.head == 0 {
		f.asks[i] = f.due[i]
	}
	binary.BigEndian.PutUint64(frame[f.offsetAt:], uint64(f.asks[i]))
	if f.head > 0 {
		f.asks[i] = f.after(i, f.asks[i])
	}
}

// after is where the fetch behind the one from offset begins, in a topic with a known layout.
func (f *fetchSource) after(i int, offset int64) int64 {
	u := f.load.Uniform
	return f.wrap(i, offset+int64(f.load.MaxBytes/u.BatchBytes*u.Records))
}

// wrap goes back to the beginning at the end.
func (f *fetchSource) wrap(i int, offset int64) int64 {
	if f.load.Tail == nil && offset >= f.end[i] {
		return f.begin[i]
	}
	return offset
}

func (f *fetchSource) answer(n uint32, b []byte, size int, _ time.Time) (d delivery, err error) {
	i := int(n) % len(f.partitions)
	d, err = f.check(n, i, b, size)
	if err != nil {
		err = fmt.Errorf("fetch of %s-%d from offset %d: %w", f.load.Topic, f.partitions[i], f.due[i], err)
	}
	return d, err
}

const maxTrailer = 128 // bytes behind the records: empty tags

func (f *fetchSource) check(n uint32, i int, b []byte, size int) (d delivery, err error) {
	a, err := parseFetchHead(b, f.load.Topic)
	if err != nil {
		return d, err
	}
	if a.partition != f.partitions[i] {
		return d, fmt.Errorf("the answer is for partition %d", a.partition)
	}
	if end := a.recordsAt + a.recordsLen; end > size || size > end+maxTrailer {
		return d, fmt.Errorf("an answer of %d bytes with %d bytes of records", size, a.recordsLen)
	}
	want := 0 // batches
	if f.head > 0 {
		if want, err = f.wantBatches(i, &a); err != nil {
			return d, err
		}
		d = delivery{records: int64(want * f.load.Uniform.Records), bytes: int64(want * f.load.Uniform.BatchBytes)}
	}
	next := f.due[i]
	if f.whole(n) {
		if d, next, err = f.checkBatches(next, want, b[a.recordsAt:a.recordsAt+a.recordsLen]); err != nil {
			return d, err
		}
	}
	if f.head > 0 {
		next = f.after(i, f.due[i])
	}
	f.due[i] = f.wrap(i, next)
	return d, nil
}

// checkBatches checks all whole batches, or the first want of them, and returns the offset behind the last.
func (f *fetchSource) checkBatches(offset int64, want int, b []byte) (d delivery, next int64, err error) {
	f.since = f.since[:0]
	next = offset
	for n := 0; want == 0 || n < want; n++ {
		batch, rest, err := record.Frame(b)
		if errors.Is(err, io.EOF) || errors.Is(err, record.ErrShort) && (n > 0 || len(b) == 0) {
			break
		}
		if err == nil {
			err = batch.Check()
		}
		if err == nil {
			err = f.checkBatch(batch, next, n)
		}
		if err != nil {
			return d, next, err
		}
		b, next = rest, batch.NextOffset()
		d.records += int64(batch.Count())
		d.bytes += int64(len(batch))
		if t := f.load.Tail; t != nil {
			stamp := time.Duration(binary.BigEndian.Uint64(batch[t.stampAt:]))
			f.since = append(f.since, epoch.Add(stamp))
		}
	}
	if want > 0 && d.records != int64(want*f.load.Uniform.Records) {
		return d, next, fmt.Errorf("%d records in %d batches of %d", d.records, want, f.load.Uniform.Records)
	}
	d.since = f.since
	return d, next, nil
}

// checkBatch checks the n-th batch of an answer, which must begin at or behind next; only the first may begin before it.
func (f *fetchSource) checkBatch(batch record.Batch, next int64, n int) error {
	base, last := batch.BaseOffset(), batch.LastOffset()
	switch {
	case last < next || n > 0 && base < next:
		return fmt.Errorf("a batch with offsets %d to %d, want %d or more", base, last, next)
	case f.load.Exclusive && (base > next || int64(batch.Count()) != last-base+1):
		return fmt.Errorf("a batch with offsets %d to %d and %d records, want offset %d: there is a gap", base, last, batch.Count(), next)
	case f.load.Uniform != Layout{} && len(batch) != f.load.Uniform.BatchBytes:
		return fmt.Errorf("a batch of %d bytes, want %d", len(batch), f.load.Uniform.BatchBytes)
	case f.load.Tail != nil && len(batch) != f.load.Tail.batchBytes:
		return fmt.Errorf("a batch of %d bytes, but the producer sends %d", len(batch), f.load.Tail.batchBytes)
	}
	return nil
}

// wantBatches is how many whole batches must be in an answer of a topic with a known layout: as many as fit.
func (f *fetchSource) wantBatches(i int, a *fetchAnswer) (int, error) {
	u := f.load.Uniform
	want := min(f.load.MaxBytes/u.BatchBytes, int(f.end[i]-f.due[i])/u.Records)
	if a.recordsLen > f.load.MaxBytes || a.recordsLen/u.BatchBytes < want {
		return 0, fmt.Errorf("%d bytes of records, want %d batches of %d bytes", a.recordsLen, want, u.BatchBytes)
	}
	return want, nil
}
