package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatmq/leat/client/assign"
	"github.com/leatmq/leat/protocol"
)

// crew is the members of a group under test: each polls in a goroutine of its own, and what they get is gathered.
type crew struct {
	*rig
	config ConsumerConfig
	mu     sync.Mutex
	got    map[string]int // "TOPIC-PARTITION@OFFSET": how often
	owned  map[string][]TopicPartition
	events []string // "NAME +t-0 t-1", "NAME -t-0", "NAME !t-0"
	news   chan struct{}
}

func newCrew(t testing.TB, config ConsumerConfig, settings ...string) *crew {
	config.Group, config.OffsetReset = "g", ResetEarliest
	orDefault(&config.HeartbeatInterval, 20*time.Millisecond)
	orDefault(&config.MaxWait, 20*time.Millisecond)
	settings = append(settings, "group.consumer.min.heartbeat.interval.ms=20", "group.consumer.heartbeat.interval.ms=20")
	return &crew{rig: newRig(t, settings...), config: config, got: map[string]int{}, owned: map[string][]TopicPartition{}, news: make(chan struct{}, 1)}
}

// hand is a member of a crew.
type hand struct {
	c    *Consumer
	name string
	stop chan struct{}
	done chan struct{}
}

func (w *crew) note(name, sign string, partitions []TopicPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	event := name + " " + sign
	sorted := slices.Clone(partitions)
	slices.SortFunc(sorted, TopicPartition.Compare)
	for _, p := range sorted {
		event += fmt.Sprintf("%s-%d ", p.Topic, p.Partition)
	}
	w.events = append(w.events, strings.TrimSpace(event))
	if sign == "+" {
		w.owned[name] = append(w.owned[name], partitions...)
	} else {
		w.owned[name] = without(w.owned[name], partitions)
	}
	poke(w.news)
}

// join adds a member.
func (w *crew) join(name string, subscribe func(c *Consumer) error, change ...func(*ConsumerConfig)) *hand {
	w.t.Helper()
	config := w.config
	for _, c := range change {
		c(&config)
	}
	config.OnAssigned = func(ps []TopicPartition) { w.note(name, "+", ps) }
	config.OnRevoked = func(ps []TopicPartition) { w.note(name, "-", ps) }
	config.OnLost = func(ps []TopicPartition) { w.note(name, "!", ps) }
	h := &hand{w.consumer(config), name, make(chan struct{}), make(chan struct{})}
	if err := subscribe(h.c); err != nil {
		w.t.Fatal(err)
	}
	go w.work(h)
	return h
}

// work polls until the member is told to stop.
func (w *crew) work(h *hand) {
	defer close(h.done)
	for {
		select {
		case <-h.stop:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		rs, err := h.c.Poll(ctx, 100)
		cancel()
		switch {
		case errors.Is(err, ErrClosed):
			return
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			w.mu.Lock()
			w.events = append(w.events, h.name+": "+err.Error())
			w.mu.Unlock()
			poke(w.news)
		}
		w.mu.Lock()
		for _, r := range rs {
			w.got[fmt.Sprintf("%s-%d@%d", r.Topic, r.Partition, r.Offset)]++
		}
		w.mu.Unlock()
		if len(rs) > 0 {
			poke(w.news)
		}
	}
}

// close ends a member.
func (w *crew) close(h *hand) {
	w.t.Helper()
	close(h.stop)
	<-h.done
	if err := h.c.Close(w.ctx); err != nil {
		w.t.Errorf("%s: %v", h.name, err)
	}
}

// await waits until something is so.
func (w *crew) await(what string, is func() bool) {
	w.t.Helper()
	for {
		w.mu.Lock()
		ok := is()
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-w.news:
		case <-w.ctx.Done():
			w.mu.Lock()
			defer w.mu.Unlock()
			w.t.Fatalf("never: %s. Owned: %v; events: %q", what, w.owned, w.events)
		}
	}
}

