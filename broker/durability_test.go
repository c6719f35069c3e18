package broker

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// holdSyncs makes every sync of a segment wait until release is called.
func holdSyncs(disk *vfs.Fault) (release func()) {
	gate := make(chan struct{})
	held := disk.Inject(vfs.Injection{
		Match: func(op vfs.Op) bool {
			return op.Kind == vfs.OpSyncFS || op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log")
		},
		Nth: 1, Sticky: true,
		Before: func(vfs.Op) { <-gate },
	})
	var once sync.Once
	return func() {
		once.Do(func() {
			held.Remove()
			close(gate)
		})
	}
}

// Promise 1: acks=1 is answered when the batch is written, acks=-1 when it is on stable storage, and a consumer sees it from then on only.
func TestHighWatermarkWaitsForTheFlush(t *testing.T) {
	n, disk := startFaulty(t)
	c, reader, all := n.dial(), n.dial(), n.dial()
	c.create("t", 1)
	c.mustProduce("t", 0, plain("old"))
	release := holdSyncs(disk)
	defer release()
	p := c.produceAt(9, 1, "t", 0, plain("one"))
	if p.ErrorCode != 0 || p.BaseOffset != 1 {
		t.Fatalf("%+v", p)
	}
	all.send(produceRequest(9, -1, "t", 0, plain("all")))
	part := n.b.repl.Partition("t", 0)
	eventually(t, "both are written", func() bool { return part.LogEnd() == 3 })
	if f := reader.fetch("t", 0, 1); f.HighWatermark != 1 || len(f.RecordBatches) != 0 || f.ErrorCode != 0 {
		t.Fatalf("a record is visible before its flush: %+v", f)
	}
	latest := do[*kmsg.ListOffsetsResponse](reader, listRequest(5, "t", 0, -1))
	if got := latest.Topics[0].Partitions[0].Offset; got != 1 {
		t.Fatalf("latest offset %d before the flush", got)
	}
	reader.send(longFetch(12, "t", 1, 1))
	n.waitParked(1)
	if len(all.sent) != 1 || hasInput(all) {
		t.Fatal("acks=-1 was answered before the flush")
	}
	release()
	if p := onlyProduced(t, next[*kmsg.ProduceResponse](all)); p.ErrorCode != 0 || p.BaseOffset != 2 {
		t.Fatalf("%+v", p)
	}
	if f := onlyFetched(t, next[*kmsg.FetchResponse](reader)); len(f.RecordBatches) == 0 {
		t.Fatalf("%+v", f)
	}
	wantValues(t, c.readAll("t", 0), "0:old", "1:one", "2:all")
}

// hasInput reports whether an answer has arrived already. A deadline that is over would end the read before it looks.
func hasInput(c *client) bool {
	_ = c.conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err := c.conn.Read(make([]byte, 1))
	return err == nil
}

// write.caching is the way to relax it: acks=-1 does not wait for the disk.
func TestWriteCachingDoesNotWaitForTheFlush(t *testing.T) {
	n, disk := startFaulty(t)
	c := n.dial()
	c.create("t", 1, "write.caching=true")
	release := holdSyncs(disk)
	defer release()
	c.mustProduce("t", 0, plain("x"))
	wantValues(t, c.readAll("t", 0), "0:x")
	release()
}

// Time limits run though somebody sets the clock back by a day.
func TestProduceTimesOutWhenTheClockGoesBack(t *testing.T) {
	const day = 24 * 3600 * 1000
	var wall atomic.Int64
	wall.Store(nowMs())
	begin := time.Now()
	disk := vfs.NewFault(vfs.NewMem(1))
	n, err := tryStartWith(t, Options{FS: disk, Now: wall.Load, Steady: func() int64 { return time.Since(begin).Milliseconds() }})
	if err != nil {
		t.Fatal(err)
	}
	c := n.dial()
	c.create("t", 1, "message.timestamp.after.max.ms=9223372036854775807")
	release := holdSyncs(disk)
	defer release()
	req := produceRequest(9, -1, "t", 0, plain("x"))
	req.TimeoutMillis = 1
	wall.Add(-day)
	wantCode(t, onlyProduced(t, do[*kmsg.ProduceResponse](c, req)).ErrorCode, protocol.RequestTimedOut)
	c.send(req)
	wall.Add(-day)
	wantCode(t, onlyProduced(t, next[*kmsg.ProduceResponse](c)).ErrorCode, protocol.RequestTimedOut)
	release()
}

// An acks=-1 produce whose flush takes too long is answered with REQUEST_TIMED_OUT; its record stays.
func TestProduceTimesOut(t *testing.T) {
	n, disk := startFaulty(t)
	c := n.dial()
	c.create("t", 1)
	release := holdSyncs(disk)
	defer release()
	req := produceRequest(9, -1, "t", 0, plain("x"))
	req.TimeoutMillis = 1
	wantCode(t, onlyProduced(t, do[*kmsg.ProduceResponse](c, req)).ErrorCode, protocol.RequestTimedOut)
	release()
	eventually(t, "the record is durable", func() bool { return n.b.repl.Partition("t", 0).HighWatermark() == 1 })
}

