package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leatmq/leat/client/leattest"
)

// openPTY makes a terminal of 24 lines and 80 columns: the side that people see, and the program's.
func openPTY(t *testing.T) (people, program *os.File) {
	t.Helper()
	people, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	fd := int(people.Fd())
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return people, program
}

// session is leat on a terminal.
type session struct {
	t      *testing.T
	cmd    *exec.Cmd
	people *os.File
	ended  chan struct{}

	mu   sync.Mutex
	seen bytes.Buffer
	more chan struct{}
}

// onTerminal starts leat with a terminal for what is nil.
func onTerminal(t *testing.T, stdin io.Reader, stdout io.Writer, args ...string) *session {
	t.Helper()
	people, program := openPTY(t)
	s := &session{t: t, people: people, ended: make(chan struct{}), more: make(chan struct{}, 1)}
	s.cmd = exec.Command(os.Args[0], args...)
	s.cmd.Env = append(os.Environ(), asLeat+"=1")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = program, program, program
	if stdin != nil {
		s.cmd.Stdin = stdin
	}
	if stdout != nil {
		s.cmd.Stdout = stdout
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2} // Ctrl-C goes to it
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	go s.watch()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		people.Close()
	})
	return s
}

func (s *session) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := s.people.Read(buf)
		s.mu.Lock()
		s.seen.Write(buf[:n])
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
		if err != nil { // EIO: the program has ended
			break
		}
	}
	_ = s.cmd.Wait()
	close(s.ended)
}

func (s *session) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.seen.String(), "\r\n", "\n")
}

// expect waits until something is on the screen.
func (s *session) expect(text string) {
	s.t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(s.screen(), text) {
		select {
		case <-s.more:
		case <-deadline:
			s.t.Fatalf("%q does not come:\n%q", text, s.screen())
		}
	}
}

func (s *session) typed(text string) {
	s.t.Helper()
	if _, err := s.people.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) exit() int {
	s.t.Helper()
	select {
	case <-s.ended:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		s.t.Fatalf("still running:\n%q", s.screen())
		return -1
	}
}

// Who types is told how it works; Ctrl-D ends, and so does Ctrl-C: both with what was typed.
func TestTerminalProduce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	b := leattest.New(t)
	for key, topic := range map[string]string{"\x04": "d", "\x03": "c"} {
		if code, _, errs := leat("topic", "create", topic, "--bootstrap-server", b.Addr()); code != 0 {
			t.Fatal(errs)
		}
		s := onTerminal(t, nil, nil, "produce", topic, "--bootstrap-server", b.Addr())
		s.expect("Each line becomes a record of " + topic + "; Ctrl-D ends.\n")
		s.typed("one\ntwo\n")
		follow := onTerminal(t, nil, nil, "consume", topic, "--from-beginning", "--max-messages", "2", "--idle-timeout", patience.String(), "--bootstrap-server", b.Addr())
		if code := follow.exit(); code != 0 || follow.screen() != "one\ntwo\n" { // they are there while the other one goes on
			t.Fatalf("exit code %d, %q", code, follow.screen())
		}
		s.typed(key)
		if code := s.exit(); code != 0 || !strings.HasSuffix(s.screen(), "2 records are written to "+topic+".\n") {
			t.Errorf("%q: exit code %d, %q", key, code, s.screen())
		}
	}
}

// Progress of a file is shown in one line, which is gone at the end; standard output has the result only.
func TestTerminalProgress(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	b := leattest.New(t)
	file := writeFile(t, "lines.txt", strings.Repeat("a line\n", 600))
	var out bytes.Buffer
	s := onTerminal(t, nil, &out, "produce", "t", file, "--rate", "1000", "--bootstrap-server", b.Addr())
	if code := s.exit(); code != 0 || out.String() != "600 records are written to t.\n" {
		t.Errorf("exit code %d, %q", code, out.String())
	}
	line := `\r\d+ records, [0-9.]+ K?i?B of 4\.1 KiB \(\d+%\), \d+ records/s\x1b\[K`
	if !regexp.MustCompile(`^(` + line + `)+\r\x1b\[K$`).MatchString(s.screen()) {
		t.Errorf("%q", s.screen())
	}
}

// Ctrl-C ends a consumer that follows: that is how one ends it.
func TestTerminalConsume(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	b := leattest.New(t)
	produceRecords(t, b.Addr(), "t", "one\ntwo\n")
	s := onTerminal(t, nil, nil, "consume", "t", "--from-beginning", "--bootstrap-server", b.Addr())
	s.expect("one\ntwo\n")
	s.typed("\x03")
	if code := s.exit(); code != 0 || !strings.HasPrefix(s.screen(), "one\ntwo\n") || strings.Contains(s.screen(), "leat:") {
		t.Errorf("exit code %d, %q", code, s.screen())
	}
	s = onTerminal(t, nil, nil, "consume", "t", "--count", "--from-beginning", "--max-messages", "5", "--idle-timeout", "100ms", "--bootstrap-server", b.Addr())
	if code := s.exit(); code != 0 || s.screen() != "2\n" {
		t.Errorf("exit code %d, %q", code, s.screen())
	}
}

// A reader that has seen enough, such as head, ends leat quietly.
func TestPipeClosedEarly(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	b := leattest.New(t)
	produceRecords(t, b.Addr(), "t", strings.Repeat("some text that fills the pipe\n", 20_000))
	for _, args := range [][]string{{}, {"--exit-at-end"}, {"--output", "json"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd := exec.Command(os.Args[0], append([]string{"consume", "t", "--from-beginning", "--bootstrap-server", b.Addr()}, args...)...)
		cmd.Env = append(os.Environ(), asLeat+"=1")
		cmd.Stdout, cmd.Stderr = w, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || !strings.Contains(line, "some text") {
			t.Errorf("%q, %v", line, err)
		}
		r.Close()
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("%v: %v, %s", args, err, stderr.String())
		}
	}
}

// SIGINT and SIGTERM, while a pipe is read, send what was read.
func TestProduceSignals(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	b := leattest.New(t)
	for topic, signal := range map[string]os.Signal{"int": os.Interrupt, "term": syscall.SIGTERM} {
		var stdout, stderr bytes.Buffer
		cmd := exec.Command(os.Args[0], "produce", topic, "--bootstrap-server", b.Addr())
		cmd.Env = append(os.Environ(), asLeat+"=1")
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(stdin, "one\ntwo\nhalf a li"); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); ; { // until they are written
			_, out, _ := leat("consume", topic, "--from-beginning", "--max-messages", "2", "--count", "--idle-timeout", "100ms", "--bootstrap-server", b.Addr())
			if out == "2\n" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the records do not come")
			}
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed || stdout.String() != "2 records are written to "+topic+".\n" ||
			stderr.String() != "leat: interrupted; the rest of the input was not read\n" {
			t.Errorf("%v: %v, %q, %q", signal, err, stdout.String(), stderr.String())
		}
		stdin.Close()
	}
}
