package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
)

// group is the part of a consumer that decides which partitions it has, when it subscribes. One goroutine, the member's, talks to the coordinator; it never changes the partitions itself
// but asks Poll to, which does it between two batches of records and calls the user's functions:
//
//	member: change{revoke, assign or lost}  ->  Poll: commits, changes the partitions, calls OnRevoked, OnAssigned or OnLost  ->  member goes on
//
// While the member waits for Poll it goes on beating. When Poll is not called for MaxPollInterval, the member leaves the group by itself, and the next Poll begins anew.
type group struct {
	r    *Consumer
	kick chan struct{}   // one place: something of mu has changed that the member must know
	stop chan struct{}   // closed: the member is to end
	life context.Context // ends after stop: nothing more is asked for
	kill context.CancelFunc
	done chan struct{} // closed when it has

	mu struct {
		sync.Mutex
		sub      *subscription
		subs     int64 // how many there were
		polls    int   // calls of Poll in progress
		lastPoll time.Time
		change   *change
		err      error     // for Poll
		missing  int       // how often in a row a topic was not there
		askAt    time.Time // when it is asked for again
		who      identity
		joining  bool             // a generation is about to become the next
		owned    []TopicPartition // what the user has
		commitAt time.Time        // of the next automatic commit
	}
}

// changeKind is what Poll is to do.
type changeKind uint8

const (
	assignChange changeKind = iota
	revokeChange
	lostChange
)

// change is what Poll is asked to do with partitions.
type change struct {
	kind       changeKind
	partitions []TopicPartition
	done       chan struct{} // closed when it is done
}

// membership talks to the coordinator. run returns when g.stop is closed; leave says good-bye, after run.
type membership interface {
	run()
	leave(ctx context.Context) error
}

// subscribe replaces the subscription; nil is none. The first one starts the member.
func (r *Consumer) subscribe(sub *subscription) error {
	if r.open.Err() != nil {
		return ErrClosed
	}
	g, fresh := r.ensureGroup(sub)
	if g == nil {
		r.assign(nil)
		return nil
	}
	if fresh {
		r.assign(nil) // what was assigned by hand
	}
	g.mu.Lock()
	old := g.mu.sub
	g.mu.sub, g.mu.err = sub, nil
	g.mu.subs++
	g.mu.Unlock()
	sub.follow(&r.client.metadata, 1)
	old.follow(&r.client.metadata, -1)
	r.client.stale()
	poke(g.kick)
	poke(r.news)
	return nil
}

// ensureGroup is the group, which is made for the first subscription.
func (r *Consumer) ensureGroup(sub *subscription) (g *group, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.group != nil || sub == nil || r.mu.closed {
		return r.mu.group, false
	}
	g = &group{r: r, kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	g.life, g.kill = context.WithCancel(r.ctx)
	g.mu.who = identity{generation: -1}
	g.mu.commitAt = time.Now().Add(r.config.AutoCommitInterval)
	r.mu.group, r.mu.member = g, newMembership(g)
	member := r.mu.member
	r.running.Go(func() {
		defer close(g.done)
		member.run()
	})
	return g, true
}

func newMembership(g *group) membership {
	switch {
	case g.r.config.Group == "":
		return &solo{g: g}
	case g.r.config.Protocol == ConsumerProtocol:
		return newConsumerDriver(g)
	default:
		return newClassicDriver(g)
	}
}

// groupOf is the consumer's group, or nil.
func (r *Consumer) groupOf() *group {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.group
}

// identity is as whom the consumer commits now.
func (r *Consumer) identity() identity {
	g := r.groupOf()
	if g == nil {
		return identity{generation: -1}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	who := g.mu.who
	who.outside = g.mu.sub != nil && who.member == ""
	return who
}

// identify sets as whom the consumer commits from now on.
func (g *group) identify(who identity) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.who = who
}

// joining notes that the group changes over to another generation, in which the member is (or not any more). Commits wait for the end of it.
func (g *group) joining(yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.joining = yes
}

// unsettled says whether a commit as who may be refused only because the generation changes.
func (g *group) unsettled(who identity) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.joining || g.mu.who.member == who.member && g.mu.who.generation != who.generation
}

// polling notes that Poll has begun (+1) or returned (-1).
func (g *group) polling(n int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	first := g.mu.lastPoll.IsZero()
	late := g.overdueLocked(time.Now())
	g.mu.polls += n
	g.mu.lastPoll = time.Now()
	g.mu.Unlock()
	if first || late {
		poke(g.kick)
	}
}

