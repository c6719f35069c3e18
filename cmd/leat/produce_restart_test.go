package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/leatmq/leat/client/leattest"
)

// stepReader does something before each of its lines.
type stepReader struct {
	lines []string
	step  func(line int)
	line  int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if r.line == len(r.lines) {
		return 0, io.EOF
	}
	r.step(r.line)
	r.line++
	return copy(p, r.lines[r.line-1]), nil
}

// A broker that restarts while lines come loses none, doubles none, and keeps their order.
func TestProduceOverRestarts(t *testing.T) {
	b := leattest.New(t)
	r := &stepReader{step: func(line int) {
		if line == 2 || line == 4 {
			b.Restart()
		}
	}}
	var want strings.Builder
	for i := range 6 {
		var chunk strings.Builder
		for k := range 100 {
			fmt.Fprintf(&chunk, "%d-%d\n", i, k)
		}
		r.lines = append(r.lines, chunk.String())
		want.WriteString(chunk.String())
	}
	code, out, errs := leatOn(context.Background(), r, "produce", "t", "--bootstrap-server", b.Addr())
	if code != 0 || out != "600 records are written to t.\n" {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	if _, out, errs := leat("consume", "t", "--from-beginning", "--exit-at-end", "--bootstrap-server", b.Addr()); out != want.String() {
		t.Errorf("%s%s", out, errs)
	}
}

// A broker that goes while lines come, and does not come back: one sentence within the time limit, and how much is written.
func TestProduceBrokerGone(t *testing.T) {
	b := leattest.New(t)
	r := &stepReader{lines: []string{"one\n", "two\n"}, step: func(line int) {
		if line == 1 {
			if _, out, _ := leat("consume", "t", "--from-beginning", "--max-messages", "1", "--bootstrap-server", b.Addr()); out != "one\n" {
				t.Errorf("%q", out)
			}
			b.Stop()
		}
	}}
	code, out, errs := leatOn(context.Background(), r, "produce", "t", "--timeout", "1s", "--bootstrap-server", b.Addr())
	if code != exitFailed || out != "1 record is written to t.\n" || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "leat: records of partition 0 ") || !strings.Contains(errs, " within 1s") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
}

// A consumer goes on after a restart, and gives up after the time limit when there is none.
func TestConsumeOverRestarts(t *testing.T) {
	b := leattest.New(t)
	produceRecords(t, b.Addr(), "t", "one\n")
	r, w := io.Pipe()
	done := make(chan string)
	go func() {
		root := newRoot()
		var errs strings.Builder
		root.SetOut(w)
		root.SetErr(&errs)
		code := run(root, []string{"consume", "t", "--from-beginning", "--timeout", "1s", "--bootstrap-server", b.Addr()})
		w.Close()
		done <- fmt.Sprintf("exit code %d: %s", code, errs.String())
	}()
	expect := func(want string) {
		t.Helper()
		buf := make([]byte, len(want))
		if _, err := io.ReadFull(r, buf); err != nil || string(buf) != want {
			t.Fatalf("%q, %v", buf, err)
		}
	}
	expect("one\n")
	b.Restart()
	produceRecords(t, b.Addr(), "t", "two\n")
	expect("two\n")
	b.Stop()
	if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if end := <-done; !strings.HasPrefix(end, "exit code 1: leat: ") || !strings.Contains(end, b.Addr()) || strings.Count(end, "\n") != 1 {
		t.Error(end)
	}
}

// Only a time in which the cluster cannot be asked ends a consumer, not one in which nothing is written.
func TestConsumeNothing(t *testing.T) {
	now := time.Unix(0, 0)
	r := &reading{consuming: &consuming{clusterFlags: clusterFlags{timeout: time.Minute}, idle: 10 * time.Minute}, now: func() time.Time { return now }, quietSince: now, wellAt: now}
	trouble := fmt.Errorf("%w: unreachable", context.DeadlineExceeded)
	for minute, step := range []struct {
		err    error
		failed bool
		over   bool
	}{1: {err: context.DeadlineExceeded}, 2: {err: context.DeadlineExceeded}, 3: {err: trouble, failed: true}, 4: {err: context.DeadlineExceeded}, 10: {err: context.DeadlineExceeded, over: true}} {
		if now = time.Unix(int64(minute)*60, 0); step.err == nil {
			continue
		}
		if over, err := r.nothing(step.err); over != step.over || (err != nil) != step.failed {
			t.Errorf("minute %d: %v, %v", minute, over, err)
		}
	}
	now = now.Add(30 * time.Second)
	if _, err := r.nothing(trouble); err != nil {
		t.Errorf("after half a minute of trouble: %v", err)
	}
}

// Partitions that are added while a consumer follows are read from their beginning; a topic that is deleted ends it with a sentence.
func TestConsumeTopicChanges(t *testing.T) {
	was := growthCheck
	growthCheck = 50 * time.Millisecond
	defer func() { growthCheck = was }()
	b := leattest.New(t)
	server := []string{"--bootstrap-server", b.Addr()}
	produceRecords(t, b.Addr(), "t", "one\n")
	f := follow(t, append(server, "t", "--from-beginning")...)
	if line := f.line(t); line != "one" {
		t.Errorf("%q", line)
	}
	if code, _, errs := leat(append(server, "topic", "alter", "t", "--partitions", "3")...); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := leatOn(t.Context(), strings.NewReader("two\n"), append(server, "produce", "t", "--partition", "2")...); code != 0 {
		t.Fatal(errs)
	}
	if line := f.line(t); line != "two" {
		t.Errorf("%q", line)
	}
	if code, _, errs := leat(append(server, "topic", "delete", "t")...); code != 0 {
		t.Fatal(errs)
	}
	if end := <-f.done; !strings.HasPrefix(end, "exit code 1: leat: topic \"t\" does not exist") || strings.Count(end, "\n") != 1 {
		t.Error(end)
	}
}
