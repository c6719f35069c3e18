//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// stageRules say which stage a stack belongs to: the first rule that matches, for the frame nearest to the leaf that any rule matches. A frame matches a rule when
// its function's name contains one of the texts.
var stageRules = []struct {
	stage string
	texts []string
}{
	{"sync", []string{"vfs.(*osFile).Sync", "vfs.(*osFile).StartWriteback", "unix.Fdatasync", "unix.Syncfs"}},
	{"append", []string{"vfs.(*osFile).WritevAt", "vfs.(*osFile).Allocate", "segment.(*Segment).Append", "engine.(*worker).write"}},
	{"index", []string{"leat/index.", "segment.(*headers)", "segment.(*Segment).PositionOf"}},
	{"validate", []string{"leat/record.", "hash/crc32.", "engine.(*worker).place"}},
	{"send", []string{"netio.(*epollConn).flush", "netio.(*epollConn).send", "netio.(*sender)", "unix.Sendfile", "bench.(*bareProducer).reply"}},
	{"receive", []string{"netio.(*epollConn).readSome", "netio.(*framer)", "bench.receive"}},
	{"wake-up", []string{"netio.(*loop).wake", "netio.(*loop).post"}},
	{"decode", []string{"leat/protocol.", "franz-go/pkg/kmsg."}},
	{"handle", []string{"leat/broker.", "leat/replication.", "engine.(*Log)", "engine.(*flusher)", "engine.(*worker)", "leat/netio.", "bench.(*bareProducer)", "bench.serveRanges"}},
	{"poll", []string{"netpoll.(*Poller)", "unix.EpollWait"}},
}

const (
	stageRuntime = "runtime" // scheduler, collector, timers, and what no rule knows
	stageAll     = "all"
)

var stageOrder = []string{"receive", "decode", "validate", "append", "index", "sync", "handle", "wake-up", "send", "poll", stageRuntime}

// stageOf is the stage of a stack, leaf first.
func stageOf(stack []string) string {
	for _, f := range stack {
		for i := range stageRules {
			for _, text := range stageRules[i].texts {
				if strings.Contains(f, text) {
					return stageRules[i].stage
				}
			}
		}
	}
	return stageRuntime
}

// readStages adds up the samples of what `go tool pprof -traces` prints, by stage.
func readStages(traces []byte) (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	var value time.Duration
	var stack []string
	add := func() {
		if len(stack) > 0 {
			all[stageOf(stack)] += value
		}
		value, stack = 0, nil
	}
	begun := false
	for in := bufio.NewScanner(bytes.NewReader(traces)); in.Scan(); {
		line := in.Text()
		if strings.HasPrefix(line, "-----------+") {
			add()
			begun = true
			continue
		}
		fields := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), " (inline)"))
		switch {
		case !begun || len(fields) == 0:
		case len(stack) > 0:
			stack = append(stack, fields[0])
		case len(fields) > 1: // one field: a label
			d, err := time.ParseDuration(fields[0])
			if err != nil {
				return nil, fmt.Errorf("%q is no sample: %w", line, err)
			}
			value, stack = d, []string{fields[1]}
		}
	}
	add()
	return all, nil
}

// stages are what a child's CPU time per op went to, in us.
func (c *child) stages(b *testing.B, run func() sample) map[string]float64 {
	b.Helper()
	path := filepath.Join(scratch(b), "stages")
	if answer := c.ask("profile-start " + path); answer != "ok" {
		b.Fatal(answer)
	}
	s := c.measure(run)
	if answer := c.ask("profile-stop " + path); answer != "ok" {
		b.Fatal(answer)
	}
	traces, err := exec.Command("go", "tool", "pprof", "-traces", path+".cpu.pprof").Output()
	if err != nil {
		b.Fatalf("go tool pprof: %v", err)
	}
	times, err := readStages(traces)
	if err != nil {
		b.Fatal(err)
	}
	sum := time.Duration(0)
	for _, d := range times {
		sum += d
	}
	if sum == 0 {
		b.Fatal("the profile has no samples")
	}
	perOp := map[string]float64{}
	for stage, d := range times {
		perOp[stage] = float64(d) / float64(sum) * s.cpuPerOp()
	}
	return perOp
}

// stageTable is printed at the end, a block for each workload.
var stageTable strings.Builder

