package fuzz

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/replication"
)

// The metamorphic suite does one random list of operations under many sets of options that must not matter: how large segments and indexes are,
// how often there is an index entry, how files are synced, how many workers append, whether a restart was a clean one, whether acknowledging waits
// for the disk. Everything that clients can see must be the same.

// meta is one operation. Which fields count depends on its kind.
type metaOp struct {
	kind      metaKind
	partition int
	batches   []*batch
	upTo      float64 // share of what is in the log
	ms        int64
}

type metaKind uint8

const (
	metaAppend  metaKind = iota // batches, to one partition
	metaAgain                   // the newest batches of the idempotent producer once more
	metaDelete                  // records below upTo
	metaTick                    // time passes; nothing is old enough for retention
	metaExpire                  // time passes; everything is
	metaRestart                 // cleanly or not, as the options say
)

const (
	metaPartitions  = 3
	metaRetentionMs = 10_000_000
)

// metaOps is the list of a seed.
func metaOps(seed uint64, n int) []metaOp {
	rng := rand.New(rand.NewPCG(seed, 3))
	w, t := &world{}, &topic{name: "t"}
	for i := range int32(metaPartitions) {
		t.parts = append(t.parts, newPart(i))
	}
	now := int64(startMs)
	var ops []metaOp
	for range n {
		op := metaOp{partition: rng.IntN(metaPartitions), upTo: rng.Float64()}
		switch x := rng.IntN(40); {
		case x < 26:
			idempotent := rng.IntN(2) == 0
			for range 1 + rng.IntN(5) {
				op.batches = append(op.batches, w.makeBatch(t, t.parts[op.partition], rng, now, idempotent))
			}
		case x < 28:
			op.kind = metaAgain
		case x < 31:
			op.kind = metaDelete
		case x < 36:
			op.kind, op.ms = metaTick, rng.Int64N(5000)
		case x < 37:
			op.kind, op.ms = metaExpire, metaRetentionMs+10_000
		default:
			op.kind = metaRestart
		}
		now += op.ms
		ops = append(ops, op)
	}
	return append(ops, metaOp{kind: metaRestart})
}

// metaOptions are what must not matter.
type metaOptions struct {
	node         nodeOptions
	topic        map[string]string
	segmentBytes int
	crash        []vfs.CrashMode // of the restarts, in turn; cleanStop is none
	appendAtOnce bool            // all batches of an operation are sent before the first answer
	writeCaching bool
}

const cleanStop = vfs.CrashMode(255)

func (o *metaOptions) String() string {
	return fmt.Sprintf("%d workers, sync %s, checkpoint step %d, segment bytes %d, topic %v, restarts %v", o.node.workers, o.node.syncMethod,
		o.node.checkpointStep, o.segmentBytes, o.topic, o.crash)
}

// plainOptions are those everything is compared with: large segments, one worker, clean restarts.
func plainOptions() *metaOptions {
	return &metaOptions{node: nodeOptions{workers: 1, syncMethod: "fdatasync", checkpointStep: 1 << 30}, segmentBytes: 1 << 20,
		topic: map[string]string{"segment.index.bytes": "8192", "index.interval.bytes": "4096"}, crash: []vfs.CrashMode{cleanStop}}
}

func randomOptions(rng *rand.Rand) *metaOptions {
	pick := func(values ...string) string { return values[rng.IntN(len(values))] }
	o := &metaOptions{appendAtOnce: rng.IntN(2) == 0, writeCaching: rng.IntN(4) == 0, segmentBytes: []int{3000, 6000, 10_000, 1 << 20}[rng.IntN(4)]}
	o.node = nodeOptions{workers: 1 + rng.IntN(4), syncMethod: pick("auto", "fdatasync", "syncfs"), checkpointStep: 1 + rng.Int64N(5000), snapshotRecords: 5 + rng.Int64N(100)}
	o.topic = map[string]string{"segment.index.bytes": pick("24", "100", "8192"), "index.interval.bytes": pick("0", "100", "1000", "4096"),
		"preallocate": pick("true", "false"), "write.caching": fmt.Sprint(o.writeCaching), "flush.ms": pick("1", "3000", "1000000")}
	modes := append([]vfs.CrashMode{cleanStop}, vfs.CrashModes...)
	if o.writeCaching {
		modes = []vfs.CrashMode{cleanStop, vfs.KeepAll} // a power cut may take what was acknowledged
	}
	for range 4 {
		o.crash = append(o.crash, modes[rng.IntN(len(modes))])
	}
	return o
}

