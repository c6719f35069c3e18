package broker

import "time"

const (
	tickInterval     = 100 * time.Millisecond // the precision of time-outs of parked produces
	tickIntervalIdle = time.Second            // while there are none: an idle broker sleeps
	tickIntervalMin  = 5 * time.Millisecond   // though deadlines of groups may be due in a row
)

// tick runs the time-outs, and the deadlines of groups, until the broker stops.
func (b *Broker) tick() {
	defer b.ticker.Done()
	t := time.NewTimer(tickInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			t.Reset(b.runTimers())
		case <-b.hurry:
			t.Reset(tickInterval)
		case <-b.ctx.Done():
			b.lines.Close()
			return
		}
	}
}

// runTimers does what is due, and returns after how long there is something to do again.
func (b *Broker) runTimers() time.Duration {
	next := tickIntervalIdle
	b.meta.Tick(b.steady())
	if b.repl.Tick(b.steady()) {
		next = tickInterval
	}
	b.lines.Flush()
	return min(next, max(b.groups.tick(), tickIntervalMin))
}

// tickSoon ends the idle pace of tick. It is called at most twice between two ticks, so that it cannot put one off for ever.
func (b *Broker) tickSoon() {
	select {
	case b.hurry <- struct{}{}:
	default:
	}
}
