//go:build linux

package bench

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	restartMiB        = flag.Int("restart-mib", 2048, "data of the restart benchmark, in MiB")
	restartPartitions = flag.Int("restart-partitions", 1000, "partitions of the restart benchmark")
	manyPartitions    = flag.Int("partitions", 10_000, "partitions of the benchmark of many partitions")
	manyActive        = flag.Int("partitions-active", 1000, "of them written to")
)

// BenchmarkRestart is how long leat takes from its start to the first acknowledged record, and how much it reads until then: after kill -9 under load, and
// after a clean stop.
func BenchmarkRestart(b *testing.B) {
	program := buildProgram(b)
	dir := filepath.Join(scratch(b), "data")
	p := startProgramOn(b, program, dir)
	for at := 0; at < *restartPartitions; at += 1000 {
		mustCreate(b, p.addr, fmt.Sprintf("bench-%d", at/1000), int32(min(1000, *restartPartitions-at)))
	}
	w := newWriters(b, p.addr, *restartPartitions, 64<<10)
	begin := time.Now()
	w.write(b, int64(*restartMiB)<<20)
	rate := float64(w.bytes) / (1 << 20) / time.Since(begin).Seconds()
	noteFact(b, fmt.Sprintf("load before the kill, %d partitions", *restartPartitions), "MiB/s", "", rate)
	killUnderLoad(b, p, w)
	p, ms := restartOn(b, program, dir)
	noteFact(b, fmt.Sprintf("kill -9 under load with %d MiB: start to first acknowledged record", *restartMiB), "kill-ms", "<= 1000 ms", ms)
	read := p.io(b, "rchar")
	noteFact(b, "  bytes read until then, per partition", "KiB/partition", "<= 64 KiB beyond the unflushed tail", read/1024/float64(*restartPartitions))
	p.stop(b)
	p, ms = restartOn(b, program, dir)
	noteFact(b, "clean stop: start to first acknowledged record", "clean-ms", "<= 500 ms", ms)
	noteFact(b, "  bytes read until then, per partition", "clean-KiB/partition", "", p.io(b, "rchar")/1024/float64(*restartPartitions))
	p.stop(b)
}

// BenchmarkPartitions is what many partitions cost: making them, files, mappings, memory, disk, and the time of a start.
func BenchmarkPartitions(b *testing.B) {
	program := buildProgram(b)
	dir := filepath.Join(scratch(b), "data")
	p := startProgramOn(b, program, dir)
	rss := p.memory(b, "Anonymous")
	var ms []float64
	for at := 0; at < *manyPartitions; at += 1000 {
		begin := time.Now()
		mustCreate(b, p.addr, fmt.Sprintf("bench-%d", at/1000), int32(min(1000, *manyPartitions-at)))
		ms = append(ms, time.Since(begin).Seconds()*1000)
	}
	n := float64(*manyPartitions)
	noteFact(b, "creating 1,000 partitions", "create-ms", "<= 1000 ms", ms...)
	noteFact(b, fmt.Sprintf("%d idle partitions: anonymous memory, each", *manyPartitions), "KiB", "<= 4 KiB", (p.memory(b, "Anonymous")-rss)/1024/n)
	noteFact(b, "  open descriptors", "fds", "", p.count(b, "fd"))
	noteFact(b, "  mappings", "maps", "", p.count(b, "maps"))
	noteFact(b, "  disk, each", "disk-KiB", "<= 64 KiB", diskUse(b, dir)/1024/n)
	w := newWriters(b, p.addr, *manyActive, 4<<10)
	w.write(b, int64(*manyActive)*4<<10)
	noteFact(b, fmt.Sprintf("%d of them active: open descriptors", *manyActive), "active-fds", "", p.count(b, "fd"))
	noteFact(b, "  mappings", "active-maps", "", p.count(b, "maps"))
	noteFact(b, "  anonymous memory", "MiB", "", p.memory(b, "Anonymous")/(1<<20))
	killUnderLoad(b, p, w)
	p, t := restartOn(b, program, dir)
	noteFact(b, fmt.Sprintf("%d partitions, %d active, kill -9: start to first acknowledged record", *manyPartitions, *manyActive), "kill-ms", "<= 1000 ms", t)
	noteFact(b, "  bytes read until then, per partition", "KiB/partition", "", p.io(b, "rchar")/1024/n)
	noteFact(b, "  open descriptors", "restart-fds", "", p.count(b, "fd"))
	noteFact(b, "  mappings", "restart-maps", "", p.count(b, "maps"))
	noteFact(b, "  anonymous memory", "restart-MiB", "", p.memory(b, "Anonymous")/(1<<20))
	begin := time.Now()
	p.stop(b)
	noteFact(b, "  clean stop", "stop-ms", "", time.Since(begin).Seconds()*1000)
	p, t = restartOn(b, program, dir)
	noteFact(b, "  clean stop: start to first acknowledged record", "clean-ms", "<= 1000 ms", t)
	noteFact(b, "  bytes read until then, per partition", "clean-KiB/partition", "", p.io(b, "rchar")/1024/n)
	noteFact(b, "  anonymous memory", "clean-MiB", "", p.memory(b, "Anonymous")/(1<<20))
	p.stop(b)
}

