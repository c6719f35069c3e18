package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatmq/leat/client"
)

// sending is one run of `leat produce`: a goroutine reads and gives records to the producer, which tells their fate from goroutines of its own.
type sending struct {
	producer *client.Producer
	topic    string
	in       *inputs
	parse    recordParser
	common   []client.Header
	fixed    int32 // partition of records that name none
	pace     pacer

	read  atomic.Int64  // bytes of the input
	wrong chan struct{} // closed with the first failure

	mu         sync.Mutex // guards what follows
	partitions map[int32]*tally
	count      int64 // of all partitions
	failed     error // the first one
}

// tally is what is written to a partition.
type tally struct {
	Partition int32  `json:"partition"`
	Records   int64  `json:"records"`
	First     *int64 `json:"firstOffset"` // null: the broker did not tell (--acks 0)
	Last      *int64 `json:"lastOffset"`
}

func newSending(p *client.Producer, topic string, in *inputs, f *producing) *sending {
	return &sending{
		producer: p, topic: topic, in: in, parse: f.parse, common: f.common, fixed: f.partition,
		pace: pacer{rate: f.rate, now: time.Now, sleep: sleepFor}, wrong: make(chan struct{}), partitions: map[int32]*tally{},
	}
}

// run sends until the input or ctx ends, or something fails. A reader that waits for input is left behind then: what it reads afterwards is refused.
func (s *sending) run(ctx context.Context) (err error, interrupted bool) {
	done := make(chan error, 1)
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { done <- s.readAll(reading) }()
	select {
	case err = <-done:
	case <-s.wrong:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil, true
	}
	return err, false
}

func (s *sending) readAll(ctx context.Context) error {
	var r client.Record
	for ctx.Err() == nil {
		line, err := s.in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.read.Store(s.in.read())
		r = client.Record{Topic: s.topic, Partition: s.fixed, Headers: r.Headers[:0]}
		ok, err := s.parse(line, &r)
		if err != nil {
			return s.in.where(err)
		}
		if !ok {
			continue
		}
		r.Headers = append(r.Headers, s.common...)
		if err := s.pace.wait(ctx); err != nil {
			return err
		}
		if err := s.producer.Send(ctx, &r, s.delivered); err != nil {
			return s.in.where(err)
		}
	}
	return ctx.Err()
}

// delivered takes the fate of a record down.
func (s *sending) delivered(d client.Delivery, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.failed == nil {
			s.failed = err
			close(s.wrong)
		}
		return
	}
	t := s.partitions[d.Partition]
	if t == nil {
		t = &tally{Partition: d.Partition}
		s.partitions[d.Partition] = t
		if d.Offset >= 0 {
			t.First, t.Last = new(int64), new(int64)
			*t.First = d.Offset
		}
	}
	t.Records++
	s.count++
	if t.Last != nil {
		*t.Last = d.Offset
	}
}

// failure is the first record's that was not written.
func (s *sending) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// written is how many records are.
func (s *sending) written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// print says what is written.
func (s *sending) print(w io.Writer, output string, unsure bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if output == "json" {
		result := struct {
			Topic      string   `json:"topic"`
			Records    int64    `json:"records"`
			Partitions []*tally `json:"partitions"`
		}{s.topic, s.count, []*tally{}}
		for _, t := range s.partitions {
			result.Partitions = append(result.Partitions, t)
		}
		slices.SortFunc(result.Partitions, func(a, b *tally) int { return cmp.Compare(a.Partition, b.Partition) })
		return printJSON(w, result)
	}
	verb := "written"
	if unsure {
		verb = "sent"
	}
	are := "are"
	if s.count == 1 {
		are = "is"
	}
	_, err := fmt.Fprintf(w, "%s %s %s to %s.\n", counted(int(s.count), "record"), are, verb, s.topic)
	return err
}

// pacer lets things happen at a rate, up to a millisecond early. Who comes late gets no more than a tenth of a second made up.
type pacer struct {
	rate  float64 // per second; 0: any
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration) error
	begin time.Time
	count int64 // since begin
}

// wait returns when the next thing may happen.
func (p *pacer) wait(ctx context.Context) error {
	if p.rate == 0 {
		return nil
	}
	now := p.now()
	ahead := p.begin.Add(time.Duration(float64(p.count) / p.rate * float64(time.Second))).Sub(now)
	if p.begin.IsZero() || ahead < -100*time.Millisecond || p.count > 1<<40 {
		p.begin, p.count, ahead = now, 0, 0
	}
	p.count++
	if ahead < time.Millisecond {
		return nil
	}
	return p.sleep(ctx, ahead)
}

func sleepFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