func (g *group) overdueLocked(now time.Time) bool {
	return g.mu.polls == 0 && now.Sub(g.mu.lastPoll) >= g.r.config.MaxPollInterval
}

// overdue says whether Poll has not been called for too long, and if not, when it will be, should it not be called.
func (g *group) overdue(now time.Time) (bool, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.polls > 0 {
		return false, g.r.config.MaxPollInterval
	}
	return g.overdueLocked(now), max(g.mu.lastPoll.Add(g.r.config.MaxPollInterval).Sub(now), 0)
}

// attend does within Poll what the group wants, and returns an error that it has for the user.
func (g *group) attend(ctx context.Context) error {
	if g == nil {
		return nil
	}
	g.autoCommit()
	for {
		g.mu.Lock()
		c, err := g.mu.change, g.mu.err
		g.mu.change, g.mu.err = nil, nil
		g.mu.Unlock()
		if err != nil {
			if c != nil {
				g.put(c)
			}
			poke(g.kick) // it is tried again
			return err
		}
		if c == nil {
			return nil
		}
		g.apply(ctx, c)
		close(c.done)
	}
}

func (g *group) put(c *change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.change = c
}

// apply changes the partitions, and tells the user.
func (g *group) apply(ctx context.Context, c *change) {
	r := g.r
	if hook := r.client.config.Hooks.Rebalanced; hook != nil && len(c.partitions) > 0 {
		var n [3]int
		n[c.kind] = len(c.partitions)
		hook(r.config.Group, n[assignChange], n[revokeChange], n[lostChange])
	}
	switch c.kind {
	case assignChange:
		g.own(append(slices.Clone(g.owned()), c.partitions...))
		tell(r.config.OnAssigned, c.partitions)
		return
	case revokeChange:
		g.commitNow(ctx)
		tell(r.config.OnRevoked, c.partitions)
	case lostChange:
		tell(r.config.OnLost, c.partitions)
	}
	g.own(without(g.owned(), c.partitions))
}

func tell(f func([]TopicPartition), partitions []TopicPartition) {
	if f != nil {
		f(slices.Clone(partitions))
	}
}

// without is all but some.
func without(all, some []TopicPartition) []TopicPartition {
	not := make(map[TopicPartition]bool, len(some))
	for _, tp := range some {
		not[tp] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(tp TopicPartition) bool { return not[tp] })
}

// owned is what the user has.
func (g *group) owned() []TopicPartition {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.owned
}

func (g *group) own(partitions []TopicPartition) {
	g.mu.Lock()
	g.mu.owned = partitions
	g.mu.Unlock()
	g.r.assign(partitions)
}

// autoCommit begins a commit when it is time for one.
func (g *group) autoCommit() {
	r, now := g.r, time.Now()
	if r.config.DisableAutoCommit || r.config.Group == "" {
		return
	}
	g.mu.Lock()
	due := !now.Before(g.mu.commitAt)
	if due {
		g.mu.commitAt = now.Add(r.config.AutoCommitInterval)
	}
	g.mu.Unlock()
	if due {
		r.CommitAsync(g.uncommitted)
	}
}

// uncommitted notes that an automatic commit did not work: the next one will do for it, or the records are read again.
func (g *group) uncommitted(err error) {
	if err != nil {
		g.r.client.config.Logger.Warn("offsets could not be committed", "group", g.r.config.Group, "err", err)
	}
}

// commitNow commits, automatically, what is about to be given up.
func (g *group) commitNow(ctx context.Context) {
	r := g.r
	if r.config.DisableAutoCommit || r.config.Group == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.client.config.RequestTimeout)
	defer cancel()
	g.uncommitted(r.Commit(ctx))
}

// fail gives Poll an error.
func (g *group) fail(err error) {
	g.mu.Lock()
	g.mu.err = err
	g.mu.Unlock()
	poke(g.r.news)
}

// ask asks Poll for a change, and returns the channel that is closed when it is done.
func (g *group) ask(kind changeKind, partitions []TopicPartition) <-chan struct{} {
	c := &change{kind, partitions, make(chan struct{})}
	if len(partitions) == 0 && kind != assignChange {
		close(c.done)
		return c.done
	}
	g.put(c)
	poke(g.r.news)
	return c.done
}

// withdraw takes back what Poll was asked to do, when it has not begun to.
func (g *group) withdraw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.change = nil
}