// writers write to all partitions in turn, over a few connections.
type writers struct {
	gen   *generator
	bytes int64
	n     int
}

const writerConnections = 8

// newWriters makes writers to the first partitions of bench-0, bench-1, ..., in batches of about size bytes.
func newWriters(b *testing.B, addr string, partitions, size int) *writers {
	w := &writers{n: partitions}
	batch := newBatch(max(1, size/1024), 1013)
	var streams []*stream
	for c := range min(writerConnections, partitions) {
		s := &stream{fd: dialRaw(b, addr), inflight: 16, records: 1, bytes: len(batch)}
		next := c
		s.prepare = func(s *stream, _ int32) {
			s.frame, s.corrAt = frameOf(produceRequest(fmt.Sprintf("bench-%d", next/1000), int32(next%1000), batch))
			if next += writerConnections; next >= w.n {
				next = c
			}
		}
		s.check = func(_ *stream, _ int32, head []byte, size int) error {
			resp, err := parse(produceRequest("", 0, nil), head[4:size])
			if err != nil {
				return err
			}
			if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
				return fmt.Errorf("error code %d", code)
			}
			return nil
		}
		streams = append(streams, s)
	}
	w.gen = newGenerator(b, streams)
	return w
}

// write writes about n bytes.
func (w *writers) write(b *testing.B, n int64) {
	for end := w.bytes + n; w.bytes < end; {
		s := w.gen.run(b, 100*time.Millisecond)
		w.bytes += s.bytes
	}
}

// killUnderLoad kills the program while requests are on their way, two seconds into a load.
func killUnderLoad(b *testing.B, p *program, w *writers) {
	begin := time.Now()
	for time.Since(begin) < 2*time.Second {
		w.gen.run(b, 100*time.Millisecond)
	}
	for _, s := range w.gen.streams {
		for range s.inflight {
			if err := s.send(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := p.cmd.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	_ = p.cmd.Wait() // killed
}

// restartOn starts the program on its data and waits for the first acknowledged record.
func restartOn(b *testing.B, path, dir string) (*program, float64) {
	begin := time.Now()
	p := startProgramOn(b, path, dir)
	resp, err := call(p.addr, produceRequest("bench-0", 0, newBatch(1, 100)))
	if err != nil {
		b.Fatal(err)
	}
	if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		b.Fatalf("the first record: code %d", code)
	}
	return p, time.Since(begin).Seconds() * 1000
}

// startProgramOn starts leat on a data directory.
func startProgramOn(b *testing.B, path, dir string) *program {
	b.Helper()
	args := []string{"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--log-level", "error"}
	if *settings != "" {
		for s := range strings.SplitSeq(*settings, ",") {
			args = append(args, "--set", s)
		}
	}
	p := &program{cmd: exec.Command(path, args...)}
	if err := p.start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.cmd.Process.Kill() }) // after a failure; normally it has ended
	return p
}

// io reads a line of /proc/PID/io.
func (p *program) io(b *testing.B, name string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("no %s in the process's io", name)
	return 0
}

// count counts the entries of /proc/PID/fd or the lines of /proc/PID/maps.
func (p *program) count(b *testing.B, name string) float64 {
	b.Helper()
	path := fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name)
	if name == "fd" {
		list, err := os.ReadDir(path)
		if err != nil {
			b.Fatal(err)
		}
		return float64(len(list))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return float64(strings.Count(string(text), "\n"))
}

// diskUse is the space a directory takes.
func diskUse(b *testing.B, dir string) float64 {
	b.Helper()
	var blocks int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) { // a temporary file
			return nil
		}
		if err == nil {
			blocks += info.Sys().(*syscall.Stat_t).Blocks
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return float64(blocks * 512)
}
