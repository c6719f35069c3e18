package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.BootstrapServers = nil }, "BootstrapServers is empty: give at least one HOST:PORT"},
		{func(c *Config) { c.BootstrapServers = []string{"a:1", "kafka://b:2"} }, `BootstrapServers[1] is "kafka://b:2": HOST:PORT without a scheme is wanted`},
		{func(c *Config) { c.BootstrapServers = []string{"a"} }, "HOST:PORT is wanted"},
		{func(c *Config) { c.BootstrapServers = []string{":9092"} }, "HOST:PORT is wanted"},
		{func(c *Config) { c.BootstrapServers = []string{"a:70000"} }, "the port must be 1-65535"},
		{func(c *Config) { c.RequestTimeout = -1 }, "RequestTimeout is -1ns: at least 1 ms"},
		{func(c *Config) { c.RetryBackoffMax = 1 }, "RetryBackoffMax is 1ns: at least RetryBackoff (100ms)"},
		{func(c *Config) { c.BootstrapServers = []string{"[::1]:9092"}; c.RetryBackoff = time.Minute }, ""},
	} {
		config := Config{BootstrapServers: []string{"a:1"}}
		tc.change(&config)
		c, err := New(config)
		if err == nil {
			c.Close()
		}
		if _, ok := errors.AsType[*ConfigError](err); ok != (tc.says != "") || ok && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%v, want %q", err, tc.says)
		}
	}
}

func TestBackoff(t *testing.T) {
	c, err := newClient(Config{BootstrapServers: []string{"a:1"}}, func() float64 { return 0.5 })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var got []time.Duration
	for _, n := range []int{0, 1, 2, 3, 5, 31, 32, 1000} {
		got = append(got, c.backoff(n))
	}
	ms := time.Millisecond
	if want := []time.Duration{87500 * time.Microsecond, 87500 * time.Microsecond, 175 * ms, 350 * ms, 875 * ms, 875 * ms, 875 * ms, 875 * ms}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A topic is asked for once, by however many, and again when it gets old, when it is stale, and after a failure; never twice within a back-off.
func TestMetadataRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 2)
		f.topic("a", 1, 2)
		c := f.client()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if info, err := c.topic(t.Context(), "a"); err != nil || len(info.partitions) != 2 || info.partitions[1] != (partitionInfo{2, 1}) {
					t.Errorf("%+v, %v", info, err)
				}
			})
		}
		all.Wait()
		if n := len(f.requests("Metadata")); n > 2 {
			t.Errorf("asked %d times", n)
		}
		c.metadata.want("a")
		time.Sleep(time.Second)
		before := len(f.requests("Metadata"))
		time.Sleep(5*time.Minute + time.Second)
		if n := len(f.requests("Metadata")) - before; n != 1 {
			t.Errorf("asked %d times when it was old", n)
		}
		before = len(f.requests("Metadata"))
		for range 10 { // a storm of errors for a second: one question each 100 ms
			c.stale()
			time.Sleep(99 * time.Millisecond)
		}
		if n := len(f.requests("Metadata")) - before; n < 9 || n > 10 {
			t.Errorf("asked %d times in a second", n)
		}
		f.topic("a", 2, 2, 1)
		if cl, err := c.refresh(t.Context()); err != nil || len(cl.topics["a"].partitions) != 3 || cl.topics["a"].partitions[0].leader != 2 {
			t.Errorf("after a change: %v", err)
		}
	})
}

