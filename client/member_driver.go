package client

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// memberDriver is what the goroutines of members of both kinds of groups have in common.
type memberDriver struct {
	g    *group
	kind interface {
		// round joins the group and stays in it until something ends that.
		round() (outcome, error)
		// beatNow sends a heartbeat, if there is a membership to keep, and sets nextBeat.
		beatNow() (outcome, error)
		// goodbye makes the request that ends the membership, which is then forgotten; nil when there is nothing to say.
		goodbye(reason string) kmsg.Request
		who() identity
	}
	nextBeat time.Time
	fails    int   // in a row
	subs     int64 // number of the subscription that the group knows

	fenced     error // another one has its instance id: it does not fight for it
	fencedSubs int64 // until there is another subscription than this
}

// run is the goroutine.
func (d *memberDriver) run() {
	for d.ready() {
		switch o, err := d.kind.round(); o {
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
func (d *memberDriver) stopped() bool {
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
func (d *memberDriver) ready() bool {
	for !d.stopped() {
		sub, n := d.g.subscribed()
		late, _ := d.g.overdue(time.Now())
		switch {
		case sub == nil:
			d.resign()
			if _, now := d.g.subscribed(); now != n {
				continue // its kick was taken by the goodbye
			}
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
func (d *memberDriver) pause(o outcome, err error) {
	r := d.g.r
	d.fails++
	d.trouble(err)
	if o == findAgain {
		r.client.forgetCoordinator(r.config.Group)
	}
	d.pauseFor(r.client.backoff(d.fails))
}

// trouble notes why the group could not be asked, for whoever waits for records.
func (d *memberDriver) trouble(err error) {
	r := d.g.r
	r.mu.Lock()
	r.mu.lastErr = err
	r.mu.Unlock()
	r.client.config.Logger.Debug("the group could not be asked", "group", r.config.Group, "err", err)
}

// pauseFor waits, until there is news for the member at the latest.
func (d *memberDriver) pauseFor(wait time.Duration) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-d.g.kick:
	case <-d.g.stop:
	case <-d.g.r.ctx.Done():
	}
}

// ask asks the coordinator; o is proceed when there is an answer.
func (d *memberDriver) ask(req kmsg.Request, timeout time.Duration) (kmsg.Response, outcome, error) {
	r := d.g.r
	conn, err := r.client.tryCoordinator(d.g.life, r.config.Group, r.grouped)
	if err == nil {
		var resp kmsg.Response
		if resp, err = exchange(d.g.life, conn, req, timeout); err == nil {
			return resp, proceed, nil
		}
	}
	if Code(err) != protocol.None && !Retriable(err) {
		return nil, tellUser, err
	}
	if _, cannot := errors.AsType[*UnsupportedError](err); cannot {
		return nil, tellUser, err
	}
	return nil, findAgain, err
}

// change has Poll change what the user has, and beats meanwhile.
func (d *memberDriver) change(kind changeKind, partitions []TopicPartition) (outcome, error) {
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

// beat waits until it is time and beats, or until news closes, wait has passed or there is something else to look at.
func (d *memberDriver) beat(news <-chan struct{}, wait time.Duration) (outcome, error) {
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
	return d.kind.beatNow()
}

// lose tells the user that what he has is not his any more.
func (d *memberDriver) lose() {
	if d.stopped() {
		return
	}
	d.g.identify(d.kind.who())
	done := d.g.ask(lostChange, d.g.owned())
	select {
	case <-done:
	case <-d.g.stop:
	case <-d.g.r.ctx.Done():
	}
}

// quit leaves the group while the consumer goes on.
func (d *memberDriver) quit(reason string) {
	req := d.kind.goodbye(reason)
	if req == nil {
		return
	}
	d.g.r.client.config.Logger.Warn("the consumer leaves its group", "group", d.g.r.config.Group, "reason", reason)
	_, _, _ = d.ask(req, d.g.r.client.config.RequestTimeout)
}

// resign gives everything up and leaves the group, for nothing is subscribed to any more.
func (d *memberDriver) resign() {
	if o, _ := d.change(revokeChange, d.g.owned()); o != proceed {
		d.lose()
	}
	d.quit("the consumer has unsubscribed")
	d.g.identify(d.kind.who())
}

// leave is called when run has returned.
func (d *memberDriver) leave(ctx context.Context) error {
	req := d.kind.goodbye("the consumer is closed")
	if req == nil {
		return nil
	}
	return d.g.leave(ctx, req)
}

// unheard is called when a heartbeat was not answered as it should: the next one is sooner.
func (d *memberDriver) unheard(o outcome, interval time.Duration) {
	if o == findAgain {
		d.g.r.client.forgetCoordinator(d.g.r.config.Group)
	}
	d.fails++
	d.nextBeat = time.Now().Add(min(d.g.r.client.backoff(d.fails), interval))
}