// shares are how many partitions each member has.
func (w *crew) shares() string {
	var all []string
	for name, ps := range w.owned {
		all = append(all, fmt.Sprintf("%s:%d", name, len(ps)))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// awaitShares waits until the partitions are shared in a way, and nobody has what another one has.
func (w *crew) awaitShares(want string) {
	w.t.Helper()
	w.await(want, func() bool { return w.shares() == want })
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[TopicPartition]string{}
	for name, ps := range w.owned {
		for _, p := range ps {
			if other := seen[p]; other != "" {
				w.t.Errorf("%v is %s's and %s's", p, other, name)
			}
			seen[p] = name
		}
	}
}

// awaitRecords waits until n records have come, and checks that none came twice.
func (w *crew) awaitRecords(n int) {
	w.t.Helper()
	w.await(fmt.Sprint(n, " records"), func() bool { return len(w.got) >= n })
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, times := range w.got {
		if times != 1 {
			w.t.Errorf("%s came %d times", at, times)
		}
	}
}

func topics(names ...string) func(*Consumer) error {
	return func(c *Consumer) error { return c.Subscribe(names...) }
}

// protocols are the kinds of groups that tests of what all have in common run with.
var protocols = map[string]ConsumerConfig{
	"eager":       {Assignors: []assign.Assignor{assign.Range}},
	"sticky":      {Assignors: []assign.Assignor{assign.Sticky}},
	"cooperative": {Assignors: []assign.Assignor{assign.CooperativeSticky}},
	"consumer":    {Protocol: ConsumerProtocol},
}

// Members come and go; everything is read once, by whoever has it, for offsets are committed when partitions change hands.
func TestGroup(t *testing.T) {
	for name, config := range protocols {
		t.Run(name, func(t *testing.T) {
			w := newCrew(t, config)
			w.topic("t", 6)
			fill := func(from, to int) {
				for p := range int32(6) {
					w.put(tp(p), from, to)
				}
			}
			fill(0, 50)
			a := w.join("a", topics("t"))
			w.awaitShares("a:6")
			w.awaitRecords(300)
			b := w.join("b", topics("t"))
			w.awaitShares("a:3 b:3")
			fill(50, 60)
			w.awaitRecords(360)
			c := w.join("c", topics("t"))
			w.awaitShares("a:2 b:2 c:2")
			fill(60, 70)
			w.awaitRecords(420)
			w.close(a)
			w.awaitShares("a:0 b:3 c:3")
			fill(70, 80)
			w.awaitRecords(480)
			w.close(b)
			w.close(c)
			if got := w.shares(); got != "a:0 b:0 c:0" {
				t.Errorf("after Close: %s", got)
			}
			w.join("d", topics("t"))
			w.awaitShares("a:0 b:0 c:0 d:6")
			fill(80, 81)
			w.awaitRecords(486)
			for _, e := range w.events {
				if strings.Contains(e, "!") || strings.Contains(e, ":") {
					t.Errorf("%s", e)
				}
			}
		})
	}
}

// In a cooperative group only what moves stops.
func TestGroupCooperative(t *testing.T) {
	w := newCrew(t, protocols["cooperative"])
	w.topic("t", 4)
	w.join("a", topics("t"))
	w.awaitShares("a:4")
	w.join("b", topics("t"))
	w.awaitShares("a:2 b:2")
	w.mu.Lock()
	defer w.mu.Unlock()
	var a []string
	for _, e := range w.events {
		if strings.HasPrefix(e, "a ") && len(e) > 3 {
			a = append(a, e)
		}
	}
	if len(a) != 2 || a[0] != "a +t-0 t-1 t-2 t-3" || strings.Count(a[1], "t-") != 2 || a[1][:3] != "a -" {
		t.Errorf("a: %q", a)
	}
}

// A pattern takes in topics that are made later, and new partitions of those there are.
func TestGroupPattern(t *testing.T) {
	for name, config := range protocols {
		t.Run(name, func(t *testing.T) {
			w := newCrew(t, config)
			w.client.config.MetadataMaxAge = 50 * time.Millisecond
			w.topic("orders", 2)
			w.topic("other", 1)
			w.join("a", func(c *Consumer) error { return c.SubscribePattern("ord.*") })
			w.awaitShares("a:2")
			w.topic("orders2", 3)
			w.topic("disorders", 1)
			w.awaitShares("a:5")
			w.put(TopicPartition{Topic: "orders2", Partition: 2}, 0, 10)
			w.awaitRecords(10)
		})
	}
}

// A topic that does not exist is told of, and read when it is there.
func TestGroupMissingTopic(t *testing.T) {
	for name, config := range protocols {
		t.Run(name, func(t *testing.T) { groupMissingTopic(t, config) })
	}
}

func groupMissingTopic(t *testing.T, config ConsumerConfig) {
	w := newCrew(t, config)
	w.topic("t", 1)
	a := w.join("a", topics("t", "later"))
	w.awaitShares("a:1")
	w.await("an error", func() bool { return strings.Contains(strings.Join(w.events, ","), "a: there is no topic later at") })
	w.topic("later", 2)
	w.awaitShares("a:3")
	if err := a.c.Subscribe("later"); err != nil {
		t.Fatal(err)
	}
	w.awaitShares("a:2")
	if err := a.c.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	w.awaitShares("a:0")
	if err := a.c.Subscribe("t"); err != nil {
		t.Fatal(err)
	}
	w.awaitShares("a:1")
	if err := a.c.Assign(tp(0)); err == nil {
		t.Error("Assign of a consumer that subscribes")
	}
}

// A static member that comes back gets what it had, and nobody else notices; another one with its name fences it.
func TestGroupStatic(t *testing.T) {
	for name, config := range protocols {
		t.Run(name, func(t *testing.T) { groupStatic(t, config) })
	}
}

func groupStatic(t *testing.T, config ConsumerConfig) {
	w := newCrew(t, config)
	w.topic("t", 4)
	static := func(c *ConsumerConfig) { c.InstanceID = "one" }
	a := w.join("a", topics("t"), static)
	w.awaitShares("a:4")
	w.join("b", topics("t"), func(c *ConsumerConfig) { c.InstanceID = "two" })
	w.awaitShares("a:2 b:2")
	w.close(a)
	before := len(w.events)
	a = w.join("a", topics("t"), static)
	w.awaitShares("a:2 b:2")
	w.mu.Lock()
	for _, e := range w.events[before:] {
		if strings.HasPrefix(e, "b ") {
			t.Errorf("%s", e)
		}
	}
	w.mu.Unlock()
	w.join("c", topics("t"), static)
	if config.Protocol == ConsumerProtocol { // who comes first stays
		w.await("c refused", func() bool {
			return strings.Contains(strings.Join(w.events, ","), "c: group g: the instance id one is still in use")
		})
		w.close(a)
		w.awaitShares("a:0 b:2 c:2")
		return
	}
	w.await("a fenced", func() bool { return strings.Contains(strings.Join(w.events, ","), "a: group g: ") })
	w.awaitShares("a:0 b:2 c:2")
	if err := a.c.Commit(w.ctx); Code(err) != protocol.UnknownMemberID && err != nil {
		t.Errorf("a commit of one who is fenced: %v", err)
	}
}

// One who does not poll leaves, and what he had is others'; when he polls again he is told what he lost, and joins.
func TestGroupMaxPollInterval(t *testing.T) {
	for name, config := range protocols {
		t.Run(name, func(t *testing.T) { groupMaxPollInterval(t, config) })
	}
}

func groupMaxPollInterval(t *testing.T, config ConsumerConfig) {
	config.MaxPollInterval = 300 * time.Millisecond
	w := newCrew(t, config)
	w.topic("t", 2)
	a := w.join("a", topics("t"))
	w.awaitShares("a:2")
	close(a.stop)
	<-a.done
	for a.c.CommitOffsets(w.ctx, map[TopicPartition]Committed{tp(0): {Offset: 1}}) == nil {
		if w.ctx.Err() != nil {
			t.Fatal("one who does not poll can still commit")
		}
	}
	w.join("b", topics("t"))
	w.await("b has all", func() bool { return len(w.owned["b"]) == 2 })
	a.stop, a.done = make(chan struct{}), make(chan struct{})
	go w.work(a)
	w.awaitShares("a:1 b:1")
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.events, "a !t-0 t-1") {
		t.Errorf("events: %q", w.events)
	}
}

// A coordinator that restarts is found again, and nothing is lost or doubled.
func TestGroupRestart(t *testing.T) {
	for name, config := range protocols {
		t.Run(name, func(t *testing.T) {
			w := newCrew(t, config)
			w.topic("t", 2)
			w.join("a", topics("t"))
			w.join("b", topics("t"))
			w.awaitShares("a:1 b:1")
			for i := range 3 {
				w.put(tp(0), i*10, i*10+10)
				w.put(tp(1), i*10, i*10+10)
				w.awaitRecords(i*20 + 20)
				w.broker.Restart()
			}
		})
	}
}

// Without a group all partitions of the topics are read.
func TestSubscribeWithoutGroup(t *testing.T) {
	r := newRig(t)
	r.topic("t", 3)
	r.put(tp(2), 0, 5)
	c := r.consumer(ConsumerConfig{OffsetReset: ResetEarliest})
	if err := c.Subscribe("t"); err != nil {
		t.Fatal(err)
	}
	r.check(r.read(c, 5), map[TopicPartition][]string{tp(2): numbers(0, 5)})
	if got := c.Assignment(); len(got) != 3 {
		t.Errorf("assigned: %v", got)
	}
	if err := c.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Poll(within(t, 100*time.Millisecond), 1); err == nil {
		t.Error("records after Unsubscribe")
	}
	if got := c.Assignment(); len(got) != 0 {
		t.Errorf("assigned: %v", got)
	}
	if err := c.SubscribePattern("("); err == nil || !strings.Contains(err.Error(), "SubscribePattern is told a pattern that is none") {
		t.Error(err)
	}
}

// Closing in the middle of anything leaves nothing behind.
func TestGroupCloseAtOnce(t *testing.T) {
	for name, config := range protocols {
		t.Run(name, func(t *testing.T) { groupCloseAtOnce(t, config) })
	}
}

func groupCloseAtOnce(t *testing.T, config ConsumerConfig) {
	w := newCrew(t, config)
	w.topic("t", 2)
	for range 10 {
		c := w.consumer(w.config)
		if err := c.Subscribe("t"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Poll(within(t, time.Millisecond), 1); err == nil {
			t.Error("records of nothing")
		}
		if err := c.Close(w.ctx); err != nil {
			t.Error(err)
		}
	}
}
