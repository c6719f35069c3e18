package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// unknownTries is how often a cluster may say that a topic does not exist before it is believed: brokers learn of a new topic one after the other.
const unknownTries = 5

// partitionInfo is where a partition is at home.
type partitionInfo struct {
	leader int32 // -1: nobody now
	epoch  int32 // of the leader; -1: the broker does not tell
}

// topicInfo is what a cluster tells of a topic. It does not change once it is in a snapshot.
type topicInfo struct {
	name       string
	id         [16]byte // zero: the broker has no ids
	internal   bool
	partitions []partitionInfo // by number
	err        error           // why there are none
}

// cluster is a snapshot of what is known.
type cluster struct {
	addrs  map[int32]string // of brokers, HOST:PORT
	topics map[string]*topicInfo
	all    bool          // the cluster was asked for all its topics: what is not there does not exist
	err    error         // of the attempt that led to this snapshot; the rest is that of the one before
	covers int64         // refreshes asked for up to this number are done
	next   chan struct{} // closed when there is a newer snapshot
}

// metadata keeps the snapshot of the cluster fresh.
type metadata struct {
	client   *Client
	snapshot atomic.Pointer[cluster]
	kick     chan struct{} // one place: somebody asked
	mu       struct {
		sync.Mutex
		running bool
		asked   int64 // number of the last refresh that was asked for
		wanted  map[string]int
		all     int             // how many want all topics
		tried   map[string]bool // the topics that were asked for last
	}
	failures int       // in a row; the goroutine's
	last     time.Time // when the last attempt began; the goroutine's
}

func (m *metadata) init(c *Client) {
	m.client = c
	m.kick = make(chan struct{}, 1)
	m.mu.wanted = map[string]int{}
	m.snapshot.Store(&cluster{next: make(chan struct{})})
}

// current is the newest snapshot.
func (m *metadata) current() *cluster { return m.snapshot.Load() }

// ask asks for a refresh and returns its number.
func (m *metadata) ask() int64 {
	m.mu.Lock()
	m.mu.asked++
	n := m.mu.asked
	if !m.mu.running {
		m.mu.running = true
		c := m.client
		c.users.Lock()
		if !c.users.closed {
			c.running.Go(m.run)
		}
		c.users.Unlock()
	}
	m.mu.Unlock()
	poke(m.kick)
	return n
}

// want keeps a topic's metadata fresh until as many calls of unwant.
func (m *metadata) want(topic string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.wanted[topic]++
}

func (m *metadata) unwant(topic string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.wanted[topic]--; m.mu.wanted[topic] <= 0 {
		delete(m.mu.wanted, topic)
	}
}

// wantAll keeps the list of all topics fresh (+1), or no longer (-1).
func (m *metadata) wantAll(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.all += n
}

// run is the refreshing goroutine.
func (m *metadata) run() {
	c := m.client
	for {
		age := time.NewTimer(c.config.MetadataMaxAge)
		select {
		case <-m.kick:
		case <-age.C:
		case <-c.ctx.Done():
			age.Stop()
			return
		}
		age.Stop()
		if !m.pause() {
			return
		}
		m.last = time.Now()
		m.refresh()
	}
}

// pause waits until the next attempt may begin: a back-off after the one before, whoever asks, but at once for topics that were not asked for then. False: the client is closed.
func (m *metadata) pause() bool {
	c := m.client
	until := m.last.Add(c.backoff(max(m.failures, 1)))
	for {
		wait := time.Until(until)
		if wait <= 0 || m.failures == 0 && m.wantsNew() {
			return c.ctx.Err() == nil
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-m.kick: // perhaps for a new topic
		case <-c.ctx.Done():
		}
		if t.Stop(); c.ctx.Err() != nil {
			return false
		}
	}
}

// wantsNew says whether a topic is wanted that was not asked for last time.
func (m *metadata) wantsNew() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic := range m.mu.wanted {
		if !m.mu.tried[topic] {
			return true
		}
	}
	return false
}

