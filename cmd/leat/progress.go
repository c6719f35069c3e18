package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progressEvery is how often the progress is shown.
const progressEvery = 200 * time.Millisecond

// progress shows on a terminal how far `leat produce` is, in a line of its own that is wiped out at the end. On anything else it is silent.
type progress struct {
	w     io.Writer // nil: nothing is shown
	s     *sending
	total int64 // bytes of the input; 0: not known
	begin time.Time
	end   chan struct{}
	ended sync.WaitGroup
}

// startProgress begins to show it, or tells who types what to do.
func startProgress(w io.Writer, in *inputs, s *sending) *progress {
	p := &progress{s: s, total: in.total, begin: time.Now(), end: make(chan struct{})}
	if f, ok := w.(*os.File); !ok || !isTerminal(f) {
		return p
	}
	if p.w = w; in.terminal {
		fmt.Fprintf(w, "Each line becomes a record of %s; Ctrl-D ends.\n", s.topic)
		return p
	}
	p.ended.Go(p.show)
	return p
}

func (p *progress) show() {
	t := time.NewTicker(progressEvery)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			fmt.Fprintf(p.w, "\r%s\x1b[K", progressLine(p.s.written(), p.s.read.Load(), p.total, now.Sub(p.begin)))
		case <-p.end:
			fmt.Fprint(p.w, "\r\x1b[K")
			return
		}
	}
}

// progressLine is the progress in words.
func progressLine(records, read, total int64, took time.Duration) string {
	line := fmt.Sprintf("%d records, %s", records, bytesOf(&read))
	if total > 0 {
		line += fmt.Sprintf(" of %s (%d%%)", bytesOf(&total), min(100*read/total, 100))
	}
	return line + fmt.Sprintf(", %.0f records/s", float64(records)/max(took.Seconds(), 0.001))
}

// say writes a line for people.
func (p *progress) say(text string) {
	if p.w != nil {
		fmt.Fprintf(p.w, "\r%s\x1b[K\n", text)
	}
}

// stop ends the progress; its line is gone then.
func (p *progress) stop() {
	close(p.end)
	p.ended.Wait()
}
