package client

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerDriver is the goroutine of a member of a consumer group (KIP-848).
type consumerDriver struct {
	memberDriver
	m     *member
	names map[[16]byte]string // of topics that were seen
	ids   map[string][16]byte
	seen  *cluster
	askAt time.Time // when topics that are not known by name are asked for again
}

func newConsumerDriver(g *group) *consumerDriver {
	d := &consumerDriver{memberDriver: memberDriver{g: g}, names: map[[16]byte]string{}, ids: map[string][16]byte{}}
	d.m = newMember(&g.r.config, d.newID())
	d.kind = d
	return d
}

// newID makes a member id.
func (d *consumerDriver) newID() string {
	var b []byte
	for range 4 {
		b = binary.BigEndian.AppendUint32(b, uint32(d.g.r.client.random()*(1<<32)))
	}
	return hex.EncodeToString(b)
}

func (d *consumerDriver) who() identity { return d.m.who() }

func (d *consumerDriver) goodbye(string) kmsg.Request {
	req := d.m.goodbye()
	d.m.outside()
	if req == nil { // not an interface that holds nil
		return nil
	}
	return req
}

// round beats, and has Poll change what the user has as the answers say.
func (d *consumerDriver) round() (outcome, error) {
	for {
		sub, n := d.g.subscribed()
		if sub == nil {
			return rejoin, nil
		}
		cl := d.g.r.client.metadata.current()
		if sub.pattern != nil && !cl.all {
			var err error
			if cl, err = d.g.r.client.refresh(d.g.life); err != nil {
				return again, err
			}
		}
		d.subs = n
		d.m.topics = sub.joinTopics(cl)
		changed, o, err := d.reconcile(cl)
		if o != proceed {
			return o, err
		}
		if changed {
			continue
		}
		wait := d.g.lookForMissing(cl, sub)
		if d.m.news() && d.fails == 0 {
			d.nextBeat = time.Time{}
		}
		if o, err := d.beat(cl.next, min(wait, d.lookForNames())); o != proceed {
			return o, err
		}
	}
}

// beatNow sends a heartbeat.
func (d *consumerDriver) beatNow() (outcome, error) {
	topics, owned := d.m.topics, d.m.owned
	resp, o, err := d.ask(d.m.heartbeat(), d.g.r.client.config.RequestTimeout)
	if o == proceed {
		o, err = d.m.answered(resp.(*kmsg.ConsumerGroupHeartbeatResponse), topics, owned)
	}
	switch o {
	case proceed:
		d.fails = 0
		d.nextBeat = time.Now().Add(d.m.interval)
		d.g.identify(d.m.who())
	case findAgain, again:
		d.unheard(o, d.m.interval)
		d.trouble(err)
		return proceed, nil
	}
	return o, err
}

// reconcile has Poll do a part of what there is to change between what the user has and what he shall have: first what he must give up.
func (d *consumerDriver) reconcile(cl *cluster) (changed bool, o outcome, err error) {
	if d.m.epoch <= 0 {
		return false, proceed, nil
	}
	d.learn(cl)
	owned, target := d.g.owned(), d.resolve(d.m.target)
	gone, added := without(owned, target), without(target, owned)
	switch {
	case len(gone) > 0:
		o, err = d.change(revokeChange, gone)
	case len(added) > 0:
		o, err = d.change(assignChange, added)
	default:
		return false, proceed, nil
	}
	if o == proceed {
		d.m.owned = d.byID(d.g.owned())
	}
	return true, o, err
}

// learn takes over which topics have which ids.
func (d *consumerDriver) learn(cl *cluster) {
	if cl == d.seen {
		return
	}
	d.seen = cl
	for name, t := range cl.topics {
		if t.err == nil {
			d.names[t.id], d.ids[name] = name, t.id
		}
	}
}

// resolve is the partitions by name, of those topics whose name is known.
func (d *consumerDriver) resolve(parts []idPartitions) (all []TopicPartition) {
	for _, t := range parts {
		if name, ok := d.names[t.topic]; ok {
			for _, p := range t.partitions {
				all = append(all, TopicPartition{Topic: name, Partition: p})
			}
		}
	}
	return all
}

// byID turns resolve around.
func (d *consumerDriver) byID(all []TopicPartition) (parts []idPartitions) {
	by := map[[16]byte][]int32{}
	for _, tp := range all {
		by[d.ids[tp.Topic]] = append(by[d.ids[tp.Topic]], tp.Partition)
	}
	for id, ps := range by {
		slices.Sort(ps)
		parts = append(parts, idPartitions{id, ps})
	}
	slices.SortFunc(parts, idPartitions.compare)
	return parts
}

// lookForNames asks the cluster again, after a pause, when it was given a topic that it does not know by name. It returns when it has to be called again.
func (d *consumerDriver) lookForNames() time.Duration {
	now, wait := time.Now(), d.g.r.client.config.MetadataMaxAge
	for _, t := range d.m.target {
		if _, ok := d.names[t.topic]; ok {
			continue
		}
		if !now.Before(d.askAt) {
			d.g.r.client.stale()
			d.askAt = now.Add(d.g.r.client.config.RetryBackoffMax)
		}
		wait = d.askAt.Sub(now)
	}
	return wait
}
