//go:build linux

package bench

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/record"
)

const (
	fetchPartitions = 4
	fetchBytes      = 128 << 20 // of each partition
	fetchMax        = 1 << 20   // of each request
	sampleEvery     = 61        // one answer of so many is read and checked whole
)

// fetchData is what lies in every partition: the same batch, again and again.
type fetchData struct {
	batchSize, batchRecords int
	batches                 int
}

// perFetch is how many whole batches fit into an answer.
func (d *fetchData) perFetch() int { return fetchMax / d.batchSize }

// BenchmarkFetch reads topics that are in the page cache, over and over: one partition per connection, up to 1 MiB per request, one request at a time per
// connection. The client lets the kernel drop most of the bytes, so that the server is what is measured. The floor is a server with a thread per
// connection that sends the same ranges of the same files with sendfile.
func BenchmarkFetch(b *testing.B) {
	b.Run("F1M", func(b *testing.B) { benchFetch(b) })
}

func benchFetch(b *testing.B) {
	f := newFetchFixture(b)
	f.own.run(b, 200*time.Millisecond)
	f.broker.profile("fetch-F1M")
	compare(b, "fetch F1M", ">= 70%", func() sample { return f.broker.measure(func() sample { return f.own.run(b, *roundTime) }) },
		func() sample { return f.bare.measure(func() sample { return f.floor.run(b, *roundTime) }) })
}

// fetchFixture is a broker and a bare server with the same data, and a generator for each.
type fetchFixture struct {
	broker, bare *child
	own, floor   *generator
}

func newFetchFixture(b *testing.B) *fetchFixture {
	dir := scratch(b)
	f := &fetchFixture{broker: startChild(b, brokerSpec(dir))}
	mustCreate(b, f.broker.addr, "bench", fetchPartitions)
	data := fill(b, f.broker.addr)
	var files []string
	for i := range fetchPartitions {
		files = append(files, filepath.Join(dir, fmt.Sprintf("bench-%d", i), "00000000000000000000.log"))
	}
	f.bare = startChild(b, childSpec{Role: "bare-fetch", Files: files})
	f.own, f.floor = newGenerator(b, data.streams(b, f.broker.addr)), newGenerator(b, data.bareStreams(b, f.bare.addr))
	return f
}

// fill produces the data.
func fill(b *testing.B, addr string) *fetchData {
	sh := shape{records: 64, value: 1013, connections: fetchPartitions, inflight: 16}
	answer := newProduceAnswer("bench")
	streams := sh.streams(b, addr, &answer)
	d := &fetchData{batchSize: streams[0].bytes, batchRecords: sh.records}
	g := newGenerator(b, streams)
	for least := int32(0); int(least)*d.batchSize < fetchBytes; {
		g.run(b, 200*time.Millisecond)
		least = streams[0].answered
		for _, s := range streams {
			least = min(least, s.answered)
		}
		d.batches = int(least)
	}
	return d
}

// at is the batch that request n of a stream starts with.
func (d *fetchData) at(n int32) int {
	turns := d.batches / d.perFetch()
	return int(n) % turns * d.perFetch()
}

func (d *fetchData) streams(b *testing.B, addr string) []*stream {
	var all []*stream
	for i := range fetchPartitions {
		frame, corrAt, offsetAt := offsetInFetch("bench", int32(i), fetchMax)
		s := &stream{fd: dialRaw(b, addr), inflight: 1, frame: frame, corrAt: corrAt, records: d.perFetch() * d.batchRecords, bytes: fetchMax, need: answerHead}
		s.prepare = func(s *stream, n int32) {
			binary.BigEndian.PutUint64(s.frame[offsetAt:], uint64(d.at(n)*d.batchRecords))
		}
		s.wants = func(n int32) bool { return n%sampleEvery == 0 }
		s.check = d.check
		all = append(all, s)
	}
	return all
}

// check demands a full answer, and of a sampled one that every batch is the right one and whole.
func (d *fetchData) check(s *stream, n int32, head []byte, size int) error {
	if size < fetchMax || size > fetchMax+200 {
		return fmt.Errorf("%d bytes", size)
	}
	if !s.whole {
		return nil
	}
	resp, err := parse(fetchRequest("bench", 0, 0, fetchMax), head[4:])
	if err != nil {
		return err
	}
	p := &resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || len(p.RecordBatches) != fetchMax {
		return fmt.Errorf("code %d, %d bytes of records", p.ErrorCode, len(p.RecordBatches))
	}
	rest := p.RecordBatches
	for i := range d.perFetch() {
		var batch record.Batch
		if batch, rest, err = record.Frame(rest); err == nil {
			err = batch.Check()
		}
		if want := int64((d.at(n) + i) * d.batchRecords); err != nil || batch.BaseOffset() != want || int(batch.Count()) != d.batchRecords {
			return fmt.Errorf("batch %d: offset %d, want %d (%v)", i, batch.BaseOffset(), want, err)
		}
	}
	return nil
}

func (d *fetchData) bareStreams(b *testing.B, addr string) []*stream {
	var all []*stream
	for i := range fetchPartitions {
		s := &stream{fd: dialRaw(b, addr), inflight: 1, corrAt: 4, records: d.perFetch() * d.batchRecords, bytes: fetchMax, need: answerHead}
		s.frame = make([]byte, bareFetchRequest)
		binary.BigEndian.PutUint32(s.frame, bareFetchRequest-4)
		binary.BigEndian.PutUint32(s.frame[8:], uint32(i))
		binary.BigEndian.PutUint32(s.frame[20:], fetchMax)
		s.prepare = func(s *stream, n int32) { binary.BigEndian.PutUint64(s.frame[12:], uint64(d.at(n)*d.batchSize)) }
		s.wants = func(n int32) bool { return n%sampleEvery == 0 }
		s.check = func(_ *stream, _ int32, _ []byte, size int) error {
			if size != answerHead+fetchMax {
				return fmt.Errorf("%d bytes", size)
			}
			return nil
		}
		all = append(all, s)
	}
	return all
}