// While a flush hangs the broker stops within what Close is given, and answers what waits.
func TestCloseWithParkedProduce(t *testing.T) {
	n, disk := startFaulty(t)
	c := n.dial()
	c.create("t", 1)
	release := holdSyncs(disk)
	c.send(produceRequest(9, -1, "t", 0, plain("x")))
	eventually(t, "it is written", func() bool { return n.b.repl.Partition("t", 0).LogEnd() == 1 })
	closed := make(chan struct{})
	go func() { n.close(); close(closed) }()
	eventually(t, "the broker stops", func() bool { return n.b.stopping.Load() })
	release()
	<-closed
	if p := onlyProduced(t, next[*kmsg.ProduceResponse](c)); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
}

// acked is what a test has been promised.
type acked struct {
	values map[string][]string // "topic-partition": values in order
	pid    int64
	seq    int32
}

// fill creates topics, produces and notes what was acknowledged.
func (a *acked) fill(c *client, round int) {
	c.t.Helper()
	if a.values == nil {
		a.values = map[string][]string{}
		c.create("a", 2)
		c.create("b", 1, "retention.ms=1234567890")
		a.pid = do[*kmsg.InitProducerIDResponse](c, sample(protocol.KeyInitProducerID, 4, [16]byte{})).ProducerID
	}
	for i := range 10 {
		v := fmt.Sprintf("r%d-%d", round, i)
		c.mustProduce("a", int32(i%2), plain(v))
		key := fmt.Sprintf("a-%d", i%2)
		a.values[key] = append(a.values[key], v)
		c.mustProduce("b", 0, sequenced(a.pid, 0, a.seq, v))
		a.seq++
		a.values["b-0"] = append(a.values["b-0"], v)
	}
}

// check compares the broker with what was promised.
func (a *acked) check(n *node) {
	n.t.Helper()
	c := n.dial()
	for key, want := range a.values {
		topic, partition := key[:1], int32(key[2]-'0')
		var got []string
		for _, v := range c.readAll(topic, partition) {
			_, v, _ = strings.Cut(v, ":")
			got = append(got, v)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			n.t.Fatalf("%s has %v, acknowledged was %v", key, got, want)
		}
	}
	// The producer's sequence survived: its last batch again is a duplicate, a gap is one.
	last := a.values["b-0"][len(a.values["b-0"])-1]
	if p := c.produce("b", 0, sequenced(a.pid, 0, a.seq-1, last)); p.ErrorCode != 0 || p.BaseOffset != int64(len(a.values["b-0"])-1) {
		n.t.Fatalf("duplicate after the restart: %+v", p)
	}
	wantCode(n.t, c.produce("b", 0, sequenced(a.pid, 0, a.seq+1, "gap")).ErrorCode, protocol.OutOfOrderSequenceNumber)
	if got := c.describe(kmsg.ConfigResourceTypeTopic, "b", "retention.ms"); text(got.Value) != "1234567890" {
		n.t.Fatalf("retention.ms = %s", text(got.Value))
	}
	if id := do[*kmsg.InitProducerIDResponse](c, sample(protocol.KeyInitProducerID, 4, [16]byte{})).ProducerID; id <= a.pid {
		n.t.Fatalf("producer id %d again, after %d", id, a.pid)
	}
}

// R5, A6, A8: a power cut while serving, several times in a row, in each way a disk may forget what was not synced: everything acknowledged is there,
// leader epochs grow, producer ids are new, sequences go on.
func TestCrashKeepsWhatWasAcknowledged(t *testing.T) {
	for _, mode := range vfs.CrashModes {
		t.Run(mode.String(), func(t *testing.T) {
			mem := vfs.NewMem(uint64(mode) + 7)
			var a acked
			epoch := int32(-1)
			for round := range 4 {
				n := startOn(t, mem)
				if round > 0 {
					a.check(n)
				}
				if e := n.b.repl.Partition("a", 0); e != nil {
					if e.LeaderEpoch() <= epoch {
						t.Fatalf("leader epoch %d after %d", e.LeaderEpoch(), epoch)
					}
					epoch = e.LeaderEpoch()
				}
				c := n.dial()
				a.fill(c, round)
				for range 5 { // not acknowledged: may survive or not, and must not harm
					c.send(produceRequest(9, 1, "c", 0, plain("unsure")))
				}
				mem = mem.Crash(mode)
				n.kill()
			}
			a.check(startOn(t, mem))
		})
	}
}