// refresh asks once and publishes what comes of it.
func (m *metadata) refresh() {
	c := m.client
	m.mu.Lock()
	covers, all := m.mu.asked, m.mu.all > 0
	topics := slices.Sorted(maps.Keys(m.mu.wanted))
	m.mu.tried = make(map[string]bool, len(topics))
	for _, topic := range topics {
		m.mu.tried[topic] = true
	}
	m.mu.Unlock()
	begin := time.Now()
	resp, err := c.askMetadata(c.ctx, topics, all)
	if hook := c.config.Hooks.Refreshed; hook != nil {
		hook(time.Since(begin), err)
	}
	m.publish(func(old *cluster) *cluster {
		if err != nil {
			m.failures++
			c.config.Logger.Debug("no metadata", "err", err)
			cl := *old
			cl.err, cl.covers = err, covers
			return &cl
		}
		m.failures = 0
		cl := newCluster(resp, old)
		cl.all, cl.covers = all, covers
		return cl
	})
	if err == nil {
		c.prune()
	}
}

// publish replaces the snapshot and wakes who waits for it.
func (m *metadata) publish(change func(old *cluster) *cluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.snapshot.Load()
	cl := change(old)
	cl.next = make(chan struct{})
	m.snapshot.Store(cl)
	close(old.next)
}

