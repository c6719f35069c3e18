package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Load is something to do to a broker. ProduceLoad, FetchLoad and CommitLoad are.
type Load interface {
	// open makes the streams; each gets a connection of its own to the address that comes with it.
	open(ctx context.Context) ([]opened, *Result, error)
}

type opened struct {
	stream *stream
	addr   string
}

// RunOptions bound a run. A zero MaxBytes is no bound; Duration must be there.
type RunOptions struct {
	Warmup   time.Duration
	Duration time.Duration
	MaxBytes int64 // measured bytes of all loads together
	PID      int   // the broker's process, when it runs on this machine: its CPU time is measured (Linux)
}

// Result is what one load has measured.
type Result struct {
	Name     string    `json:"name"`
	Requests int64     `json:"requests"`
	Records  int64     `json:"records"`
	Bytes    int64     `json:"bytes"` // of batches
	Latency  Histogram `json:"latency"`
	// Late is how many requests could not be sent within 1 ms of their time, because earlier ones were not answered or the generator was busy.
	Late int64 `json:"late"`
}

// Report is what a run has measured.
type Report struct {
	Elapsed time.Duration
	CPU     time.Duration // of the broker; 0 when not measured
	Loads   []*Result
}

const (
	drainLimit = 20 * time.Second // for the last answers of a run
	stallLimit = 20 * time.Second // without any answer
	lateAfter  = time.Millisecond
)

// runner is one run. Only its thread touches it.
type runner struct {
	o       RunOptions
	poller  poller
	streams []*stream // by connection
	paced   []*stream
	results []*Result
	scratch []byte

	phase     phase
	warmEnd   time.Time
	begin     time.Time // of measuring
	end       time.Time
	cpuBegin  time.Duration
	report    Report
	lastHeard time.Time
}

type phase int

const (
	warming phase = iota
	measuring
	draining
)

// Run does all the loads at the same time, and returns figures only when every answer was right.
func Run(ctx context.Context, o RunOptions, loads ...Load) (*Report, error) {
	if o.Duration <= 0 {
		return nil, errors.New("a run needs a duration")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	return runOver(ctx, p, o, loads)
}

// runOver closes the poller.
func runOver(ctx context.Context, p poller, o RunOptions, loads []Load) (*Report, error) {
	defer p.close()
	r := &runner{o: o, poller: p, scratch: make([]byte, 256<<10)}
	for _, l := range loads {
		all, result, err := l.open(ctx)
		if err != nil {
			return nil, err
		}
		r.results = append(r.results, result)
		for _, s := range all {
			if err := r.add(s); err != nil {
				return nil, err
			}
		}
	}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	r.report.Loads = r.results
	return &r.report, nil
}

func (r *runner) add(o opened) error {
	conn, err := r.poller.dial(o.addr)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", o.addr, err)
	}
	s := o.stream
	s.conn, s.intended = conn, make([]time.Time, s.inflight)
	for len(r.streams) <= conn {
		r.streams = append(r.streams, nil)
	}
	r.streams[conn] = s
	if s.interval > 0 {
		r.paced = append(r.paced, s)
	}
	return nil
}

func (r *runner) run(ctx context.Context) error {
	now := time.Now()
	r.warmEnd, r.lastHeard = now.Add(r.o.Warmup), now
	for _, s := range r.streams {
		if s == nil {
			continue
		}
		if s.interval > 0 {
			s.due = now.Add(s.offset)
			continue
		}
		if err := r.refill(s, now); err != nil {
			return err
		}
	}
	for {
		now = time.Now()
		over, err := r.step(ctx, now)
		if over || err != nil {
			return err
		}
		if err := r.firePaced(now); err != nil {
			return err
		}
		if err := r.poller.wait(r.patience(now), r.ready); err != nil {
			return err
		}
	}
}