// A topic that nobody has asked for yet does not wait for the back-off after others: two hundred topics in turn take no time.
func TestMetadataOfNewTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		c := f.client()
		begin := time.Now()
		for i := range 200 {
			name := fmt.Sprint("t", i)
			f.topic(name, 1)
			c.metadata.want(name)
			if i%2 == 1 {
				c.stale() // as errors do: this refresh waits, until a new topic is wanted
				synctest.Wait()
			}
			if _, err := c.topic(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// A topic of which a broker tells no partitions is one that is not ready: there is nothing to choose from.
func TestTopicWithoutPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.topic("t")
		c := f.client()
		p, err := c.NewProducer(ProducerConfig{MaxBlock: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range [][]byte{nil, []byte("k")} {
			if err := p.Send(t.Context(), &Record{Topic: "t", Key: key}, nil); Code(err) != protocol.LeaderNotAvailable {
				t.Error(err)
			}
		}
	})
}

// A topic that does not exist is believed to after some questions; one that is not ready is waited for, as long as the context allows.
func TestUnknownTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		c := f.client()
		begin := time.Now()
		_, err := c.topic(t.Context(), "nope")
		if e, ok := errors.AsType[*UnknownTopicError](err); !ok || e.Topic != "nope" || Code(err) != protocol.UnknownTopicOrPartition || !strings.Contains(err.Error(), "b1:9092") {
			t.Errorf("%v", err)
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("it took %v", d)
		}
		var joined sync.WaitGroup
		joined.Go(func() {
			if _, err := c.topic(t.Context(), "late"); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(250 * time.Millisecond)
		f.topic("late", 1)
		joined.Wait()
		f.topic("headless", -1)
		if _, err := c.leader(within(t, time.Minute), "headless", 0); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "without a leader") {
			t.Errorf("%v", err)
		}
		if _, err := c.leader(t.Context(), "late", 1); Code(err) != protocol.UnknownTopicOrPartition || !strings.Contains(err.Error(), "has 1 partitions") {
			t.Errorf("%v", err)
		}
	})
}

// A broker that lags behind does not bring an older leader back, unless the topic is another one; a hint of an answer counts at once.
func TestLeaderEpochs(t *testing.T) {
	old := &topicInfo{id: [16]byte{1}, partitions: []partitionInfo{{1, 5}, {2, 5}, {3, -1}}}
	info := &topicInfo{id: [16]byte{1}, partitions: []partitionInfo{{7, 4}, {7, 6}, {7, 0}, {7, 0}}}
	info.keepNewer(old)
	if want := []partitionInfo{{1, 5}, {7, 6}, {7, 0}, {7, 0}}; !slices.Equal(info.partitions, want) {
		t.Errorf("%v, want %v", info.partitions, want)
	}
	other := &topicInfo{id: [16]byte{2}, partitions: []partitionInfo{{7, 0}}}
	if other.keepNewer(old); other.partitions[0] != (partitionInfo{7, 0}) {
		t.Error("a topic made anew has the epochs of the old one")
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.topic("a", 1)
		c := f.client()
		if _, err := c.topic(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		c.leaderHint("a", 0, 9, 1, nil) // not newer
		c.leaderHint("a", 5, 9, 9, nil)
		c.leaderHint("b", 0, 9, 9, nil)
		if p, _ := c.leader(t.Context(), "a", 0); p != (partitionInfo{1, 1}) {
			t.Errorf("%+v", p)
		}
		c.leaderHint("a", 0, 9, 2, map[int32]string{9: "b9:9092"})
		if p, _ := c.leader(t.Context(), "a", 0); p != (partitionInfo{9, 2}) || c.metadata.current().addrs[9] != "b9:9092" {
			t.Errorf("%+v", p)
		}
	})
}

