package netio

import (
	"cmp"
	"slices"
	"sync"
)

const (
	// frameProgress is how many bytes of an unfinished frame must arrive per Options.FrameTimeout, if the rest is not less.
	// It is a rate (2 KiB/s by default) and no time for the whole: 100 MiB over a slow line take long and may.
	frameProgress = 64 << 10
	// shortagePatienceMs is how long somebody waits for frame memory before unfinished frames are given up for it.
	shortagePatienceMs = 1000
	// shortageShare is the part of the account that is freed per tick in a shortage, while unfinished frames hold more than
	// twice that.
	shortageShare = 8
)

// progress is how far the unfinished frame of a connection has come: written by the connection's reader, read by the
// server's ticker.
//
// Invariant: frame is 0 or the connection is in unfinished.list (or in the hands of a watch, that will put it back).
type progress struct {
	owner  transport
	budget *budget

	mu struct {
		sync.Mutex
		frame      int64 // number of the frame; 0: none is unfinished
		size, got  int
		held       int64 // bytes of the account
		sinceMs    int64 // the frame began
		paused     bool  // the connection is not read, so its peer is not to blame,
		pauseMs    int64 // since then
		pausedMs   int64 // earlier pauses of this frame, together
		listed     bool
		timedFrame int64 // the interval that is being timed began with this frame,
		timedGot   int   // at this byte of it,
		timedMs    int64 // then
	}
}

// unfinished is the connections with an unfinished frame. A frame that arrives in one piece is never in it.
type unfinished struct {
	sync.Mutex
	list []*progress
}

// note publishes the state of the framer after the connection was read. Reader only.
func (c *connBase) note(f *framer, nowMs int64) {
	if !f.begun() && !c.noted {
		return
	}
	c.noted = f.begun()
	c.srv.noteProgress(&c.progress, f, nowMs)
}

func (b *base) noteProgress(p *progress, f *framer, nowMs int64) {
	p.mu.Lock()
	if !f.begun() {
		p.mu.frame, p.mu.held = 0, 0
		p.mu.Unlock()
		return
	}
	if p.mu.frame != f.number {
		p.mu.frame, p.mu.size, p.mu.sinceMs = f.number, f.size, nowMs
		p.mu.pauseMs, p.mu.pausedMs = nowMs, 0
	}
	p.mu.got, p.mu.held = 0, f.sharedBytes()
	if f.frame != nil {
		p.mu.got = f.got
	}
	news := !p.mu.listed
	p.mu.listed = true
	p.mu.Unlock()
	if news {
		b.unfinished.Lock()
		b.unfinished.list = append(b.unfinished.list, p)
		b.unfinished.Unlock()
	}
}

// pause notes whether the connection is read.
func (c *connBase) pause(paused bool) {
	p := &c.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.frame != 0 {
		now := c.srv.o.NowMs()
		if p.mu.paused {
			p.mu.pausedMs += now - p.mu.pauseMs
		}
		p.mu.pauseMs = now
	}
	p.mu.paused = paused
}

// holder is an unfinished frame as a watch saw it.
type holder struct {
	p         *progress
	held      int64
	ageMs     int64 // without pauses, if it is not in one
	paused    bool
	size, got int
}

// compare orders who gives way first: those that are read and send little, by their bytes per time; then those that are not
// read, for want of memory or because the handler wants it so, the largest holder first.
func (h holder) compare(other holder) int {
	switch {
	case h.paused != other.paused:
		if h.paused {
			return 1
		}
		return -1
	case h.paused:
		return cmp.Compare(other.held, h.held)
	}
	return cmp.Compare(float64(h.got)/float64(max(1, h.ageMs)), float64(other.got)/float64(max(1, other.ageMs)))
}

// watchFrames closes connections whose frame makes too little progress, and, when somebody has waited too long for memory,
// those that hold it and are the slowest.
func (b *base) watchFrames(nowMs int64) {
	b.unfinished.Lock()
	list := b.unfinished.list
	b.unfinished.list = nil
	b.unfinished.Unlock()
	var kept []*progress
	var holders []holder
	for _, p := range list {
		h, unfinished, stalled := p.look(nowMs, b.o.FrameTimeout.Milliseconds())
		if !unfinished {
			continue
		}
		kept = append(kept, p)
		if stalled {
			p.owner.fail(&SlowFrameError{Size: h.size, Received: h.got})
		} else if h.held > 0 && h.ageMs >= shortagePatienceMs {
			holders = append(holders, h)
		}
	}
	b.unfinished.Lock()
	b.unfinished.list = append(b.unfinished.list, kept...)
	b.unfinished.Unlock()
	b.relieve(holders, nowMs)
}

// look takes the connection out of the list if it has no unfinished frame, and else times the frame.
func (p *progress) look(nowMs, timeoutMs int64) (h holder, unfinished, stalled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.mu
	if m.frame == 0 {
		m.listed = false
		return holder{}, false, false
	}
	if m.paused || m.timedFrame != m.frame || m.got-m.timedGot >= frameProgress {
		m.timedFrame, m.timedGot, m.timedMs = m.frame, m.got, nowMs
	}
	h = holder{p: p, held: m.held, ageMs: nowMs - m.sinceMs, paused: m.paused, size: m.size, got: m.got}
	if !m.paused {
		h.ageMs -= m.pausedMs
	}
	return h, true, timeoutMs >= 0 && nowMs-m.timedMs >= max(1, timeoutMs)
}

// relieve ends a shortage of frame memory: the slowest holders give theirs back, until somebody else is served. It does nothing where that helps nobody, because the handler has the memory.
func (b *base) relieve(holders []holder, nowMs int64) {
	waits := b.frames.waits(nowMs - shortagePatienceMs)
	if len(waits) == 0 {
		return
	}
	slices.SortStableFunc(waits, func(x, y wait) int { return cmp.Compare(x.need, y.need) })
	slices.SortStableFunc(holders, holder.compare)
	for _, h := range victims(holders, waits, b.frames.limit-b.frames.shared.Load(), b.frames.limit/shortageShare) {
		h.p.owner.fail(&SlowFrameError{Size: h.size, Received: h.got, Shortage: true})
	}
}

// victims is how many of the holders, slowest first, must go so that one of the waits, smallest first, is served that is not
// theirs. While the others hold more than twice share, they are at least so many that share is freed. free is the memory
// that nobody has.
func victims(holders []holder, waits []wait, free, share int64) []holder {
	gone := map[*budget]bool{}
	freed, held := int64(0), int64(0)
	for _, h := range holders {
		held += h.held
	}
	for n, h := range holders {
		for len(waits) > 0 && gone[waits[0].by] {
			waits = waits[1:]
		}
		served := len(waits) > 0 && waits[0].need <= free+freed
		if served && (freed >= share || held-freed <= 2*share) {
			return holders[:n]
		}
		gone[h.p.budget] = true
		freed += h.held
	}
	for _, w := range waits {
		if !gone[w.by] && w.need <= free+freed {
			return holders
		}
	}
	return nil
}