// leave says good-bye to the coordinator, if it can be reached.
func (g *group) leave(ctx context.Context, req kmsg.Request) error {
	r := g.r
	conn, err := r.client.tryCoordinator(ctx, r.config.Group, r.commits)
	if err == nil {
		_, err = r.client.request(ctx, conn, req)
	}
	return err
}

// subscribed is the subscription and its number.
func (g *group) subscribed() (*subscription, int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.sub, g.mu.subs
}

// close ends the member: what it has is committed and given up, and the group is told. Poll is not running.
func (g *group) close(ctx context.Context, member membership) error {
	if g == nil {
		return nil
	}
	close(g.stop)
	if len(g.owned()) > 0 { // there may be something to commit, which needs a generation that the coordinator knows
		t := time.NewTimer(closeGrace)
		defer t.Stop()
		select {
		case <-g.done:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	g.kill()
	<-g.done
	if owned := g.owned(); len(owned) > 0 {
		g.apply(ctx, &change{kind: revokeChange, partitions: owned})
	}
	return member.leave(ctx)
}

// closeGrace is how long a member that joins is let finish before it closes: it waits for the others.
const closeGrace = 5 * time.Second

// exchange asks on a connection and waits for the answer as long as it may take. Who gives up breaks the connection: nothing must wait behind the answer.
func exchange(ctx context.Context, conn *rpc.Conn, req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	type answer struct {
		resp kmsg.Response
		err  error
	}
	got := make(chan answer, 1)
	if err := conn.Go(ctx, req, -1, timeout, func(resp kmsg.Response, err error) { got <- answer{resp, err} }); err != nil {
		return nil, err
	}
	select {
	case a := <-got:
		return a.resp, a.err
	case <-ctx.Done():
		conn.Break(ErrClosed)
		return nil, ErrClosed
	}
}

// solo is the membership of a consumer without a group: it has all partitions of its topics.
type solo struct{ g *group }

func (s *solo) leave(context.Context) error { return nil }

// run assigns what there is, whenever that changes.
func (s *solo) run() {
	g := s.g
	for {
		cl := g.r.client.metadata.current()
		sub, _ := g.subscribed()
		if s.change(cl, sub) {
			continue
		}
		if !g.waitForNews(cl, g.lookForMissing(cl, sub)) {
			return
		}
	}
}

// lookForMissing asks the cluster again, after a pause, for topics that do not exist, and tells the user after some times. It returns when it has to be called again, at the latest.
func (g *group) lookForMissing(cl *cluster, sub *subscription) time.Duration {
	err, now := sub.missing(cl, g.r.client.servers()), time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.mu.missing = 0
		return g.r.client.config.MetadataMaxAge
	}
	if now.Before(g.mu.askAt) {
		return g.mu.askAt.Sub(now)
	}
	if g.mu.missing++; g.mu.missing == unknownTries {
		g.mu.err = err
		poke(g.r.news)
	}
	g.r.client.stale()
	wait := g.r.client.backoff(g.mu.missing)
	g.mu.askAt = now.Add(wait)
	return wait
}

// waitForNews waits for news of the cluster or of the subscription, no longer than wait; false: stop.
func (g *group) waitForNews(cl *cluster, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-cl.next:
	case <-t.C:
	case <-g.kick:
	case <-g.stop:
		return false
	case <-g.r.ctx.Done():
		return false
	}
	return true
}

// change asks for what is otherwise than it should be, and waits for it. Partitions are only given up when their topic is not subscribed to any more: one that is gone may come back.
func (s *solo) change(cl *cluster, sub *subscription) bool {
	g := s.g
	var all []TopicPartition
	named := map[string]bool{}
	for _, topic := range sub.topics(cl) {
		named[topic] = true
		for p := range cl.topics[topic].partitions {
			all = append(all, TopicPartition{Topic: topic, Partition: int32(p)})
		}
	}
	owned := g.owned()
	gone := slices.DeleteFunc(slices.Clone(owned), func(tp TopicPartition) bool { return named[tp.Topic] || sub.names(tp.Topic) })
	added := without(all, owned)
	var done <-chan struct{}
	switch {
	case len(gone) > 0:
		done = g.ask(revokeChange, gone)
	case len(added) > 0:
		done = g.ask(assignChange, added)
	default:
		return false
	}
	select {
	case <-done:
		return true
	case <-g.stop:
	case <-g.r.ctx.Done():
	}
	return false
}