// metaRun is a run of a list.
type metaRun struct {
	o        *metaOptions
	seed     uint64
	disk     *vfs.Mem
	clock    *clock
	n        *node
	w        *world
	t        *topic
	restarts int
	seen     []string // at every restart
}

func runMeta(ops []metaOp, o *metaOptions, seed uint64) (seen []string, err error) {
	r := &metaRun{o: o, seed: seed, disk: vfs.NewMem(seed), clock: newClock(startMs), w: &world{}}
	r.disk.SetNow(r.clock.time)
	if err := r.boot(); err != nil {
		return nil, err
	}
	config := map[string]string{"retention.ms": fmt.Sprint(metaRetentionMs)}
	for k, v := range o.topic {
		config[k] = v
	}
	if err := createTopic(r.n, r.w, "t", kind{config: config, segment: o.segmentBytes}, metaPartitions); err != nil {
		return nil, err
	}
	r.t = r.w.topics[0]
	for i := range ops {
		shrink(r.n, r.w)
		if err := r.do(&ops[i]); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return r.seen, r.n.stop()
}

func (r *metaRun) boot() (err error) {
	r.restarts++
	o := r.o.node
	o.seed = r.seed*100 + uint64(r.restarts)
	r.n, err = boot(r.disk, r.clock, o)
	return err
}

func (r *metaRun) do(op *metaOp) error {
	p := r.t.parts[op.partition]
	q := r.n.repl.PartitionByID(r.t.id, p.number)
	switch op.kind {
	case metaAppend:
		return r.append(p, op.batches)
	case metaAgain:
		return r.append(p, slices.Clone(p.answered))
	case metaDelete:
		if start, hw := q.LogStart(), q.HighWatermark(); hw > start {
			return deleteRecords(r.n, r.w, r.t, p, start+int64(op.upTo*float64(hw-start)))
		}
	case metaTick, metaExpire:
		r.clock.ms.Add(op.ms)
		tick(r.n, r.w)
	case metaRestart:
		return r.restart()
	}
	return nil
}

func (r *metaRun) append(p *part, batches []*batch) error {
	var calls []*call
	for _, b := range batches {
		c := r.w.send(r.n, r.t, p, b, -1)
		if !r.o.appendAtOnce {
			<-c.done
		}
		calls = append(calls, c)
	}
	for _, c := range calls {
		<-c.done
	}
	return r.w.err()
}

// restart looks, stops and starts, and looks again: what clients see stays.
func (r *metaRun) restart() error {
	before, err := r.observe()
	if err != nil {
		return err
	}
	mode := r.o.crash[r.restarts%len(r.o.crash)]
	old := r.disk
	if mode != cleanStop {
		r.disk = old.CrashAt(mode, r.seed+uint64(r.restarts))
	}
	if err := r.n.stop(); err != nil {
		return err
	}
	if err := r.boot(); err != nil {
		return fmt.Errorf("start refused after %v: %w", mode, err)
	}
	after, err := r.observe()
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("a restart (%v) changed what clients see:\n%s", mode, firstDifference(before, after))
	}
	r.seen = append(r.seen, after)
	return nil
}

// observe describes all that clients can see of the topic.
func (r *metaRun) observe() (string, error) {
	var b strings.Builder
	for _, p := range r.t.parts {
		q := r.n.repl.PartitionByID(r.t.id, p.number)
		if err := describe(&b, q); err != nil {
			return "", fmt.Errorf("partition %d: %w", p.number, err)
		}
	}
	return b.String(), nil
}