// Connections: one for each broker and purpose, made anew when lost, with a back-off when that fails; others take over where any broker will do.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 3)
		f.topic("a", 1, 2, 3)
		c := f.client()
		if _, err := c.topic(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		first, err := c.broker(t.Context(), 2, "produce")
		again, err2 := c.broker(t.Context(), 2, "produce")
		other, err3 := c.broker(t.Context(), 2, "fetch")
		if err != nil || err2 != nil || err3 != nil || first != again || first == other {
			t.Fatalf("%v %v %v", err, err2, err3)
		}
		f.down("b2:9092", true)
		synctest.Wait()
		before := len(f.dials())
		_, err = c.broker(within(t, 10*time.Second), 2, "produce")
		if e, ok := errors.AsType[*UnreachableError](err); !ok || e.Addr != "b2:9092" {
			t.Errorf("%v", err)
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			_, _ = c.broker(t.Context(), 2, "produce")
		}
		if n := len(f.dials()) - before; n < 10 || n > 16 { // at once, after 0.1, 0.2, 0.4, 0.8, and then each second
			t.Errorf("dialled %d times in 10 s", n)
		}
		f.down("b2:9092", false)
		if conn, err := c.broker(within(t, 2*time.Second), 2, "produce"); err != nil || conn == first {
			t.Errorf("back again: %v", err)
		}
		f.down("b1:9092", true)
		synctest.Wait()
		if conn, err := c.anyBroker(t.Context()); err != nil || conn.Addr() == "b1:9092" {
			t.Errorf("another: %v", err)
		}
		if _, err := c.broker(within(t, time.Second), 44, general); err == nil || !strings.Contains(err.Error(), "broker 44 cannot be reached: the cluster does not name it") {
			t.Errorf("%v", err)
		}
	})
}

// A broker that has left loses its connections; a purpose that has ended, too.
func TestConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 2)
		c := f.client()
		if _, err := c.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		left, _ := c.broker(t.Context(), 2, general)
		fetch, _ := c.broker(t.Context(), 1, "fetch")
		stays, _ := c.broker(t.Context(), 1, general)
		f.mu.Lock()
		delete(f.mu.brokers, 2)
		f.mu.Unlock()
		if _, err := c.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.closeConns("fetch")
		synctest.Wait()
		if left.Err() == nil || fetch.Err() == nil || stays.Err() != nil {
			t.Errorf("left %v, purpose %v, stays %v", left.Err(), fetch.Err(), stays.Err())
		}
	})
}

// A broker that takes a question and is silent loses its connection, and another is asked.
func TestSilentBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 2)
		c := f.client()
		if _, err := c.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.on(3, func(addr string, req kmsg.Request) kmsg.Response {
			if addr == "b1:9092" {
				return nil
			}
			return f.metadata(req.(*kmsg.MetadataRequest))
		})
		f.down("b1:9092", false)
		if _, err := c.refresh(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !Retriable(err) {
			t.Errorf("%v", err)
		}
		f.down("b1:9092", true)
		if _, err := c.refresh(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A coordinator is asked for until there is one, remembered, and asked for again when it is told to have moved.
func TestCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 2)
		var mu sync.Mutex
		loads, at := 3, int32(2)
		f.on(10, func(_ string, r kmsg.Request) kmsg.Response {
			mu.Lock()
			defer mu.Unlock()
			resp := r.ResponseKind().(*kmsg.FindCoordinatorResponse)
			a := kmsg.NewFindCoordinatorResponseCoordinator()
			a.Key, a.NodeID, a.Host, a.Port = r.(*kmsg.FindCoordinatorRequest).CoordinatorKeys[0], at, map[int32]string{1: "b1", 2: "b2"}[at], 9092
			if loads--; loads > 0 {
				a.ErrorCode = int16(protocol.CoordinatorNotAvailable)
			} else if a.Key == "secret" {
				a.ErrorCode = int16(protocol.GroupAuthorizationFailed)
			}
			resp.Coordinators = append(resp.Coordinators, a)
			return resp
		})
		c := f.client()
		for range 3 {
			if conn, err := c.coordinator(t.Context(), "g", "group"); err != nil || conn.Addr() != "b2:9092" {
				t.Fatal(err)
			}
		}
		if n := len(f.requests("FindCoordinator")); n != 3 {
			t.Errorf("asked %d times", n)
		}
		mu.Lock()
		at = 1
		mu.Unlock()
		c.forgetCoordinator("g")
		if conn, err := c.coordinator(t.Context(), "g", "group"); err != nil || conn.Addr() != "b1:9092" {
			t.Error(err)
		}
		if _, err := c.coordinator(t.Context(), "secret", "group"); Code(err) != protocol.GroupAuthorizationFailed {
			t.Errorf("%v", err)
		}
	})
}

