package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

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
	produceRecords(t, b.Addr(), "t", "")
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
