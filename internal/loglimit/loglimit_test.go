package loglimit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

type fixture struct {
	*Logger
	out bytes.Buffer
	now int64
}

func newFixture() *fixture {
	f := &fixture{now: 1_000_000}
	f.Logger = New(slog.New(slog.NewTextHandler(&f.out, nil)), func() int64 { return f.now })
	return f
}

// lines returns what was written since the last call.
func (f *fixture) lines() []string {
	s := strings.TrimSpace(f.out.String())
	f.out.Reset()
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// 20,000 bad connections in 20 s are a handful of lines, not 20,000.
func TestFlood(t *testing.T) {
	f := newFixture()
	for i := range 20_000 {
		f.Log(slog.LevelInfo, "connection closed", "client", i)
		if f.now++; f.now%1000 == 0 {
			f.Flush()
		}
	}
	lines := f.lines()
	if len(lines) != Burst+2 {
		t.Fatalf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	if !strings.Contains(lines[0], "client=0") || !strings.Contains(lines[Burst-1], "client=4") {
		t.Errorf("the first lines are not written as they are: %s", lines[0])
	}
	if want := `msg="connection closed (more of the same)" count=9995 in=10s`; !strings.Contains(lines[Burst], want) {
		t.Errorf("summary %q, want %q", lines[Burst], want)
	}
	if want := `count=10000 in=10s`; !strings.Contains(lines[Burst+1], want) {
		t.Errorf("summary %q, want %q", lines[Burst+1], want)
	}
}

// After a quiet interval a message is written at once again, and nothing is said about zero lines.
func TestCalm(t *testing.T) {
	f := newFixture()
	for range 3 {
		f.Log(slog.LevelWarn, "m")
	}
	f.now += IntervalMs
	f.Flush()
	if n := len(f.lines()); n != 3 {
		t.Fatalf("%d lines", n)
	}
	for range Burst + 1 {
		f.Log(slog.LevelWarn, "m")
	}
	if n := len(f.lines()); n != Burst {
		t.Fatalf("%d lines after a quiet interval", n)
	}
	f.now += IntervalMs
	f.Flush() // says one more
	f.now += IntervalMs
	f.Flush() // quiet
	f.Log(slog.LevelWarn, "m")
	if lines := f.lines(); len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "count=1") {
		t.Fatalf("%q", lines)
	}
}

// Messages do not take each other's place; Close tells what was not yet told; a level that is off counts nothing.
func TestKindsAndClose(t *testing.T) {
	f := newFixture()
	for range Burst + 2 {
		f.Log(slog.LevelInfo, "a")
		f.Log(slog.LevelDebug, "off")
	}
	f.Log(slog.LevelInfo, "b")
	if n := len(f.lines()); n != Burst+1 {
		t.Fatalf("%d lines", n)
	}
	f.Flush() // not yet due
	if n := len(f.lines()); n != 0 {
		t.Fatalf("%d lines", n)
	}
	f.now += 2400
	f.Close()
	if lines := f.lines(); len(lines) != 1 || !strings.Contains(lines[0], "count=2 in=2s") {
		t.Fatalf("%q", lines)
	}
}

func TestConcurrentUse(t *testing.T) {
	f := newFixture()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				f.Log(slog.LevelInfo, "m")
				f.Flush()
			}
		})
	}
	all.Wait()
	if n := len(f.lines()); n != Burst {
		t.Fatalf("%d lines", n)
	}
}
