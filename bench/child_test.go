//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/leatmq/leat/broker"
	"github.com/leatmq/leat/config"
)

// A child is this test binary again, as a server. It prints its address, then answers commands, a line each: usage, profile-start NAME,
// profile-stop NAME. The end of its input ends it.

const childEnv = "LEAT_BENCH_CHILD"

// childSpec says what a child is to be.
type childSpec struct {
	Role     string   // broker, bare-produce, bare-fetch or bare-answer
	Dir      string   // of the data
	Settings []string // broker keys
	Files    []string // bare-fetch: what to serve
	Procs    int      // GOMAXPROCS; 0 = all
	Answer   int      // bare-produce, bare-answer: bytes of an answer, its size field included
}

// usage is what a process has used so far.
type usage struct {
	CPU    time.Duration
	Allocs uint64
}

// child is the parent's side.
type child struct {
	b    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	addr string
}

func startChild(b testing.TB, spec childSpec) *child {
	b.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		b.Fatal(err)
	}
	c := &child{b: b, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	if spec.Procs > 0 {
		c.cmd.Env = append(c.cmd.Env, fmt.Sprintf("GOMAXPROCS=%d", spec.Procs))
	}
	c.cmd.Stderr = os.Stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	c.out = bufio.NewReader(stdout)
	b.Cleanup(c.stop)
	c.addr = c.line()
	return c
}

func (c *child) line() string {
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.b.Fatalf("a child process has ended: %v", err)
	}
	return strings.TrimSpace(line)
}

func (c *child) ask(command string) string {
	if _, err := fmt.Fprintln(c.in, command); err != nil {
		c.b.Fatal(err)
	}
	return c.line()
}

func (c *child) usage() (u usage) {
	if err := json.Unmarshal([]byte(c.ask("usage")), &u); err != nil {
		c.b.Fatal(err)
	}
	return u
}

func (c *child) stop() {
	c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		c.b.Errorf("a child process failed: %v", err)
	}
}

// measure adds what the child used during fn to its sample.
func (c *child) measure(fn func() sample) sample {
	before := c.usage()
	s := fn()
	after := c.usage()
	s.cpu, s.allocs = after.CPU-before.CPU, after.Allocs-before.Allocs
	return s
}

// profile writes profiles of the child's work until the benchmark ends, if they are wanted.
func (c *child) profile(name string) {
	if *profileDir == "" {
		return
	}
	dir, err := filepath.Abs(*profileDir)
	if err != nil {
		c.b.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if answer := c.ask("profile-start " + path); answer != "ok" {
		c.b.Fatal(answer)
	}
	c.b.Cleanup(func() {
		if answer := c.ask("profile-stop " + path); answer != "ok" {
			c.b.Error(answer)
		}
	})
}

// childMain is the child's main; its result is the exit code.
func childMain(text string) int {
	var spec childSpec
	err := json.Unmarshal([]byte(text), &spec)
	if err == nil {
		err = spec.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench child:", err)
		return 1
	}
	return 0
}

func (s *childSpec) serve() error {
	switch s.Role {
	case "broker":
		return s.serveBroker()
	case "bare-produce":
		return s.serveBare(func(ln *net.TCPListener) error { return bareProduce(ln, s.Dir, s.Answer) })
	case "bare-fetch":
		return s.serveBare(func(ln *net.TCPListener) error { return bareFetch(ln, s.Files) })
	case "bare-answer":
		return s.serveBare(func(ln *net.TCPListener) error { return bareAnswer(ln, s.Answer) })
	}
	return fmt.Errorf("unknown role %q", s.Role)
}

// newBroker makes a broker on a free port of 127.0.0.1.
func newBroker(dir string, settings ...string) (*broker.Broker, error) {
	set := config.NewSet()
	for _, kv := range append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=" + dir}, settings...) {
		k, v, _ := strings.Cut(kv, "=")
		if err := set.Override(k, v, config.Flag); err != nil {
			return nil, err
		}
	}
	return broker.New(broker.Options{Config: set})
}

func (s *childSpec) serveBroker() error {
	b, err := newBroker(s.Dir, s.Settings...)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve() }()
	fmt.Println(b.Addrs()[0])
	obey(os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		return err
	}
	return <-served
}

// serveBare runs a floor until its input ends; then the process ends, with whatever it is doing.
func (s *childSpec) serveBare(serve func(*net.TCPListener) error) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- serve(ln.(*net.TCPListener)) }()
	fmt.Println(ln.Addr())
	ended := make(chan struct{})
	go func() { obey(os.Stdin); close(ended) }()
	select {
	case err := <-failed:
		return err
	case <-ended:
		return nil
	}
}

// obey answers commands until the input ends.
func obey(r io.Reader) {
	var cpuProfile *os.File
	for in := bufio.NewScanner(r); in.Scan(); {
		command, path, _ := strings.Cut(in.Text(), " ")
		answer := "ok"
		var err error
		switch command {
		case "usage":
			var text []byte
			text, err = json.Marshal(usage{CPU: cpuTime(), Allocs: mallocs()})
			answer = string(text)
		case "profile-start":
			runtime.MemProfileRate = 4096
			if cpuProfile, err = os.Create(path + ".cpu.pprof"); err == nil {
				err = pprof.StartCPUProfile(cpuProfile)
			}
		case "profile-stop":
			pprof.StopCPUProfile()
			err = writeAllocs(path + ".allocs.pprof")
			cpuProfile.Close()
		default:
			err = fmt.Errorf("unknown command %q", command)
		}
		if err != nil {
			answer = err.Error()
		}
		fmt.Println(answer)
	}
}

func writeAllocs(path string) error {
	runtime.GC()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("allocs").WriteTo(f, 0)
}
