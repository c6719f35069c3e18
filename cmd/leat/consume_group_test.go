package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/leatmq/leat/client/leattest"
)

// A group goes on where it was: with what was printed, and not a record more or less.
func TestConsumeGroup(t *testing.T) {
	b := leattest.New(t)
	tr := &transcript{t: t, addr: b.Addr()}
	tr.feed("one\ntwo\nthree\nfour\n", "produce t")
	tr.run("consume t --group g --exit-at-end")
	tr.run("consume t --group h --from-beginning --max-messages 2")
	tr.run("consume t --group h --max-messages 1")
	tr.run("consume t --group h --from-beginning --exit-at-end")
	tr.run("consume t --group h --exit-at-end")
	tr.feed("a:1\nb:2\na:3\n", "produce keyed --key-separator :")
	tr.run("consume keyed --group h --key a --max-messages 1 --from-beginning")
	tr.run("consume keyed --group h --count --exit-at-end")
	for _, args := range []string{"--group=", "--group g --partition 0", "--group g --offset 5", "--group g --from-time 1h", "--group g --group-protocol share", "--group-protocol consumer"} {
		tr.run("consume t " + args)
	}
	tr.compare("produce/group")
}

// following is `leat consume` that goes on, in this process.
type following struct {
	lines  *bufio.Reader
	cancel context.CancelFunc
	pipe   *io.PipeReader
	done   chan string
}

func follow(t *testing.T, args ...string) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	f := &following{lines: bufio.NewReader(r), cancel: cancel, pipe: r, done: make(chan string, 1)}
	go func() {
		root := newRoot()
		var errs strings.Builder
		root.SetContext(ctx)
		root.SetOut(w)
		root.SetErr(&errs)
		code := run(root, append([]string{"consume"}, args...))
		w.Close()
		f.done <- fmt.Sprintf("exit code %d: %s", code, errs.String())
	}()
	t.Cleanup(func() { cancel(); r.Close() })
	return f
}

// line is the next line.
func (f *following) line(t *testing.T) string {
	t.Helper()
	line, err := f.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// The members of a group share the partitions; when one ends, by Ctrl-C or because nobody reads it any more, the other has all, and no record is printed twice.
func TestConsumeGroupShares(t *testing.T) {
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			groupShares(t, protocol)
		})
	}
}

func groupShares(t *testing.T, protocol string) {
	b := leattest.New(t, "num.partitions=2", "group.consumer.min.heartbeat.interval.ms=100", "group.consumer.heartbeat.interval.ms=200")
	args := []string{"t", "--group", "g", "--group-protocol", protocol, "--from-beginning", "--template", `%p %s\n`, "--bootstrap-server", b.Addr()}
	put := func(value string) {
		t.Helper()
		for p := range 2 {
			if code, _, errs := leatOn(t.Context(), strings.NewReader(value+"\n"), "produce", "t", "--partition", fmt.Sprint(p), "--bootstrap-server", b.Addr()); code != 0 {
				t.Fatal(errs)
			}
		}
	}
	put("a")
	first := follow(t, args...)
	if got := []string{first.line(t), first.line(t)}; !slices.Equal(slices.Sorted(slices.Values(got)), []string{"0 a", "1 a"}) {
		t.Fatal(got)
	}
	second := follow(t, args...)
	waitForMembers(t, b.Addr(), 2)
	put("b")
	one, other := first.line(t), second.line(t)
	if got := []string{one, other}; !slices.Equal(slices.Sorted(slices.Values(got)), []string{"0 b", "1 b"}) {
		t.Fatal(got)
	}
	second.cancel()
	if end := <-second.done; end != "exit code 0: " {
		t.Error(end)
	}
	waitForMembers(t, b.Addr(), 1)
	put("c")
	if got := []string{first.line(t), first.line(t)}; !slices.Equal(slices.Sorted(slices.Values(got)), []string{"0 c", "1 c"}) {
		t.Fatal(got)
	}
	first.pipe.Close() // as head does
	put("d")
	if end := <-first.done; end != "exit code 0: " {
		t.Error(end)
	}
	waitForMembers(t, b.Addr(), 0) // it has left, though it ended in a hurry
	third := follow(t, args...)
	if got := []string{third.line(t), third.line(t)}; !slices.Equal(slices.Sorted(slices.Values(got)), []string{"0 d", "1 d"}) {
		t.Fatal(got)
	}
}

// waitForMembers waits until the group is at rest with so many members.
func waitForMembers(t *testing.T, addr string, count int) {
	t.Helper()
	want := fmt.Sprintf("Stable,%d", count)
	if count == 0 {
		want = "Empty,0"
	}
	for ctx := t.Context(); ctx.Err() == nil; {
		_, out, _ := leat("group", "describe", "g", "--bootstrap-server", addr)
		if rows := strings.Split(out, "\n"); len(rows) > 1 {
			if f := strings.Fields(rows[1]); len(f) > 2 && f[1]+","+f[len(f)-1] == want {
				return
			}
		}
	}
}

// interruptingWriter is Ctrl-C after the second write (the first is committed at once, the next ones a second later), or an output that takes nothing more then.
type interruptingWriter struct {
	writes, lines int
	interrupt     func() // nil: the output is full
}

func (w *interruptingWriter) Write(p []byte) (int, error) {
	if w.writes++; w.writes > 2 && w.interrupt == nil {
		return 0, errors.New("no space left")
	}
	w.lines += strings.Count(string(p), "\n")
	if w.writes == 2 && w.interrupt != nil {
		w.interrupt()
	}
	return len(p), nil
}

// What is committed at the end is what was printed, also when the end is Ctrl-C while records come, or an output that can't be written.
func TestConsumeGroupCommitsOnlyWhatIsPrinted(t *testing.T) {
	b := leattest.New(t)
	var lines strings.Builder
	for i := range 5 * pollRecords {
		fmt.Fprintln(&lines, i)
	}
	produceRecords(t, b.Addr(), "t", lines.String())
	for i := range 12 { // which of a cancelled context and a record is seen first is luck
		ctx, cancel := context.WithCancel(t.Context())
		w := &interruptingWriter{interrupt: cancel}
		if i%2 == 1 {
			w = &interruptingWriter{}
		}
		group := fmt.Sprint("g", i)
		root := newRoot()
		root.SetContext(ctx)
		root.SetOut(w)
		root.SetErr(io.Discard)
		if code := run(root, []string{"consume", "t", "--group", group, "--from-beginning", "--bootstrap-server", b.Addr()}); code != i%2 {
			t.Errorf("exit code %d", code)
		}
		cancel()
		_, next, errs := leatOn(t.Context(), strings.NewReader(""), "consume", "t", "--group", group, "--from-beginning", "--max-messages", "1", "--exit-at-end", "--bootstrap-server", b.Addr())
		if next != fmt.Sprintln(w.lines) {
			t.Errorf("%d lines were printed, and then came %q %s", w.lines, next, errs)
		}
	}
}