// The time limit of a stop is for the connections: the log is closed cleanly all the same.
func TestCloseOutOfTimeIsClean(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 30)
	c.mustProduce("t", 7, plain("x"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.closed = true
	_ = n.b.Close(ctx) // may say that connections were cut
	n.gone()
	if _, err := n.fs.Stat("/data/.kafka_cleanshutdown"); err != nil {
		t.Error(err)
	}
}

func TestCleanRestartKeepsEverything(t *testing.T) {
	n := startOn(t, vfs.OS, "log.dirs="+t.TempDir())
	dirs := "log.dirs=" + n.b.engine.Dirs()[0].Path
	var a acked
	for round := range 3 {
		a.fill(n.dial(), round)
		cluster := n.b.ClusterID()
		n = n.restart(dirs)
		if n.b.ClusterID() != cluster {
			t.Fatalf("cluster id %s, was %s", n.b.ClusterID(), cluster)
		}
		a.check(n)
	}
}

// A full disk is a state: producers get an error that they retry, consumers and admin requests go on, and when there is room again so do producers.
func TestDiskFull(t *testing.T) {
	mem := vfs.NewMem(1)
	n := startOn(t, mem, "log.segment.bytes=1048576")
	c := n.dial()
	c.create("t", 1)
	c.mustProduce("t", 0, plain("before"))
	usage, err := mem.Usage("/data")
	if err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(usage.Total - usage.Free + 100<<10)
	var refused protocol.Code
	good := 1
	for i := 0; i < 200 && refused == protocol.None; i++ {
		p := c.produce("t", 0, plain(strings.Repeat("x", 10_000)))
		if refused = protocol.Code(p.ErrorCode); refused == protocol.None {
			good++
		}
	}
	if !refused.Retriable() {
		t.Fatalf("a full disk answers %s", refused.Name())
	}
	if got := c.readAll("t", 0); len(got) != good {
		t.Fatalf("%d records, acknowledged were %d", len(got), good)
	}
	c.send(sample(protocol.KeyMetadata, 12, [16]byte{}))
	c.recv()
	mem.SetCapacity(1 << 40)
	eventually(t, "it recovers", func() bool { return c.produce("t", 0, plain("after")).ErrorCode == 0 })
	n = n.restart()
	got := n.dial().readAll("t", 0)
	if len(got) != good+1 || !strings.HasSuffix(got[len(got)-1], ":after") {
		t.Fatalf("%d records after the restart, want %d", len(got), good+1)
	}
}

// A write that fails is answered with an error and leaves no trace in what is served.
func TestWriteFails(t *testing.T) {
	n, disk := startFaulty(t)
	c := n.dial()
	c.create("t", 1)
	c.mustProduce("t", 0, plain("a"))
	in := disk.Inject(vfs.Injection{
		Match: func(op vfs.Op) bool { return op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".log") },
		Nth:   1, Err: vfs.ErrDiskFull, Short: 20,
	})
	p := c.produce("t", 0, plain("b"))
	if !protocol.Code(p.ErrorCode).Retriable() {
		t.Fatalf("%s", protocol.Code(p.ErrorCode).Name())
	}
	in.Remove()
	if off := c.mustProduce("t", 0, plain("c")); off != 1 {
		t.Fatalf("offset %d", off)
	}
	wantValues(t, c.readAll("t", 0), "0:a", "1:c")
}

// Frames go back to their pool while other requests of the connection are answered: no answer may show another's bytes (B-H1).
func TestFramesAreNotMixed(t *testing.T) {
	n := start(t)
	admin := n.dial()
	const writers = 6
	admin.create("t", writers)
	var all sync.WaitGroup
	for w := range int32(writers) {
		c := n.dial()
		all.Go(func() {
			for i := range 200 {
				v := fmt.Sprintf("%d-%d-%s", w, i, strings.Repeat(string(rune('a'+w)), i*7%500))
				c.send(produceRequest(9, int16(i%2*2-1), "t", w, batch(record.Options{}, v)))
				if len(c.sent) > 8 {
					if p := onlyProduced(t, next[*kmsg.ProduceResponse](c)); p.ErrorCode != 0 {
						t.Errorf("%+v", p)
					}
				}
			}
			for len(c.sent) > 0 {
				c.recv()
			}
		})
	}
	all.Wait()
	for w := range int32(writers) {
		eventually(t, "all is durable", func() bool { return n.b.repl.Partition("t", w).HighWatermark() == 200 })
		for i, v := range admin.readAll("t", w) {
			if want := fmt.Sprintf("%d:%d-%d-%s", i, w, i, strings.Repeat(string(rune('a'+w)), i*7%500)); v != want {
				t.Fatalf("%q, want %q", v, want)
			}
		}
	}
}

// Data directory in use: the error names who holds it. A port in use: the error names the address, and no file was touched.
func TestStartFailures(t *testing.T) {
	dir := t.TempDir()
	n := startOn(t, vfs.OS, "log.dirs="+dir)
	_, err := tryStart(t, vfs.OS, "log.dirs="+dir)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("directory in use: %v", err)
	}
	other := t.TempDir()
	_, err = tryStart(t, vfs.OS, "listeners=PLAINTEXT://"+n.addr(), "log.dirs="+other)
	if err == nil || !strings.Contains(err.Error(), n.addr()) {
		t.Fatalf("port in use: %v", err)
	}
	if list, err := os.ReadDir(other); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	c := n.dial()
	c.create("t", 1) // the first one is undisturbed
	n.close()
	startOn(t, vfs.OS, "log.dirs="+dir)
}