// step moves from phase to phase.
func (r *runner) step(ctx context.Context, now time.Time) (over bool, err error) {
	if now.Sub(r.lastHeard) > stallLimit {
		return false, fmt.Errorf("no answer within %v", stallLimit)
	}
	switch r.phase {
	case warming:
		if now.Before(r.warmEnd) && ctx.Err() == nil {
			return false, nil
		}
		for _, res := range r.results {
			res.Latency.Reset()
			*res = Result{Name: res.Name, Latency: res.Latency}
		}
		if r.cpuBegin, err = ProcessCPU(r.o.PID); err != nil {
			return false, err
		}
		r.phase, r.begin, r.end = measuring, now, now.Add(r.o.Duration)
	case measuring:
		if now.Before(r.end) && ctx.Err() == nil && (r.o.MaxBytes <= 0 || r.bytes() < r.o.MaxBytes) {
			return false, nil
		}
		cpu, err := ProcessCPU(r.o.PID)
		if err != nil {
			return false, err
		}
		r.report.Elapsed, r.report.CPU = now.Sub(r.begin), cpu-r.cpuBegin
		r.phase, r.end = draining, now.Add(drainLimit)
	case draining:
		if r.drained() {
			return true, nil
		}
		if now.After(r.end) {
			return false, fmt.Errorf("answers or records are missing %v after the last request", drainLimit)
		}
	}
	return false, nil
}

func (r *runner) bytes() (sum int64) {
	for _, res := range r.results {
		sum += res.Bytes
	}
	return sum
}

func (r *runner) drained() bool {
	for _, s := range r.streams {
		if s != nil && (!s.complete() || !s.endless() && s.answered != s.sent) {
			return false
		}
	}
	return true
}

// patience is how long nothing needs to be done.
func (r *runner) patience(now time.Time) time.Duration {
	d := 100 * time.Millisecond
	switch r.phase {
	case warming:
		d = min(d, r.warmEnd.Sub(now))
	case measuring:
		d = min(d, r.end.Sub(now))
	case draining:
		return 5 * time.Millisecond
	}
	for _, s := range r.paced {
		if s.mayFire() {
			d = min(d, s.due.Sub(now))
		}
	}
	return max(d, 0)
}

// firePaced sends what is due.
func (r *runner) firePaced(now time.Time) error {
	if r.phase == draining {
		return nil
	}
	for _, s := range r.paced {
		if err := r.catchUp(s, now); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) catchUp(s *stream, now time.Time) error {
	for s.mayFire() && !s.due.After(now) {
		if now.Sub(s.due) > lateAfter {
			s.result.Late++
		}
		if err := s.fire(r.poller, s.due); err != nil {
			return err
		}
		s.due = s.due.Add(s.interval)
	}
	return nil
}

// refill keeps the wanted number of requests in flight.
func (r *runner) refill(s *stream, now time.Time) error {
	if r.phase == draining && !s.endless() {
		return nil
	}
	if s.interval > 0 {
		return r.catchUp(s, now)
	}
	for s.mayFire() {
		if err := s.fire(r.poller, now); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) ready(conn int, readable, writable bool) error {
	s := r.streams[conn]
	if writable && s.unsent > 0 {
		if err := s.flush(r.poller); err != nil {
			return err
		}
	}
	var now time.Time
	if readable {
		now = time.Now()
		err := s.read(r.poller, r.scratch, func(d delivery, intended time.Time) { r.count(s, d, intended, now) })
		if err != nil {
			return err
		}
		r.lastHeard = now
	}
	return r.refill(s, time.Now())
}

// count adds an answer to the figures. Answers after the end are checked, but not counted.
func (r *runner) count(s *stream, d delivery, intended, now time.Time) {
	if r.phase == draining {
		return
	}
	res := s.result
	res.Requests++
	res.Records += d.records
	res.Bytes += d.bytes
	for _, since := range d.since {
		res.Latency.Record(now.Sub(since))
	}
	if len(d.since) == 0 && d.records > 0 {
		res.Latency.Record(now.Sub(intended))
	}
}
