//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// firstRecord creates a topic and waits until a record in it is on stable storage.
func firstRecord(addr string) error {
	if err := createTopic(addr, "first", 1); err != nil {
		return err
	}
	resp, err := call(addr, produceRequest("first", 0, newBatch(1, 100)))
	if err != nil {
		return err
	}
	if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 0 {
		return fmt.Errorf("the first record: code %d, offset %d", p.ErrorCode, p.BaseOffset)
	}
	return nil
}

// BenchmarkStart is the time from an empty directory to the first acknowledged record: with the broker in this process, and with the program.
func BenchmarkStart(b *testing.B) {
	b.Run("InProcess", func(b *testing.B) {
		var ms []float64
		for range max(*roundCount, 3) {
			ms = append(ms, startInProcess(b))
		}
		noteFact(b, "start to first acknowledged record, in process", "ms", "", ms...)
	})
	b.Run("Program", func(b *testing.B) {
		program := buildProgram(b)
		var ms []float64
		for range max(*roundCount, 3) {
			begin := time.Now()
			p := startProgram(b, program)
			if err := firstRecord(p.addr); err != nil {
				b.Fatal(err)
			}
			ms = append(ms, time.Since(begin).Seconds()*1000)
			p.stop(b)
		}
		noteFact(b, "start to first acknowledged record, leat serve", "ms", "<= 100 ms", ms...)
	})
}

func startInProcess(b *testing.B) float64 {
	dir := scratch(b)
	begin := time.Now()
	broker, err := newBroker(dir)
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- broker.Serve() }()
	if err := firstRecord(broker.Addrs()[0].String()); err != nil {
		b.Fatal(err)
	}
	ms := time.Since(begin).Seconds() * 1000
	if err := broker.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	if err := <-served; err != nil {
		b.Fatal(err)
	}
	return ms
}

// BenchmarkIdle is the memory of the program when nobody uses it: after its start, and after it has taken and served 128 MiB.
func BenchmarkIdle(b *testing.B) {
	program := buildProgram(b)
	p := startProgram(b, program)
	defer p.stop(b)
	time.Sleep(time.Second) // what is done at the start is over; there is nothing to wait for
	rss := p.memory(b, "Rss") / (1 << 20)
	noteFact(b, "resident memory, idle after the start", "MiB", "<= 30 MiB", rss)
	noteFact(b, "  of it anonymous memory (heap, stacks)", "anon-MiB", "", p.memory(b, "Anonymous")/(1<<20))
	useProgram(b, p.addr)
	time.Sleep(time.Second)
	noteFact(b, "resident memory, idle after 128 MiB in and out", "used-MiB", "", p.memory(b, "Rss")/(1<<20))
}

// useProgram produces 128 MiB and fetches them.
func useProgram(b *testing.B, addr string) {
	mustCreate(b, addr, "bench", 4)
	sh := shape{records: 64, value: 1013, connections: 4, inflight: 5}
	answer := newProduceAnswer("bench")
	streams := sh.streams(b, addr, &answer)
	g := newGenerator(b, streams)
	for streams[0].answered*int32(streams[0].bytes) < 32<<20 {
		g.run(b, 100*time.Millisecond)
	}
	for i := range 4 {
		for offset := int64(0); offset < 32<<10; {
			resp, err := call(addr, fetchRequest("bench", int32(i), offset, 1<<20))
			if err != nil {
				b.Fatal(err)
			}
			p := &resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
				b.Fatalf("code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
			}
			for rest := p.RecordBatches; len(rest) >= 12; {
				size := 12 + int(binary.BigEndian.Uint32(rest[8:]))
				if size > len(rest) {
					break
				}
				offset += int64(sh.records)
				rest = rest[size:]
			}
			if offset >= p.HighWatermark {
				break
			}
		}
	}
}

// BenchmarkBinary is the size of the program as `make build` makes it.
func BenchmarkBinary(b *testing.B) {
	info, err := os.Stat(buildProgram(b))
	if err != nil {
		b.Fatal(err)
	}
	noteFact(b, "size of the program", "MB", "<= 25 MB", float64(info.Size())/1e6)
}

var built struct {
	once sync.Once
	path string
	err  error
}

// buildProgram builds leat as `make build` does; one copy for all benchmarks of the run, in the build cache's care except for the program itself.
func buildProgram(b *testing.B) string {
	b.Helper()
	built.once.Do(func() {
		dir, err := os.MkdirTemp("", "leat-bench-program-")
		if err != nil {
			built.err = err
			return
		}
		built.path = filepath.Join(dir, "leat")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", built.path, "github.com/leatmq/leat/cmd/leat")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		b.Skip(built.err)
	}
	return built.path
}

// removeProgram removes what buildProgram made.
func removeProgram() {
	if built.path != "" {
		os.RemoveAll(filepath.Dir(built.path))
	}
}

// program is a running leat.
type program struct {
	cmd  *exec.Cmd
	addr string
}

var readyLine = regexp.MustCompile(`leat is ready on (\S+)`)

func startProgram(b *testing.B, path string) *program {
	b.Helper()
	p := &program{cmd: exec.Command(path, "serve", "--data-dir", filepath.Join(scratch(b), "data"), "--listen", "127.0.0.1:0", "--log-level", "warn")}
	if err := p.start(); err != nil {
		b.Fatal(err)
	}
	return p
}

// start runs the program and waits until it is ready.
func (p *program) start() error {
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	in := bufio.NewReader(stderr)
	var said strings.Builder
	for {
		line, err := in.ReadString('\n')
		said.WriteString(line)
		if m := readyLine.FindStringSubmatch(line); m != nil {
			p.addr = m[1]
			break
		}
		if err != nil {
			return fmt.Errorf("leat did not start:\n%s", said.String())
		}
	}
	go io.Copy(io.Discard, in)
	return nil
}

func (p *program) stop(b *testing.B) {
	b.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		b.Errorf("leat did not stop cleanly: %v", err)
	}
}

// memory reads a line of /proc/PID/smaps_rollup, in bytes: the counters in status are off by up to some MiB.
func (p *program) memory(b *testing.B, name string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib * 1024
		}
	}
	b.Fatalf("no %s in the process's memory map", name)
	return 0
}
