package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/replication"
)

// parked is how many fetches wait.
func (n *node) parked() int {
	count := 0
	n.b.conns.each(func(c *connection) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for op := range c.mu.parked {
			op.parking.mu.Lock()
			if op.parking.mu.state == parkParked {
				count++
			}
			op.parking.mu.Unlock()
		}
	})
	return count
}

// longFetch waits for minBytes bytes of partition 0 of a topic, for longer than a test may take.
func longFetch(version int16, topic string, offset int64, minBytes int32) *kmsg.FetchRequest {
	req := fetchRequest(version, topic, 0, offset)
	req.MinBytes, req.MaxWaitMillis = minBytes, int32(10*patience.Milliseconds())
	return req
}

func (n *node) waitParked(count int) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("%d fetches are parked", count), func() bool { return n.parked() == count })
}

func TestFetchWakesOnProduce(t *testing.T) {
	n := start(t)
	c, p := n.dial(), n.dial()
	c.create("t", 1)
	for i := range 20 {
		c.send(longFetch(12, "t", int64(i), 1))
		n.waitParked(1)
		p.mustProduce("t", 0, plain("x"))
		wantValues(t, values(t, onlyFetched(t, next[*kmsg.FetchResponse](c)).RecordBatches), fmt.Sprintf("%d:x", i))
	}
	n.waitParked(0)
}

func TestFetchWaitsForMinBytes(t *testing.T) {
	n := start(t)
	c, p := n.dial(), n.dial()
	c.create("t", 1)
	size := len(plain("x"))
	c.send(longFetch(12, "t", 0, int32(3*size)))
	for range 2 {
		n.waitParked(1)
		p.mustProduce("t", 0, plain("x"))
	}
	n.waitParked(1) // woken and parked again
	p.mustProduce("t", 0, plain("x"))
	if got := values(t, onlyFetched(t, next[*kmsg.FetchResponse](c)).RecordBatches); len(got) != 3 {
		t.Fatalf("%v", got)
	}
}

// max_wait ends the wait with what there is: nothing, or too little. A partition that does not exist does not shorten it, unless all are unknown.
func TestFetchMaxWait(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 2)
	c.mustProduce("t", 1, plain("x"))
	req := fetchRequest(12, "t", 0, 0)
	addFetch(req, "t", [16]byte{}, 1, 0)
	addFetch(req, "missing", [16]byte{}, 0, 0)
	req.MinBytes, req.MaxWaitMillis = 1000, 50
	begin := time.Now()
	resp := do[*kmsg.FetchResponse](c, req)
	if waited := time.Since(begin); waited < 50*time.Millisecond {
		t.Errorf("answered after %v", waited)
	}
	if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 2 {
		t.Fatalf("%+v", resp.Topics)
	}
	wantValues(t, values(t, resp.Topics[0].Partitions[1].RecordBatches), "0:x")
	wantCode(t, resp.Topics[1].Partitions[0].ErrorCode, protocol.UnknownTopicOrPartition)

	none := longFetch(12, "missing", 0, 1)
	wantCode(t, onlyFetched(t, do[*kmsg.FetchResponse](c, none)).ErrorCode, protocol.UnknownTopicOrPartition)
	empty := longFetch(12, "t", 0, 1)
	empty.Topics = nil
	if resp := do[*kmsg.FetchResponse](c, empty); len(resp.Topics) != 0 || resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
}

func TestFetchParkedTopicIsDeleted(t *testing.T) {
	n := start(t)
	c, admin := n.dial(), n.dial()
	id := c.create("t", 1)
	for version, want := range map[int16]protocol.Code{12: protocol.UnknownTopicOrPartition, 13: protocol.UnknownTopicID} {
		req := longFetch(version, "t", 0, 1)
		req.Topics[0].TopicID = id
		c.send(req)
		n.waitParked(1)
		admin.delete("t")
		got := onlyFetched(t, next[*kmsg.FetchResponse](c)).ErrorCode
		// Found while the topic goes, or when it is gone.
		if protocol.Code(got) != want && protocol.Code(got) != protocol.UnknownTopicOrPartition {
			t.Fatalf("v%d: %s", version, protocol.Code(got).Name())
		}
		id = admin.create("t", 1)
	}
}

// A client that goes leaves nothing: no parked fetch, no waiter, no timer.
func TestFetchParkedConnectionCloses(t *testing.T) {
	for _, driver := range []string{"auto", "net"} {
		t.Run(driver, func(t *testing.T) {
			n := start(t, "network.driver="+driver)
			admin := n.dial()
			admin.create("t", 1)
			for range 10 {
				c := n.dial()
				c.send(longFetch(12, "t", 0, 1))
				c.send(longFetch(12, "t", 0, 1000))
			}
			n.waitParked(20)
			before := n.b.repl.Partition("t", 0)
			for _, conn := range allConns(n) {
				if conn != admin.conn.LocalAddr().String() {
					n.closeFrom(conn)
				}
			}
			n.waitParked(0)
			eventually(t, "the connections are forgotten", func() bool { return countConns(n) == 1 })
			admin.mustProduce("t", 0, plain("x")) // wakes nobody
			if before.HighWatermark() != 1 {
				t.Fatal("high watermark")
			}
		})
	}
}

func allConns(n *node) (remote []string) {
	n.b.conns.each(func(c *connection) { remote = append(remote, c.conn.RemoteAddr()) })
	return remote
}

func countConns(n *node) int { return len(allConns(n)) }

func (n *node) closeFrom(remote string) {
	n.b.conns.each(func(c *connection) {
		if c.conn.RemoteAddr() == remote {
			c.conn.Close()
		}
	})
}

