package client

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// joinSlack is how much longer than the rebalance timeout JoinGroup and SyncGroup may take.
const joinSlack = 5 * time.Second

// classicDriver is the goroutine of a member of a classic group.
type classicDriver struct {
	g *group
	m *classic

	subs     int64            // number of the subscription that it joined with
	topics   []string         // that it joined with
	assigned map[string]int32 // how many partitions each topic had when it assigned them; nil: it does not lead
	follows  []string         // topics that it keeps fresh because it leads
	nextBeat time.Time
	fails    int
	reason   string // why it joins, for the coordinator's log

	fenced     error // another one has its instance id: it does not fight for it
	fencedSubs int64 // until there is another subscription than this
}

func newClassicDriver(g *group) *classicDriver {
	return &classicDriver{g: g, m: newClassic(&g.r.config), reason: "the consumer subscribes"}
}

// run is the goroutine.
func (d *classicDriver) run() {
	defer d.follow(nil)
	for d.ready() {
		switch o, err := d.round(); o {
		case proceed, rejoin:
			d.fails = 0
		case lost:
			d.lose()
		case tellUser:
			d.lose()
			if d.fenced = nil; Code(err) == protocol.FencedInstanceID {
				d.fenced, d.fencedSubs = err, d.subs
				continue
			}
			d.g.fail(err)
			d.pauseFor(d.g.r.config.MaxPollInterval) // Poll takes it, and has it tried again
		default:
			d.pause(o, err)
		}
	}
}

// stopped says whether the member is to end.
func (d *classicDriver) stopped() bool {
	select {
	case <-d.g.stop:
		return true
	case <-d.g.r.ctx.Done():
		return true
	default:
		return false
	}
}

// ready waits until there is something to join for: a subscription, and somebody who polls. False: stop.
func (d *classicDriver) ready() bool {
	for !d.stopped() {
		sub, n := d.g.subscribed()
		late, _ := d.g.overdue(time.Now())
		switch {
		case sub == nil:
			d.resign()
		case d.fenced != nil && n == d.fencedSubs:
			d.g.fail(d.fenced)
		case !late:
			return true
		}
		d.pauseFor(d.g.r.config.MaxPollInterval)
	}
	return false
}

// pause waits before the same is tried again.
func (d *classicDriver) pause(o outcome, err error) {
	r := d.g.r
	d.fails++
	r.mu.Lock()
	r.mu.lastErr = err
	r.mu.Unlock()
	r.client.config.Logger.Debug("the group could not be asked", "group", r.config.Group, "err", err)
	if o == search {
		r.client.forgetCoordinator(r.config.Group)
	}
	d.pauseFor(r.client.backoff(d.fails))
}

// pauseFor waits, until there is news for the member at the latest.
func (d *classicDriver) pauseFor(wait time.Duration) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-d.g.kick:
	case <-d.g.stop:
	case <-d.g.r.ctx.Done():
	}
}

// round joins and stays in the group for as long as one generation lasts.
func (d *classicDriver) round() (outcome, error) {
	if d.m.eager {
		if o, err := d.change(revokeChange, d.g.owned()); o != proceed {
			return o, err
		}
	}
	if o, err := d.join(); o != proceed {
		return o, err
	}
	given, o, err := d.sync()
	if o != proceed {
		return o, err
	}
	d.fails = 0
	d.g.identify(d.m.who())
	d.nextBeat = time.Now().Add(d.g.r.config.HeartbeatInterval)
	if more, o, err := d.take(given); more || o != proceed {
		return o, err
	}
	return d.stay()
}