func describe(b *strings.Builder, q *replication.Partition) error {
	l := q.Log()
	fmt.Fprintf(b, "partition %d: %d to %d, high watermark %d, last stable %d\n", q.Number(), q.LogStart(), q.LogEnd(), q.HighWatermark(), q.LastStable())
	var stamps []int64
	for at := q.LogStart(); at < q.LogEnd(); {
		stored, err := batchAt(q, at)
		if err != nil {
			return err
		}
		h := fnv.New64a()
		h.Write(stored)
		fmt.Fprintf(b, "  offset %d: batch %d to %d, epoch %d (%d here), %x\n", at, stored.BaseOffset(), stored.LastOffset(), stored.PartitionLeaderEpoch(), l.EpochAt(at), h.Sum64())
		stamps = append(stamps, stored.BaseTimestamp(), stored.MaxTimestamp(), stored.MaxTimestamp()+1)
		at++ // every offset is looked up, also those inside a batch
	}
	slices.Sort(stamps)
	for _, ts := range append(slices.Compact(stamps), 0, startMs*2) {
		offset, found, epoch, ok, err := l.OffsetForTimestamp(ts, q.HighWatermark())
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "  time %d: offset %d, %d, epoch %d, %v\n", ts, offset, found, epoch, ok)
	}
	offset, ts, epoch, ok, err := l.MaxTimestampOffset(q.HighWatermark())
	fmt.Fprintf(b, "  largest time: offset %d, %d, epoch %d, %v, %v\n", offset, ts, epoch, ok, err)
	describeProducers(b, q)
	return nil
}

func describeProducers(b *strings.Builder, q *replication.Partition) {
	all := q.Log().Producers()
	slices.SortFunc(all, func(x, y engine.ProducerState) int { return cmp.Compare(x.ProducerID, y.ProducerID) })
	for _, p := range all {
		fmt.Fprintf(b, "  producer %d: epoch %d, sequence %d, transaction %d\n", p.ProducerID, p.Epoch, p.LastSequence, p.CurrentTxnStartOffset)
	}
}

// batchAt reads the batch that holds an offset.
func batchAt(q *replication.Partition, offset int64) (record.Batch, error) {
	r, err := q.Read(offset, 1, true, false)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	buf := make([]byte, r.N)
	if _, err := r.ReadAt(buf, 0); err != nil {
		return nil, err
	}
	b, _, err := record.Frame(buf)
	if err == nil {
		err = b.Check()
	}
	if err == nil && (b.BaseOffset() > offset || b.LastOffset() < offset) {
		err = fmt.Errorf("offset %d is answered with %d to %d", offset, b.BaseOffset(), b.LastOffset())
	}
	return b, err
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("- %s\n+ %s", x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines, %d lines", len(x), len(y))
}

// TestMetamorphic runs random lists under random options.
func TestMetamorphic(t *testing.T) {
	lists, sets, length := 6, 10, 60
	switch {
	case invariant.Enabled:
		lists, sets = 2, 4
	case os.Getenv(envStates) != "":
		lists = 60
	}
	first := startSeed()

	for seed := first; seed < first+uint64(lists); seed++ {
		ops := metaOps(seed, length)
		want, err := runMeta(ops, plainOptions(), seed)
		if err != nil {
			t.Fatalf("%s=%d: plain options: %v", envSeed, seed, err)
		}
		rng := rand.New(rand.NewPCG(seed, 4))
		for range sets {
			o := randomOptions(rng)
			got, err := runMeta(ops, o, seed)
			if err != nil {
				t.Fatalf("%s=%d: %v: %v", envSeed, seed, o, err)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s=%d: %v: restart %d: not what plain options give:\n%s", envSeed, seed, o, i, firstDifference(want[i], got[i]))
				}
			}
		}
	}
	t.Logf("%s=%d: %d lists of %d operations, each under %d sets of options", envSeed, first, lists, length, sets)
}
