package netio

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leatmq/leat/internal/invariant"
	"golang.org/x/sys/unix"
)

// fewDescriptorsEnv makes TestFewDescriptorsChild the server of TestFewDescriptors; its value is the driver.
const fewDescriptorsEnv = "LEAT_TEST_FEW_DESCRIPTORS"

// TestFewDescriptorsChild is not a test of its own: it serves with few descriptors until its input ends.
func TestFewDescriptorsChild(t *testing.T) {
	name := os.Getenv(fewDescriptorsEnv)
	if name == "" {
		return
	}
	var s Server
	ready := make(chan struct{})
	h := newTestHandler(func(c *Call) {
		<-ready
		f := NewFrame(12)
		binary.BigEndian.PutUint32(f.B, 8)
		binary.BigEndian.PutUint64(f.B[4:], uint64(s.Stats().AcceptPauses))
		c.Reply(f)
	})
	s = start(t, driver{name: name}.options(Options{Handler: h}))
	close(ready)
	limit := uint64(openFiles(t) + 20)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("address", s.Addr())
	io.Copy(io.Discard, os.Stdin)
}

// A server without descriptors left pauses accepting, keeps its connections, and accepts again when there are some.
func TestFewDescriptors(t *testing.T) {
	for _, name := range []string{"epoll", "net"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestFewDescriptorsChild$")
			cmd.Env = append(os.Environ(), fewDescriptorsEnv+"="+name)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				stdin.Close()
				io.Copy(io.Discard, stdout)
				if err := cmd.Wait(); err != nil {
					t.Errorf("the server: %v", err)
				}
			}()
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			exhaust(t, strings.TrimSpace(strings.TrimPrefix(line, "address ")))
		})
	}
}

func exhaust(t *testing.T, address string) {
	open := func() *client {
		raw, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		raw.SetDeadline(time.Now().Add(waitLimit))
		return &client{t: t, Conn: raw}
	}
	pauses := func(c *client) uint64 {
		c.send([]byte("pauses?"))
		return binary.BigEndian.Uint64(c.recv())
	}
	first := open()
	defer first.Close()
	if n := pauses(first); n != 0 {
		t.Fatalf("%d pauses before anything", n)
	}
	var waiting []*client
	for range 40 {
		waiting = append(waiting, open())
	}
	eventually(t, "accepting to pause", func() bool { return pauses(first) > 0 })
	for _, c := range waiting {
		c.Close()
	}
	last := open()
	defer last.Close()
	pauses(last)
}

// 1,000 idle connections must cost little: that is what the event loop is for.
func TestIdleConnectionMemory(t *testing.T) {
	f := func(name string, limit int) {
		t.Helper()
		s := start(t, driver{name: name}.options(Options{Handler: newTestHandler(echo)}))
		address := s.Addr().(*net.TCPAddr)
		const conns = 1000
		fds := make([]int, 0, conns)
		before := memoryInUse()
		for range conns {
			fds = append(fds, rawDial(t, address.Port))
		}
		eventually(t, "all connections", func() bool { return s.Stats().Connections == conns })
		for _, fd := range fds {
			if err := rawEcho(fd); err != nil {
				t.Fatal(err)
			}
		}
		perConn := (memoryInUse() - before) / conns
		t.Logf("%s: %d bytes per idle connection", name, perConn)
		if perConn > limit && !invariant.Enabled {
			t.Errorf("%s: %d bytes per idle connection, limit %d", name, perConn, limit)
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
		eventually(t, "all connections to close", func() bool { return s.Stats().Connections == 0 })
	}
	f("epoll", 2<<10)
	f("net", 32<<10)
}

func memoryInUse() int {
	var m runtime.MemStats
	for range 3 { // twice for the pools, once more for what they held
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// rawDial connects without a Go object that would be counted.
func rawDial(t testing.TB, port int) int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	return fd
}

var rawRequest = frameOf(pattern(100))

func rawEcho(fd int) error {
	if _, err := unix.Write(fd, rawRequest); err != nil {
		return err
	}
	var b [104]byte
	for n := 0; n < len(b); {
		k, err := unix.Read(fd, b[n:])
		if err != nil && err != unix.EINTR {
			return err
		}
		if k == 0 {
			return io.ErrUnexpectedEOF
		}
		n += max(k, 0)
	}
	return nil
}

// The path of a request allocates nothing once the pools are warm.
func TestRequestAllocatesNothing(t *testing.T) {
	if invariant.Enabled {
		t.Log("with invariants on nothing is reused")
		return
	}
	content := tempFile(t, pattern(100))
	handlers := map[string]func(*Call){
		"echo": echo,
		"range": func(c *Call) {
			if c.User == nil {
				c.User = make([]Part, 1)
			}
			parts := c.User.([]Part)
			parts[0] = Part{File: content, N: 100}
			c.Complete(Response{Body: rawRequest[:4], Parts: parts})
		},
	}
	for _, name := range []string{"epoll", "net"} {
		for kind, handler := range handlers {
			s := start(t, driver{name: name}.options(Options{Handler: newTestHandler(handler)}))
			fd := rawDial(t, s.Addr().(*net.TCPAddr).Port)
			const rounds = 2000
			run := func() {
				for range rounds {
					if err := rawEcho(fd); err != nil {
						t.Fatal(err)
					}
				}
			}
			run()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run()
			runtime.ReadMemStats(&after)
			perRequest := float64(after.Mallocs-before.Mallocs) / rounds
			t.Logf("%s %s: %.3f allocations per request", name, kind, perRequest)
			if perRequest > 0.1 {
				t.Errorf("%s %s: %.3f allocations per request", name, kind, perRequest)
			}
			unix.Close(fd)
		}
	}
}

// A request that another goroutine answers, from the socket and back, allocates nothing in the steady state: neither the frame, nor the call, nor waking
// the loop.
func TestRequestAnsweredElsewhereAllocatesNothing(t *testing.T) {
	if invariant.Enabled {
		t.Log("with invariants on nothing is reused")
		return
	}
	calls := make(chan *Call, 1)
	h := newTestHandler(func(c *Call) { calls <- c })
	s := start(t, Options{Handler: h, Driver: "epoll", Loops: 1})
	t.Cleanup(func() { close(calls) })
	go func() {
		for c := range calls {
			parts, _ := c.User.([]Part)
			if parts == nil {
				parts = make([]Part, 1)
				c.User = parts
			}
			parts[0] = Part{B: rawRequest}
			c.Complete(Response{Parts: parts})
		}
	}()
	fd := rawDial(t, s.Addr().(*net.TCPAddr).Port)
	defer unix.Close(fd)
	ask := func() {
		if err := rawEcho(fd); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		ask()
	}
	if n := testing.AllocsPerRun(500, ask); n > 0 {
		t.Errorf("%v allocations per request", n)
	}
}