// join is JoinGroup, twice when the first one is to get a member id.
func (d *classicDriver) join() (outcome, error) {
	sub, n := d.g.subscribed()
	d.subs = n
	for try := 0; ; try++ {
		cl := d.g.r.client.metadata.current()
		if sub != nil && sub.pattern != nil && !cl.all {
			var err error
			if cl, err = d.g.r.client.refresh(d.g.r.open); err != nil {
				return again, err
			}
		}
		d.topics = sub.joinTopics(cl)
		resp, o, err := d.ask(d.m.join(d.topics, d.g.owned(), d.reason), d.g.r.config.MaxPollInterval+joinSlack)
		if o != proceed {
			return o, err
		}
		if o, err = d.m.joined(resp.(*kmsg.JoinGroupResponse)); o != again || err != nil || try > 0 {
			return o, err
		}
	}
}

// sync is SyncGroup.
func (d *classicDriver) sync() ([]TopicPartition, outcome, error) {
	var counts map[string]int32
	if d.m.leads {
		d.follow(d.m.topics())
		cl, err := d.g.r.client.refresh(d.g.r.open)
		if err != nil {
			return nil, again, err
		}
		counts = partitionCounts(cl, d.follows)
	} else {
		d.follow(nil)
	}
	d.assigned = counts
	resp, o, err := d.ask(d.m.sync(counts), d.g.r.config.MaxPollInterval+joinSlack)
	if o != proceed {
		return nil, o, err
	}
	return d.m.synced(resp.(*kmsg.SyncGroupResponse))
}

// follow keeps topics fresh, in place of those of before.
func (d *classicDriver) follow(topics []string) {
	m := &d.g.r.client.metadata
	for _, t := range topics {
		m.want(t)
	}
	for _, t := range d.follows {
		m.unwant(t)
	}
	d.follows = topics
}

// partitionCounts are how many partitions topics have that exist.
func partitionCounts(cl *cluster, topics []string) map[string]int32 {
	counts := make(map[string]int32, len(topics))
	for _, name := range topics {
		if t := cl.topics[name]; t != nil && t.err == nil {
			counts[name] = int32(len(t.partitions))
		}
	}
	return counts
}

// ask asks the coordinator; o is proceed when there is an answer.
func (d *classicDriver) ask(req kmsg.Request, timeout time.Duration) (kmsg.Response, outcome, error) {
	r := d.g.r
	conn, err := r.client.tryCoordinator(r.open, r.config.Group, r.grouped)
	if err == nil {
		var resp kmsg.Response
		if resp, err = exchange(r.open, d.g.stop, conn, req, timeout); err == nil {
			return resp, proceed, nil
		}
	}
	if Code(err) != protocol.None && !Retriable(err) {
		return nil, tellUser, err
	}
	if _, cannot := err.(*UnsupportedError); cannot {
		return nil, tellUser, err
	}
	return nil, search, err
}

// take makes what the member has what it was given. more: it has to join once more, for others to get what it gave up.
func (d *classicDriver) take(given []TopicPartition) (more bool, o outcome, err error) {
	owned := d.g.owned()
	gone, added := without(owned, given), without(given, owned)
	d.g.r.client.config.Logger.Debug("the group has a new generation", "group", d.g.r.config.Group, "generation", d.m.generation, "added", len(added), "gone", len(gone))
	if o, err = d.change(revokeChange, gone); o != proceed {
		return false, o, err
	}
	if o, err = d.change(assignChange, added); o != proceed {
		return false, o, err
	}
	d.reason = "it gave up partitions for others"
	return len(gone) > 0, proceed, nil
}

// change has Poll change what the user has, and beats meanwhile.
func (d *classicDriver) change(kind changeKind, partitions []TopicPartition) (outcome, error) {
	if len(partitions) == 0 && (kind != assignChange || d.g.r.config.OnAssigned == nil) {
		return proceed, nil
	}
	done := d.g.ask(kind, partitions)
	for {
		select {
		case <-done:
			return proceed, nil
		default:
		}
		o, err := d.beat(done, d.g.r.config.MaxPollInterval)
		if o == lost || o == tellUser {
			d.g.withdraw()
			return o, err
		}
	}
}