// Close ends whoever waits, and leaves nothing running; nothing works afterwards.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.on(3, func(string, kmsg.Request) kmsg.Response { return nil })
		c := f.client()
		waits := make(chan error, 2)
		go func() { _, err := c.topic(context.Background(), "a"); waits <- err }()
		f.down("b2:9092", true)
		go func() {
			for {
				if _, err := c.conns.get(context.Background(), connKey{"b2:9092", general}); errors.Is(err, ErrClosed) {
					waits <- err
					return
				}
			}
		}()
		time.Sleep(time.Second)
		c.Close()
		for range 2 {
			if err := <-waits; !errors.Is(err, ErrClosed) {
				t.Errorf("%v", err)
			}
		}
		if _, err := c.topic(context.Background(), "a"); !errors.Is(err, ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
		f.serving.Wait()
		synctest.Wait()
		if left := clientGoroutines(); left != "" {
			t.Errorf("left running:\n%s", left)
		}
		c.Close()
	})
}

// user is a producer or consumer.
type user struct{ ended bool }

func (u *user) shut() { u.ended = true }

// Close ends the producers and consumers that are open.
func TestCloseEndsUsers(t *testing.T) {
	f := newFakeCluster(t, 1)
	c := f.client()
	open, closed, late := &user{}, &user{}, &user{}
	if err := errors.Join(c.join(open), c.join(closed)); err != nil {
		t.Fatal(err)
	}
	c.leave(closed)
	c.Close()
	if err := c.join(late); !errors.Is(err, ErrClosed) || !open.ended || closed.ended || late.ended {
		t.Errorf("%v, open %t, closed %t, late %t", err, open.ended, closed.ended, late.ended)
	}
	c.leave(open)
}

// All topics are asked for when somebody wants them, and only then.
func TestAllTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.topic("a", 1)
		f.topic("b", 1, 1)
		c := f.client()
		cl, err := c.allTopics(t.Context())
		if err != nil || len(cl.topics) != 2 || !cl.all || len(cl.topics["b"].partitions) != 2 {
			t.Errorf("%+v, %v", cl, err)
		}
		if cl, err = c.refresh(t.Context()); err != nil || len(cl.topics) != 0 || cl.all {
			t.Errorf("afterwards %+v, %v", cl, err)
		}
	})
}

// Whoever speaks something else is told in one sentence; TLS is tried when it is wanted only.
func TestWrongServer(t *testing.T) {
	serve := func(answer string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				all.Go(func() {
					defer c.Close()
					_, _ = io.ReadFull(c, make([]byte, 4))
					_, _ = io.WriteString(c, answer)
					_, _ = io.Copy(io.Discard, c)
				})
			}
		})
		t.Cleanup(func() { l.Close(); all.Wait() })
		return l.Addr().String()
	}
	web, secure := serve("HTTP/1.1 400 Bad Request\r\n\r\n"), serve("\x15\x03\x03\x00\x02\x02\x0a")
	for _, tc := range []struct {
		addr string
		tls  *tls.Config
		says string
	}{
		{web, nil, web + " does not speak Kafka's protocol: it is a web server (its answer begins with HTTP)"},
		{secure, nil, secure + " does not speak Kafka's protocol: it is a listener with TLS; connect to it with TLS, or to one without"},
		{web, &tls.Config{}, web + " cannot be reached: no TLS: "},
	} {
		c, err := New(Config{BootstrapServers: []string{tc.addr}, TLS: tc.tls})
		if err != nil {
			t.Fatal(err)
		}
		limit := patience
		if tc.tls != nil { // it is tried again
			limit = 100 * time.Millisecond
		}
		if _, err = c.topic(within(t, limit), "a"); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%v, want %s", err, tc.says)
		}
		c.Close()
	}
}
