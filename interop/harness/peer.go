package harness

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit = 60 * time.Second
	stopLimit  = 30 * time.Second
)

// Peer is one broker under test. Its fields are set before it is handed out; Addr stays the same over restarts.
type Peer struct {
	Kind string // KafkaKind or LeatKind
	Addr string // host:port of its client listener
	Dir  string // its directory; "" for a broker that somebody else runs

	bin      string   // leat: binary
	listen   string   // leat: --listen; fixed after the first start
	settings []string // leat: --set arguments; kafka: broker properties
	ctlPort  string   // kafka: port of its controller
	child    *child   // nil: not running, or somebody else's
}

// DataDir is where the partition directories are.
func (p *Peer) DataDir() string {
	return filepath.Join(p.Dir, "data")
}

// LogTail returns the last n lines that the broker printed.
func (p *Peer) LogTail(n int) string {
	if p.Dir == "" {
		return "(not started by this test)"
	}
	b, err := os.ReadFile(filepath.Join(p.Dir, "out"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Stop ends the broker with SIGTERM and returns an error when it had to be killed or did not exit with 0 (Kafka: 143).
func (p *Peer) Stop() error {
	if p.child == nil {
		return nil
	}
	c := p.child
	p.child = nil
	err := c.stop(stopLimit)
	if exit := (*exec.ExitError)(nil); p.Kind == KafkaKind && errors.As(err, &exit) && exit.ExitCode() == 143 {
		return nil
	}
	return err
}

// Kill ends the broker with SIGKILL and waits until it is gone.
func (p *Peer) Kill() {
	if p.child == nil {
		return
	}
	p.child.kill()
	p.child = nil
}

// Restart starts a stopped or killed leat again on the same directory and port.
func (p *Peer) Restart() error {
	if p.child != nil {
		return errors.New("it is running")
	}
	if p.Kind != LeatKind {
		return p.runKafka(p.Addr)
	}
	return p.startLeat()
}

func (p *Peer) cleanup(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of %s's output:\n%s", p.Kind, p.LogTail(40))
		}
		if err := p.Stop(); err != nil {
			t.Errorf("stop %s: %v", p.Kind, err)
		}
	})
}

// --- leat

var readyLine = regexp.MustCompile(`(?m)^leat is ready on (\S+)$`)

// command is `leat serve` with the peer's settings.
func (p *Peer) command() *exec.Cmd {
	args := []string{"serve", "--data-dir", p.DataDir(), "--listen", p.listen}
	for _, s := range p.settings {
		args = append(args, "--set", s)
	}
	return exec.Command(p.bin, args...)
}

// startLeat runs `leat serve` and waits for its ready line.
func (p *Peer) startLeat() error {
	mark := outSize(p.Dir)
	c, err := startChild(p.Dir, p.command())
	if err != nil {
		return err
	}
	err = Poll(startLimit, func() error {
		m := readyLine.FindSubmatch(readFrom(p.Dir, mark))
		if m != nil {
			p.Addr = string(m[1])
			return nil
		}
		return errors.New("no ready line")
	}, c.exited)
	if err != nil {
		c.kill()
		return fmt.Errorf("leat serve: %w; its output:\n%s", err, p.LogTail(20))
	}
	p.listen = p.Addr
	p.child = c
	return nil
}

// --- kafka

// KafkaScript is the path of peers/kafka.sh.
func KafkaScript() string { return filepath.Join(moduleDir(), "peers", "kafka.sh") }

// startKafka starts a broker on ports of the kernel's choice; another process may take one in between, so it tries again.
func startKafka(dir string, settings []string) (*Peer, error) {
	if out, err := exec.Command("bash", KafkaScript(), "prepare").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("kafka.sh prepare: %w\n%s", err, out)
	}
	var err error
	for range 3 {
		var ports []int
		if ports, err = FreePorts(2); err != nil {
			return nil, err
		}
		p := &Peer{Kind: KafkaKind, Dir: dir, settings: settings, ctlPort: strconv.Itoa(ports[1])}
		if err = p.runKafka(net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))); err == nil {
			return p, nil
		}
		os.RemoveAll(p.DataDir())
	}
	return nil, err
}

func (p *Peer) runKafka(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	p.Addr = addr
	c, err := startChild(p.Dir, p.kafkaCommand("run"))
	if err != nil {
		return err
	}
	err = Poll(startLimit, func() error { return exec.Command("bash", KafkaScript(), "ping", port).Run() }, c.exited)
	if err != nil {
		c.kill()
		return fmt.Errorf("kafka: %w; its output:\n%s", err, p.LogTail(20))
	}
	p.child = c
	return nil
}

// kafkaCommand is a command of kafka.sh for the peer's directory and port.
func (p *Peer) kafkaCommand(command string) *exec.Cmd {
	_, port, _ := net.SplitHostPort(p.Addr)
	cmd := exec.Command("bash", append([]string{KafkaScript(), command, p.Dir, port}, p.settings...)...)
	cmd.Env = append(os.Environ(), "PORT2="+p.ctlPort, "KAFKA_HEAP="+envOr("KAFKA_HEAP", "768m"))
	return cmd
}

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// --- children

// child is a started process whose output goes to out in its directory.
type child struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it is gone
	err    error         // of Wait; valid after exited
}

func startChild(dir string, cmd *exec.Cmd) (*child, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(filepath.Join(dir, "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := spawn(cmd); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, exited: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.exited
}

func (c *child) stop(limit time.Duration) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.kill()
		return err
	}
	select {
	case <-c.exited:
		return c.err
	case <-time.After(limit):
		c.kill()
		return fmt.Errorf("still running %v after SIGTERM, killed", limit)
	}
}

func outSize(dir string) int64 {
	if st, err := os.Stat(filepath.Join(dir, "out")); err == nil {
		return st.Size()
	}
	return 0
}

func readFrom(dir string, off int64) []byte {
	b, _ := os.ReadFile(filepath.Join(dir, "out"))
	if int64(len(b)) < off {
		return nil
	}
	return bytes.ReplaceAll(b[off:], []byte("\r\n"), []byte("\n"))
}
