//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions     = 6
	producers      = 4
	bufferedMax    = 512 // records a producer has on their way
	recordPause    = time.Millisecond
	recordsPerTurn = 6
	bytesMax       = 600
	patience       = 60 * time.Second // for anything to be answered once the broker is up
)

// run is one topic under load: idempotent producers, a reader that runs along, and somebody who asks for the end offsets.
type run struct {
	addr, topic string
	ledgers     [partitions]ledger
	acked       atomic.Int64
	written     [producers][partitions]uint32 // each producer's goroutine; read when it has ended
	failure     atomic.Pointer[error]         // the first that must not happen
	stop        context.CancelFunc            // ends the producers' loops
	writers     sync.WaitGroup
	watchers    sync.WaitGroup
	unwatch     context.CancelFunc
	clients     []*kgo.Client
}

func (r *run) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	r.failure.CompareAndSwap(nil, &err)
}

// err is the first failure.
func (r *run) err() error {
	if p := r.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// options make clients that give up nothing and come back soon.
func (r *run) options(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(r.addr), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RequestTimeoutOverhead(time.Second), kgo.RetryTimeout(10 * time.Minute), kgo.RequestRetries(1 << 30),
	}, more...)
}

// startRun creates the topic and begins.
func startRun(t *testing.T, addr, topic string, seed uint64) *run {
	r := &run{addr: addr, topic: topic}
	for p := range r.ledgers {
		r.ledgers[p].acked = map[int64]id{}
	}
	admin := r.client(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	small := kadm.StringPtr("1048576") // rolls now and then
	if _, err := kadm.NewClient(admin).CreateTopic(ctx, partitions, 1, map[string]*string{"segment.bytes": small}, topic); err != nil {
		t.Fatalf("create topic: %v", err)
	}
	writing, stop := context.WithCancel(context.Background())
	watching, unwatch := context.WithCancel(context.Background())
	r.stop, r.unwatch = stop, unwatch
	for n := range producers {
		cl := r.client(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(bufferedMax),
			kgo.ProducerLinger(time.Duration(n)*2*time.Millisecond), kgo.ProduceRequestTimeout(time.Second), kgo.StopProducerOnDataLossDetected(),
			kgo.UnknownTopicRetries(-1))
		r.writers.Go(func() { r.produce(writing, cl, uint32(n), rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	reader := r.reader(t)
	r.watchers.Go(func() { r.read(watching, reader) })
	r.watchers.Go(func() { r.watchEnds(watching, kadm.NewClient(admin)) })
	return r
}

func (r *run) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(r.options(opts...)...)
	if err != nil {
		t.Fatalf("client: %v", err)
	}
	r.clients = append(r.clients, cl)
	return cl
}

// reader reads all partitions from their start, and never begins anywhere else.
func (r *run) reader(t *testing.T) *kgo.Client {
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().At(0)
	}
	return r.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: from}), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(200*time.Millisecond))
}

// produce writes to all partitions until ctx ends, and then waits until everything is acknowledged.
func (r *run) produce(ctx context.Context, cl *kgo.Client, n uint32, random *rand.Rand) {
	pause := time.NewTicker(recordPause)
	defer pause.Stop()
	for ctx.Err() == nil && r.err() == nil {
		for range recordsPerTurn {
			p := random.Int32N(partitions)
			i := id{n, r.written[n][p]}
			r.written[n][p]++
			record := &kgo.Record{Partition: p, Value: i.value(random.IntN(bytesMax))}
			cl.Produce(context.Background(), record, func(rec *kgo.Record, err error) {
				if err != nil {
					r.fail("%v was not taken: %w", i, err)
					return
				}
				r.ledgers[p].ack(rec.Offset, i)
				r.acked.Add(1)
			})
		}
		<-pause.C
	}
	flushing, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := cl.Flush(flushing); err != nil {
		r.fail("producer %d: the last records are not acknowledged: %w", n, err)
	}
}

// read reads along.
func (r *run) read(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachError(func(_ string, p int32, err error) {
			if ctx.Err() == nil && !isConnection(err) {
				r.fail("reading partition %d: %w", p, err)
			}
		})
		fetches.EachRecord(func(rec *kgo.Record) { r.ledgers[rec.Partition].see(rec.Offset, rec.Value) })
	}
}

// isConnection: the broker was killed meanwhile, which is no answer.
func isConnection(err error) bool {
	var op interface{ Timeout() bool } // net.Error
	var first *kgo.ErrFirstReadEOF     // killed between the connection and the first answer
	return errors.As(err, &op) || errors.As(err, &first) || errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.DeadlineExceeded)
}

// watchEnds asks for the ends of the partitions.
func (r *run) watchEnds(ctx context.Context, admin *kadm.Client) {
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asking, cancel := context.WithTimeout(ctx, time.Second)
		ends, err := admin.ListEndOffsets(asking, r.topic)
		cancel()
		if err != nil {
			continue
		}
		ends.Each(func(o kadm.ListedOffset) {
			if o.Err == nil && o.Partition >= 0 && o.Partition < partitions {
				r.ledgers[o.Partition].ended(o.Offset)
			}
		})
	}
}

// finish ends the load, reads everything again, and returns what is wrong.
func (r *run) finish(t *testing.T) []error {
	r.stop()
	r.writers.Wait()
	r.unwatch()
	r.watchers.Wait()
	final, err := r.readAll(t)
	for _, cl := range r.clients {
		cl.Close()
	}
	errs := []error{r.err(), err}
	for p := range r.ledgers {
		written := map[uint32]uint32{}
		for n := range producers {
			written[uint32(n)] = r.written[n][p]
		}
		for _, err := range r.ledgers[p].verify(final[p], written) {
			errs = append(errs, fmt.Errorf("partition %d: %w", p, err))
		}
	}
	return errs
}

// readAll reads the topic from start to end with a new client.
func (r *run) readAll(t *testing.T) (final [partitions][]id, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	defer cancel()
	cl := r.reader(t)
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, r.topic)
	if err != nil {
		return final, fmt.Errorf("end offsets: %w", err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return final, fmt.Errorf("reading everything again, %d records are left: %w", left, err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			i, bad := parseValue(rec.Value)
			if bad == nil && rec.Offset != int64(len(final[rec.Partition])) {
				bad = fmt.Errorf("it came after offset %d", len(final[rec.Partition])-1)
			}
			if bad != nil && err == nil {
				err = fmt.Errorf("partition %d offset %d: %w", rec.Partition, rec.Offset, bad)
			}
			final[rec.Partition] = append(final[rec.Partition], i)
			left--
		})
	}
	return final, err
}
