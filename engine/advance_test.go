package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// Work on many partitions speaks after a second and then every two; short work is silent.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		stepMs int64
		want   []string // of the lines: "done" of all but the last
	}{
		{1, nil},
		{100, []string{"done=10 ", "done=30 ", "done=50 "}},
		{5000, []string{"done=1 ", "done=2 ", "done=3 "}},
	} {
		f := newFixture(t, vfs.NewMem(1))
		e := f.open()
		f.logs.Reset()
		p := e.dirs[0].newAdvance("loading partitions", 60)
		for range 60 {
			f.clock.advance(c.stepMs)
			p.step()
		}
		p.end()
		lines := strings.Split(strings.TrimSpace(f.logs.String()), "\n")
		if len(c.want) == 0 {
			if f.logs.Len() > 0 {
				t.Errorf("steps of %d ms: %q", c.stepMs, lines)
			}
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], `msg="loading partitions" dir=/data`) || !strings.Contains(lines[i], "of=60") {
				t.Errorf("steps of %d ms: %q, want %q", c.stepMs, lines[i], want)
			}
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, fmt.Sprintf("done=60 of=60 tookMs=%d", 60*c.stepMs)) {
			t.Errorf("steps of %d ms end with %q", c.stepMs, last)
		}
	}
}

// A start and a stop that take long say how far they are.
func TestSlowStartAndStopSpeak(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	const partitions = 20
	f.open()
	for i := range int32(partitions) {
		if _, err := f.e.Create(TopicPartition{"t", i}, testID, topicConfig(t, nil)); err != nil {
			t.Fatal(err)
		}
	}
	f.close()
	f.logs.Reset()
	f.open()
	f.close()
	if strings.Contains(f.logs.String(), "partitions\" dir") {
		t.Errorf("a quick start and stop say:\n%s", f.logs)
	}
	f.tweak = func(o *Options) { o.Now = func() int64 { return f.clock.advance(500) } }
	f.open()
	f.close()
	for _, what := range []string{"loading partitions", "closing partitions"} {
		if strings.Count(f.logs.String(), what) < 2 || !strings.Contains(f.logs.String(), fmt.Sprintf("of=%d", partitions)) {
			t.Errorf("%s is not told:\n%s", what, f.logs)
		}
	}
}

// However many partitions a stop leaves unfinished, it says so once per directory, and the directory is not marked clean.
func TestOneErrorPerDirectory(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	for i := range int32(50) {
		if _, err := f.e.Create(TopicPartition{"t", i}, testID, topicConfig(t, nil)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := f.e.Close(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "50 of 50 partitions failed") || strings.Contains(err.Error(), "\n") {
		t.Errorf("close: %v", err)
	}
	if clean, _, err := takeCleanMarker(f.fs, "/data"); clean || err != nil {
		t.Errorf("clean %t, %v", clean, err)
	}
}
