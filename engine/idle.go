package engine

// Open files. A segment that is used has up to three descriptors and two mappings. Nobody counts them as they are opened; the ticker looks and puts segments to
// rest (segment.Rest): those nobody used for idleMs, and when there are more than Options.OpenSegmentsMax the ones not used since the last look,
// then any. A segment that somebody has a reference to, or whose data is not durable yet, stays open. Until the next tick there may be more than the limit.

// idleMs is how often segments that were not used are put to rest.
const idleMs = 60_000

// openSegmentsDefault is the limit when none is given: a third of it is descriptors of data files, and all of it leaves half of the process's descriptors to
// connections; mappings stay below a quarter of Linux's default limit for them (65,530).
func openSegmentsDefault() int { return min(max(descriptorsMax()/6, 64), 8192) }

// restIdle puts segments to rest.
func (e *Engine) restIdle(sweep bool) {
	logs := e.Logs()
	open := 0
	for _, l := range logs {
		open += l.openSegments()
	}
	if !sweep && open <= e.o.OpenSegmentsMax {
		return
	}
	for _, l := range logs {
		open -= l.rest(false)
	}
	for _, l := range logs {
		if open <= e.o.OpenSegmentsMax {
			return
		}
		open -= l.rest(true)
	}
}

// openSegments counts the segments that are not at rest.
func (l *Log) openSegments() (n int) {
	segs := l.segs.Load()
	if segs == nil {
		return 0
	}
	for _, h := range segs.list {
		if !h.Resting() {
			n++
		}
	}
	return n
}

// rest puts the log's segments to rest if nobody used them since the last time, or in any case, and returns how many it did. A log that is busy is left.
func (l *Log) rest(any bool) (n int) {
	if l.openSegments() == 0 || !l.maint.TryLock() {
		return 0
	}
	defer l.maint.Unlock()
	if !l.mu.TryLock() {
		return 0
	}
	defer l.mu.Unlock()
	segs := l.segs.Load()
	if segs == nil || l.Err() != nil || l.flushed.Load() < l.logEnd.Load() {
		return 0
	}
	for _, h := range segs.list {
		if h.Resting() || !h.Idle() && !any || !h.sealed.Load() && h != segs.active() {
			continue
		}
		done, err := h.Rest()
		if err != nil {
			l.e.log.Warn("closing an idle segment failed", "partition", l.tp.String(), "base", h.Base(), "err", l.dir.failed("close segment", err))
			return n
		}
		if done {
			n++
		}
	}
	return n
}

// wake makes the active segment ready for appends. One that does not end as it was noted is damage. An error of opening it is met again, and told, by the append.
func (l *Log) wake(active *handle) {
	if active.Load() == nil {
		l.noteActiveDamage(active)
	}
}

// noteActiveDamage fails the log if its active segment was found damaged when it was opened.
func (l *Log) noteActiveDamage(active *handle) {
	err := active.Damage()
	if err == nil || l.Err() != nil {
		return
	}
	damage := &DamageError{Path: l.path, Offset: active.NextOffset(), Msg: err.Error()}
	l.e.log.Error("a log is damaged: it stays readable where it is whole and takes no appends", "partition", l.tp.String(), "err", damage)
	l.fail(&StorageError{Path: l.path, Op: "open", Err: damage})
}