// stay beats until something ends the generation for this member.
func (d *classicDriver) stay() (outcome, error) {
	for {
		cl := d.g.r.client.metadata.current()
		if why := d.outdated(cl); why != "" {
			d.reason = why
			return rejoin, nil
		}
		sub, _ := d.g.subscribed()
		if o, err := d.beat(cl.next, d.g.lookForMissing(cl, sub)); o != proceed {
			return o, err
		}
	}
}

// outdated says why the assignment, or the subscription, has to be made anew; "": it has not.
func (d *classicDriver) outdated(cl *cluster) string {
	sub, n := d.g.subscribed()
	switch {
	case n != d.subs:
		return "the subscription has changed"
	case !slices.Equal(sub.joinTopics(cl), d.topics):
		return "there are other topics that match the pattern"
	case d.assigned != nil && !maps.Equal(partitionCounts(cl, d.follows), d.assigned):
		return "topics have other partitions"
	}
	return ""
}

// beat waits until it is time and beats, or until news closes, wait has passed or there is something else to look at.
func (d *classicDriver) beat(news <-chan struct{}, wait time.Duration) (outcome, error) {
	late, left := d.g.overdue(time.Now())
	if late {
		d.quit("Poll was not called for MaxPollInterval")
		return lost, nil
	}
	t := time.NewTimer(min(time.Until(d.nextBeat), left, wait))
	defer t.Stop()
	select {
	case <-t.C:
	case <-news:
		return proceed, nil
	case <-d.g.kick:
		return proceed, nil
	case <-d.g.stop:
		return lost, ErrClosed
	case <-d.g.r.ctx.Done():
		return lost, ErrClosed
	}
	if time.Now().Before(d.nextBeat) {
		return proceed, nil
	}
	d.nextBeat = time.Now().Add(d.g.r.config.HeartbeatInterval)
	if d.m.generation < 0 { // it waits for Poll before it joins for the first time
		return proceed, nil
	}
	return d.beatNow()
}

// beatNow asks whether the generation still is.
func (d *classicDriver) beatNow() (outcome, error) {
	resp, o, err := d.ask(d.m.heartbeat(), d.g.r.client.config.RequestTimeout)
	if o == proceed {
		o, err = d.m.refused(resp.(*kmsg.HeartbeatResponse).ErrorCode)
	}
	switch o {
	case rejoin:
		d.reason = "the group rebalances"
	case search, again: // the next one is sooner
		if o == search {
			d.g.r.client.forgetCoordinator(d.g.r.config.Group)
		}
		d.fails++
		d.nextBeat = time.Now().Add(min(d.g.r.client.backoff(d.fails), d.g.r.config.HeartbeatInterval))
		return proceed, nil
	case proceed:
		d.fails = 0
	}
	return o, err
}

// lose tells the user that what he has is not his any more.
func (d *classicDriver) lose() {
	if d.stopped() {
		return
	}
	d.g.identify(d.m.who())
	d.reason = "it was not in the group any more"
	done := d.g.ask(lostChange, d.g.owned())
	select {
	case <-done:
	case <-d.g.stop:
	case <-d.g.r.ctx.Done():
	}
}

// quit leaves the group while the consumer goes on.
func (d *classicDriver) quit(reason string) {
	if d.m.memberID == "" {
		return
	}
	d.g.r.client.config.Logger.Warn("the consumer leaves its group", "group", d.g.r.config.Group, "reason", reason)
	if req := d.m.goodbye(reason); req != nil {
		_, _, _ = d.ask(req, d.g.r.client.config.RequestTimeout)
	}
	d.m.outside()
}

// resign gives everything up and leaves the group, for nothing is subscribed to any more.
func (d *classicDriver) resign() {
	if o, _ := d.change(revokeChange, d.g.owned()); o != proceed {
		d.lose()
	}
	d.quit("the consumer has unsubscribed")
	d.g.identify(d.m.who())
}

// leave is called when run has returned.
func (d *classicDriver) leave(ctx context.Context) error {
	req := d.m.goodbye("the consumer is closed")
	if req == nil {
		return nil
	}
	return d.g.leave(ctx, req)
}
