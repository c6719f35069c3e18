package engine

import (
	"fmt"
	"log/slog"
	"sync/atomic"
)

const (
	progressAfterMs = 1_000 // work that takes no longer is not spoken of
	progressEveryMs = 2_000
)

// advance tells people what work on many partitions of a directory, which keeps them waiting, has come to. Safe for several goroutines.
type advance struct {
	log     *slog.Logger
	now     func() int64 // broker clock
	what    string
	dir     string
	of      int
	beganMs int64
	done    atomic.Int64
	dueMs   atomic.Int64 // of the next line
}

func (d *logDir) newAdvance(what string, of int) *advance {
	p := &advance{log: d.e.log, now: d.e.o.Now, what: what, dir: d.path, of: of, beganMs: d.e.o.Now()}
	p.dueMs.Store(p.beganMs + progressAfterMs)
	return p
}

// step says that one more partition is done.
func (p *advance) step() {
	done := p.done.Add(1)
	now, due := p.now(), p.dueMs.Load()
	if now < due || int(done) == p.of || !p.dueMs.CompareAndSwap(due, now+progressEveryMs) {
		return
	}
	p.log.Info(p.what, "dir", p.dir, "done", done, "of", p.of)
}

// end says how long it took, if that was long.
func (p *advance) end() {
	if took := p.now() - p.beganMs; took >= progressAfterMs {
		p.log.Info(p.what, "dir", p.dir, "done", p.done.Load(), "of", p.of, "tookMs", took)
	}
}

// closeError says that partitions of a directory were not closed as they should be: one line, however many they are.
type closeError struct {
	dir  string
	of   int
	errs []error
}

func (e *closeError) Error() string {
	return fmt.Sprintf("log directory %s was not closed cleanly, the next start will check it: %d of %d partitions failed, the first: %v",
		e.dir, len(e.errs), e.of, e.errs[0])
}

func (e *closeError) Unwrap() []error { return e.errs }