// The client's side closes: the same, seen by the broker as the end of input.
func TestFetchParkedClientHangsUp(t *testing.T) {
	n := start(t)
	admin := n.dial()
	admin.create("t", 1)
	c := n.dial()
	c.send(longFetch(12, "t", 0, 1))
	n.waitParked(1)
	_ = c.conn.(interface{ SetLinger(int) error }).SetLinger(0)
	c.conn.Close()
	n.waitParked(0)
}

// A broker that stops answers what is parked, and stops without waiting for max_wait.
func TestFetchParkedBrokerStops(t *testing.T) {
	for _, driver := range []string{"auto", "net"} {
		t.Run(driver, func(t *testing.T) {
			n := start(t, "network.driver="+driver)
			c := n.dial()
			c.create("t", 1)
			clients := []*client{c}
			for range 5 {
				clients = append(clients, n.dial())
			}
			for _, c := range clients {
				c.send(longFetch(12, "t", 0, 1))
				c.send(longFetch(12, "t", 0, 1))
			}
			n.waitParked(2 * len(clients))
			n.close()
			for _, c := range clients {
				for range 2 {
					if p := onlyFetched(t, next[*kmsg.FetchResponse](c)); p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
						t.Fatalf("%+v", p)
					}
				}
				c.wantClosed()
			}
		})
	}
}

// A failing disk wakes those who wait for it.
func TestFetchParkedDiskFails(t *testing.T) {
	n, disk := startFaulty(t)
	c, p := n.dial(), n.dial()
	c.create("t", 1)
	c.send(longFetch(5, "t", 0, 1))
	n.waitParked(1)
	disk.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpSync, vfs.OpSyncFS), Sticky: true, Nth: 1, Err: vfs.ErrDiskBroken})
	wantCode(t, p.produce("t", 0, plain("x")).ErrorCode, protocol.KafkaStorageError)
	got := protocol.Code(onlyFetched(t, next[*kmsg.FetchResponse](c)).ErrorCode)
	if got != protocol.KafkaStorageError && got != protocol.NotLeaderOrFollower { // v5 and older do not know the former
		t.Fatalf("%s", got.Name())
	}
	p.send(sample(protocol.KeyMetadata, 12, [16]byte{}))
	p.recv() // the broker is up
	n.kill()
}

// Many fetches on few partitions, with deadlines that race with data, connections that go, and topics that are deleted: every fetch that can be
// answered is, and all waiters are gone at the end. It runs into the window between a partition's choice of whom to wake and the wake.
func TestFetchParkingStorm(t *testing.T) {
	n := start(t)
	admin := n.dial()
	admin.create("t", 4)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var all sync.WaitGroup
	for i := range 8 {
		c := n.dial()
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for ctx.Err() == nil {
				req := fetchRequest(12, "t", 0, 0)
				req.MinBytes, req.MaxWaitMillis = 1<<20, int32(r.IntN(4))
				for p := range int32(4) {
					end := n.b.repl.Partition("t", p).HighWatermark()
					addFetch(req, "t", [16]byte{}, p, max(end-int64(r.IntN(3)), 0))
				}
				c.send(req)
				if len(c.sent) > 4 {
					c.recv()
				}
			}
			for len(c.sent) > 0 {
				c.recv()
			}
		})
	}
	for i := range 3 {
		p := n.dial()
		all.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				p.mustProduce("t", int32((i+k)%4), plain("x"))
			}
		})
	}
	all.Wait()
	n.waitParked(0)
}

// B-H1 and the comment of fetchParking: a waiter whose Wake is on its way must not be parked again. The partition's list is walked by hand here, as
// replication does, with the op's second look in between.
func TestFetchWaiterIsNotReusedBeforeItsWake(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	p := n.b.repl.Partition("t", 0)
	op := &fetchOp{b: n.b, r: &request{conn: &connection{}}, parts: []fetchPart{{partition: p}}, deadline: time.Now().Add(time.Hour)}
	if !op.register() {
		t.Fatal("not registered")
	}
	op.startTimer()
	first := op.parking.waiters[0]
	if !p.Cancel(&first.Waiter) {
		t.Fatal("it waits")
	} // as if the partition had taken it out to wake it
	op.unregister()
	if op.parking.waiters[0] == first {
		t.Fatal("the waiter is used again though its wake has not come")
	}
	second := op.parking.waiters[0]
	op.register()
	p.Cancel(&second.Waiter)
	op.wokenBy(second) // the wake comes first
	op.unregister()
	if op.parking.waiters[0] != second {
		t.Fatal("a waiter that was woken is thrown away")
	}
}

var _ replication.Waker = (*fetchWaiter)(nil)

// The fetch of a partition whose log is missing is answered with an error, as is every other request about it.
func TestPartitionWithoutLog(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("t", 1)
	c.mustProduce("t", 0, plain("x"))
	n = n.restart() // leader epoch 1: a lost log is not made anew
	n.close()
	dir := n.b.engine.Dirs()[0].Path
	if err := n.fs.RemoveAll(dir + "/t-0"); err != nil {
		t.Fatal(err)
	}
	n = startOn(t, n.fs)
	c = n.dial()
	if n.b.repl.Partition("t", 0).Log() != nil {
		t.Fatal("the lost log was made anew")
	}
	wantCode(t, c.fetch("t", 0, 0).ErrorCode, protocol.KafkaStorageError)
	wantCode(t, c.produce("t", 0, plain("x")).ErrorCode, protocol.KafkaStorageError)
	eachVersion(func(a *protocol.API, version int16) {
		c.send(sample(a.Key, version, id))
		c.recv()
	})
}

var _ engine.Observer = (*replication.Partition)(nil)