// askMetadata asks any broker.
func (c *Client) askMetadata(ctx context.Context, topics []string, all bool) (*kmsg.MetadataResponse, error) {
	conn, err := c.anyBroker(ctx)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = c.config.AutoCreateTopics && !all
	if !all {
		req.Topics = []kmsg.MetadataRequestTopic{} // none, where null is all
		for i := range topics {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = &topics[i]
			req.Topics = append(req.Topics, t)
		}
	}
	resp, err := c.request(ctx, conn, req)
	if err != nil {
		return nil, err
	}
	r := resp.(*kmsg.MetadataResponse)
	if r.Version >= 13 {
		if err := rpc.ErrorOf(r.ErrorCode, nil, "metadata of "+conn.Addr()); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// newCluster reads an answer. old is the snapshot before.
func newCluster(r *kmsg.MetadataResponse, old *cluster) *cluster {
	cl := &cluster{addrs: make(map[int32]string, len(r.Brokers)), topics: make(map[string]*topicInfo, len(r.Topics))}
	for _, b := range r.Brokers {
		cl.addrs[b.NodeID] = hostPort(b.Host, b.Port)
	}
	for i := range r.Topics {
		if t := &r.Topics[i]; t.Topic != nil {
			info := newTopicInfo(t)
			info.keepNewer(old.topics[info.name])
			cl.topics[info.name] = info
		}
	}
	return cl
}

func newTopicInfo(t *kmsg.MetadataResponseTopic) *topicInfo {
	info := &topicInfo{name: *t.Topic, id: t.TopicID, internal: t.IsInternal, err: rpc.ErrorOf(t.ErrorCode, nil, "topic "+*t.Topic)}
	if info.err != nil {
		return info
	}
	n := len(t.Partitions)
	if n == 0 {
		info.err = &Error{Code: protocol.LeaderNotAvailable, Where: "topic " + info.name, Message: "no partitions of it are told"}
		return info
	}
	info.partitions = make([]partitionInfo, n)
	for i := range info.partitions {
		info.partitions[i] = partitionInfo{leader: -1, epoch: -1}
	}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.Partition < 0 || int(p.Partition) >= n {
			info.partitions, info.err = nil, &Error{Code: protocol.LeaderNotAvailable, Where: "topic " + info.name, Message: "its partitions are not told in full"}
			return info
		}
		info.partitions[p.Partition] = partitionInfo{leader: p.Leader, epoch: p.LeaderEpoch}
	}
	return info
}

// keepNewer keeps of an older snapshot what a broker that lags behind has not yet heard of.
func (t *topicInfo) keepNewer(old *topicInfo) {
	if old == nil || old.id != t.id || t.id == [16]byte{} || t.err != nil {
		return
	}
	for i := range min(len(t.partitions), len(old.partitions)) {
		if t.partitions[i].epoch < old.partitions[i].epoch && t.partitions[i].epoch >= 0 {
			t.partitions[i] = old.partitions[i]
		}
	}
}

// prune closes connections to addresses that are nobody's now.
func (c *Client) prune() {
	named := map[string]bool{}
	for _, addr := range c.metadata.current().addrs {
		named[addr] = true
	}
	for _, addr := range c.config.BootstrapServers {
		named[addr] = true
	}
	c.coordinators.addAddrs(named)
	c.conns.keep(func(k connKey) bool { return named[k.addr] })
}

// refresh waits for metadata that was asked for after this call.
func (c *Client) refresh(ctx context.Context) (*cluster, error) {
	n := c.metadata.ask()
	for {
		cl := c.metadata.current()
		if cl.covers >= n {
			return cl, cl.err
		}
		select {
		case <-cl.next:
		case <-ctx.Done():
			return nil, giveUp(ctx.Err(), cl.err)
		case <-c.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// stale asks for a refresh and does not wait.
func (c *Client) stale() { c.metadata.ask() }

// topic is what is known of a topic, at once when it is known; whoever wants it kept fresh says so (metadata.want). A topic that is not there, or not yet, is asked for
// again: some times when it does not exist, until the context ends when it is only not ready.
func (c *Client) topic(ctx context.Context, name string) (*topicInfo, error) {
	if t := c.metadata.current().topics[name]; t != nil && t.err == nil {
		return t, nil
	}
	c.metadata.want(name)
	defer c.metadata.unwant(name)
	var last error
	for unknown := 0; ; {
		cl, err := c.refresh(ctx)
		if cl == nil {
			return nil, giveUp(err, last)
		}
		t := cl.topics[name]
		switch {
		case err == nil && t != nil && t.err == nil:
			return t, nil
		case err == nil && t == nil: // the refresh began before it was wanted
			err = &UnknownTopicError{name, c.servers()}
		case err == nil:
			err = t.err
		}
		if last = err; Code(err) == protocol.UnknownTopicOrPartition {
			if unknown++; unknown == unknownTries {
				return nil, &UnknownTopicError{name, c.servers()}
			}
		} else if !Retriable(err) {
			return nil, err
		}
	}
}

// allTopics is a snapshot with all topics of the cluster.
func (c *Client) allTopics(ctx context.Context) (*cluster, error) {
	c.metadata.wantAll(1)
	defer c.metadata.wantAll(-1)
	for {
		cl, err := c.refresh(ctx)
		if cl == nil || err != nil && !Retriable(err) {
			return nil, err
		}
		if err == nil {
			return cl, nil
		}
	}
}

// leaderHint takes over what an answer said about the leader of a partition, and about where brokers are.
func (c *Client) leaderHint(topic string, partition, leader, epoch int32, addrs map[int32]string) {
	c.metadata.publish(func(old *cluster) *cluster {
		cl := *old
		t := old.topics[topic]
		if t == nil || t.err != nil || partition < 0 || int(partition) >= len(t.partitions) || t.partitions[partition].epoch >= epoch || leader < 0 {
			return &cl
		}
		cl.addrs = maps.Clone(old.addrs)
		maps.Copy(cl.addrs, addrs)
		changed := *t
		changed.partitions = slices.Clone(t.partitions)
		changed.partitions[partition] = partitionInfo{leader, epoch}
		cl.topics = maps.Clone(old.topics)
		cl.topics[topic] = &changed
		return &cl
	})
}

// leader is where a partition is at home: the leader's id and epoch. It is refreshed while there is no leader, until the context ends.
func (c *Client) leader(ctx context.Context, topic string, partition int32) (partitionInfo, error) {
	c.metadata.want(topic)
	defer c.metadata.unwant(topic)
	for {
		t, err := c.topic(ctx, topic)
		if err != nil {
			return partitionInfo{}, err
		}
		if partition < 0 || int(partition) >= len(t.partitions) {
			return partitionInfo{}, fmt.Errorf("topic %s has %d partitions, there is no partition %d: %w", topic, len(t.partitions), partition,
				&Error{Code: protocol.UnknownTopicOrPartition, Where: fmt.Sprintf("%s-%d", topic, partition)})
		}
		if p := t.partitions[partition]; p.leader >= 0 {
			return p, nil
		}
		if _, err := c.refresh(ctx); err != nil && (!Retriable(err) || ctx.Err() != nil) {
			return partitionInfo{}, giveUp(err, errors.New(topic+" has a partition without a leader"))
		}
	}
}