// BenchmarkStages tells where the broker's CPU time of an op goes, beside a server that does nothing but the system calls, over the same load. Profiles are statistical:
// with -round 5s a stage of one per cent has five samples.
func BenchmarkStages(b *testing.B) {
	for _, sh := range shapes {
		if sh.name == "P64" || sh.name == "P1" || sh.name == "E16" {
			b.Run(sh.name, func(b *testing.B) { sh.benchStages(b) })
		}
	}
	b.Run("F1M", benchFetchStages)
}

func (sh shape) benchStages(b *testing.B) {
	touchMemory(b)
	broker := startChild(b, brokerSpec(scratch(b)))
	mustCreate(b, broker.addr, "bench", int32(sh.connections))
	answer := newProduceAnswer("bench")
	bare := startChild(b, childSpec{Role: "bare-produce", Dir: scratch(b), Answer: answer.size})
	crc := crcPerBatch(newBatch(sh.records, sh.value))
	noteStages(b, sh.name, broker, bare, newGenerator(b, sh.streams(b, broker.addr, &answer)), newGenerator(b, sh.streams(b, bare.addr, nil)), map[string]float64{"validate": crc})
}

// crcPerBatch is the least that validation costs, in us of CPU time: the checksum of what the batch's own covers.
func crcPerBatch(batch []byte) float64 {
	const least = 200 * time.Millisecond
	table := crc32.MakeTable(crc32.Castagnoli)
	begin, n := cpuTime(), 0
	for ; cpuTime()-begin < least; n++ {
		for range 16 {
			crc32.Checksum(batch[21:], table)
		}
	}
	return (cpuTime() - begin).Seconds() * 1e6 / float64(n) / 16
}

func benchFetchStages(b *testing.B) {
	touchMemory(b)
	f := newFetchFixture(b)
	noteStages(b, "F1M", f.broker, f.bare, f.own, f.floor, nil)
}

// noteStages runs both in turns and keeps the medians. more is what the bare server leaves out and has a floor all the same.
func noteStages(b *testing.B, name string, broker, bare *child, own, floor *generator, more map[string]float64) {
	own.run(b, 200*time.Millisecond)
	floor.run(b, 200*time.Millisecond)
	owns, floors := map[string][]float64{}, map[string][]float64{}
	for range max(*roundCount, 1) {
		mine, bares := broker.stages(b, func() sample { return own.run(b, *roundTime) }), bare.stages(b, func() sample { return floor.run(b, *roundTime) })
		for _, stage := range stageOrder {
			owns[stage], floors[stage] = append(owns[stage], mine[stage]), append(floors[stage], bares[stage]+more[stage])
		}
	}
	fmt.Fprintf(&stageTable, "\n| %s | us per request | %% | bare | ratio |\n| --- | --: | --: | --: | --: |\n", name)
	of, least := map[string]float64{}, map[string]float64{}
	for _, stage := range stageOrder {
		of[stage], least[stage] = median(owns[stage]), median(floors[stage])
		of[stageAll] += of[stage]
		least[stageAll] += least[stage]
	}
	for _, stage := range append(slices.Clone(stageOrder), stageAll) {
		o, f := of[stage], least[stage]
		ratio := "-"
		if f > least[stageAll]/100 { // less is noise
			ratio = fmt.Sprintf("%.2f", o/f)
		}
		fmt.Fprintf(&stageTable, "| %s | %.2f | %.0f | %.2f | %s |\n", stage, o, o/of[stageAll]*100, f, ratio)
	}
}

// What pprof prints is read as it is meant: the leaf comes first, the first rule that knows a frame decides.
func TestReadStages(t *testing.T) {
	got, err := readStages([]byte(`File: x
Duration: 1s
-----------+---
      50ms   internal/runtime/syscall/linux.Syscall6
             github.com/leatmq/leat/internal/vfs.(*osFile).WritevAt
             github.com/leatmq/leat/engine.(*worker).loop
-----------+---
       1.5s   hash/crc32.castagnoliSSE42 (inline)
             github.com/leatmq/leat/record.(*Validator).Validate
-----------+---
         key:value
      10ms   runtime.findRunnable
             runtime.mcall
-----------+---
      20ms   github.com/leatmq/leat/netio.(*epollConn).flush
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]time.Duration{"append": 50 * time.Millisecond, "validate": 1500 * time.Millisecond, "runtime": 10 * time.Millisecond, "send": 20 * time.Millisecond}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
