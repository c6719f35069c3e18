package client

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinSlack is how much longer than the rebalance timeout JoinGroup and SyncGroup may take.
const joinSlack = 5 * time.Second

// classicDriver is the goroutine of a member of a classic group.
type classicDriver struct {
	memberDriver
	m *classic

	topics   []string         // that it joined with
	assigned map[string]int32 // how many partitions each topic had when it assigned them; nil: it does not lead
	follows  []string         // topics that it keeps fresh because it leads
	reason   string           // why it joins, for the coordinator's log
}

func newClassicDriver(g *group) *classicDriver {
	d := &classicDriver{memberDriver: memberDriver{g: g}, m: newClassic(&g.r.config), reason: "the consumer subscribes"}
	d.kind = d
	return d
}

func (d *classicDriver) run() {
	defer d.follow(nil)
	d.memberDriver.run()
}

func (d *classicDriver) who() identity { return d.m.who() }

func (d *classicDriver) goodbye(reason string) kmsg.Request {
	req := d.m.goodbye(reason)
	d.m.outside()
	d.reason = "it was not in the group any more"
	if req == nil { // not an interface that holds nil
		return nil
	}
	return req
}

// round joins and stays in the group for as long as one generation lasts.
func (d *classicDriver) round() (outcome, error) {
	if d.m.eager {
		if o, err := d.change(revokeChange, d.g.owned()); o != proceed {
			return o, err
		}
	}
	given, o, err := d.joinAndSync()
	if o != proceed {
		return o, err
	}
	d.fails = 0
	d.nextBeat = time.Now().Add(d.g.r.config.HeartbeatInterval)
	if more, o, err := d.take(given); more || o != proceed {
		return o, err
	}
	return d.stay()
}

// joinAndSync makes the next generation with the others.
func (d *classicDriver) joinAndSync() ([]TopicPartition, outcome, error) {
	d.g.joining(true)
	defer d.g.joining(false)
	if o, err := d.join(); o != proceed {
		return nil, o, err
	}
	given, o, err := d.sync()
	if o == proceed {
		d.g.identify(d.m.who())
	}
	return given, o, err
}

// join is JoinGroup, twice when the first one is to get a member id.
func (d *classicDriver) join() (outcome, error) {
	sub, n := d.g.subscribed()
	d.subs = n
	for try := 0; ; try++ {
		cl := d.g.r.client.metadata.current()
		if sub != nil && sub.pattern != nil && !cl.all {
			var err error
			if cl, err = d.g.r.client.refresh(d.g.life); err != nil {
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
		cl, err := d.g.r.client.refresh(d.g.life)
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

// beatNow asks whether the generation still is.
func (d *classicDriver) beatNow() (outcome, error) {
	d.nextBeat = time.Now().Add(d.g.r.config.HeartbeatInterval)
	if d.m.generation < 0 { // it waits for Poll before it joins
		return proceed, nil
	}
	resp, o, err := d.ask(d.m.heartbeat(), d.g.r.client.config.RequestTimeout)
	if o == proceed {
		o, err = d.m.refused(resp.(*kmsg.HeartbeatResponse).ErrorCode)
	}
	switch o {
	case rejoin:
		d.reason = "the group rebalances"
	case findAgain, again:
		d.unheard(o, d.g.r.config.HeartbeatInterval)
		return proceed, nil
	case proceed:
		d.fails = 0
	}
	return o, err
}
