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
			next := tickIntervalIdle
			b.meta.Tick(b.steady())
			if b.repl.Tick(b.steady()) {
				next = tickInterval
			}
			if due := time.Duration(b.groups.runtime.Tick(b.now())-b.now()) * time.Millisecond; due < next {
				next = max(due, tickIntervalMin)
			}
			b.lines.Flush()
			t.Reset(next)
		case <-b.hurry:
			t.Reset(tickInterval)
		case <-b.ctx.Done():
			b.lines.Close()
			return
		}
	}
}

// tickSoon ends the idle pace of tick. It is called at most twice between two ticks, so that it cannot put one off for ever.
func (b *Broker) tickSoon() {
	select {
	case b.hurry <- struct{}{}:
	default:
	}
}
