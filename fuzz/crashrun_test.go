//go:build crash

package fuzz

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatmq/leat/internal/invariant"
)

// The settings of the crash suite, from the environment:
//
//	LEAT_CRASH_STATES    how many states to explore; a sample without it
//	LEAT_SEED            of the first workload; by the clock without it, and printed
//	LEAT_CRASH_STATE     explore one state only: seed:operation:mode:variant
const (
	envStates  = "LEAT_CRASH_STATES"
	envSeed    = "LEAT_SEED"
	envOne     = "LEAT_CRASH_STATE"
	envProcess = "LEAT_CRASH_PROCESS" // set for the processes that do the work: index/count
)

const (
	sampleStates   = 700
	raceStates     = 100
	crashProcesses = 2
	samplesOf      = 3 // workloads that a sample takes its states from, at least
	failuresMax    = 3 // per process: then it stops
)

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// wantStates is how many states this run explores.
func wantStates() int {
	if invariant.Enabled {
		return envInt(envStates, raceStates)
	}
	return envInt(envStates, sampleStates)
}

func startSeed() uint64 {
	if s, err := strconv.ParseUint(os.Getenv(envSeed), 10, 64); err == nil {
		return s
	}
	return uint64(time.Now().UnixNano()) % 1_000_000_000
}

// report is one line of a process: its tally at the end, or a failure.
type report struct {
	Tally   *tally
	Seed    uint64
	State   string
	Failure string
}

// TestCrashPoints explores states in processes of their own, one processor each: on one processor a run is repeatable.
func TestCrashPoints(t *testing.T) {
	if os.Getenv(envProcess) != "" {
		t.Skip("this is one of the processes")
	}
	want, seed, begin := wantStates(), startSeed(), time.Now()
	sum := newTally()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range crashProcesses {
		wg.Go(func() {
			err := runProcess(i, want/crashProcesses, seed, func(r report) {
				mu.Lock()
				defer mu.Unlock()
				if r.Tally != nil {
					sum.add(r.Tally)
					return
				}
				t.Errorf("seed %d: %s\nagain: %s=%s go test -tags crash -count=1 -run TestCrashPoints ./fuzz", r.Seed, r.Failure, envOne, r.State)
			})
			if err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	fmt.Printf("crash points: %v, %s=%d: %s\n", time.Since(begin).Round(time.Second), envSeed, seed, sum)
	if n := sum.cuts(); n < want && os.Getenv(envOne) == "" && !t.Failed() {
		t.Errorf("%d states were explored, %d were planned", n, want)
	}
}

// runProcess runs this test binary again as one of the processes, and passes on what it reports.
func runProcess(i, states int, seed uint64, got func(report)) error {
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashProcess$", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=300", fmt.Sprintf("%s=%d/%d", envProcess, i, crashProcesses), fmt.Sprintf("%s=%d", envStates, states),
		fmt.Sprintf("%s=%d", envSeed, seed))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var other []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			got(r)
		} else {
			other = append(other, lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(other, "\n"))
	}
	return nil
}

// TestCrashProcess is the work of one process.
func TestCrashProcess(t *testing.T) {
	process := os.Getenv(envProcess)
	if process == "" {
		t.Skip("run by TestCrashPoints")
	}
	var index, count int
	if _, err := fmt.Sscanf(process, "%d/%d", &index, &count); err != nil {
		t.Fatal(err)
	}
	x := &explorer{out: json.NewEncoder(os.Stdout), tally: newTally(), want: envInt(envStates, 0)}
	if one := os.Getenv(envOne); one != "" {
		if index == 0 {
			x.one(one)
		}
		return
	}
	for seed := startSeed() + uint64(index); x.tally.cuts() < x.want && x.failures < failuresMax; seed += uint64(count) {
		x.workload(seed)
	}
	_ = x.out.Encode(report{Tally: x.tally})
}

// explorer explores the states of workloads.
type explorer struct {
	out      *json.Encoder
	tally    *tally
	want     int
	failures int
}

// workload explores every state of a workload; of a small sample's workload some.
func (x *explorer) workload(seed uint64) {
	moments := x.record(seed)
	stride := max(1, len(moments)*len(cuts)*2*samplesOf/max(1, x.want))
	phase := int(seed) % stride
	for i, m := range moments {
		if stride > 1 && i%stride != phase {
			continue
		}
		for _, c := range cuts {
			if x.failures >= failuresMax {
				return
			}
			x.explore(&state{m, c})
		}
		moments[i] = nil
	}
}

// record runs the workload, without the garbage collector: it changes who runs when.
func (x *explorer) record(seed uint64) []*moment {
	old := debug.SetGCPercent(-1)
	r, err := recordRun(seed)
	debug.SetGCPercent(old)
	for k, n := range r.kinds {
		x.tally.Ops[k] += n
	}
	for k, n := range r.wl.stats {
		x.tally.Steps[k] += n
	}
	if err != nil {
		x.fail(seed, "", fmt.Errorf("the workload itself, after %d operations: %w", r.ops, err))
	}
	return r.moments
}

func (x *explorer) explore(s *state) {
	x.tally.States[s.cut.mode.String()]++
	if err := s.explore(x.tally); err != nil {
		x.fail(s.seed, fmt.Sprintf("%d:%d:%d:%d", s.seed, s.op, s.cut.mode, s.cut.variant), fmt.Errorf("%v: %w", s, err))
	}
}

func (x *explorer) fail(seed uint64, state string, err error) {
	x.failures++
	_ = x.out.Encode(report{Seed: seed, State: state, Failure: err.Error()})
}

// one explores the state named by LEAT_CRASH_STATE.
func (x *explorer) one(name string) {
	var seed uint64
	var op int
	var c cut
	if _, err := fmt.Sscanf(name, "%d:%d:%d:%d", &seed, &op, &c.mode, &c.variant); err != nil {
		x.fail(seed, name, err)
		return
	}
	for _, m := range x.record(seed) {
		if m.op == op {
			x.explore(&state{m, c})
		}
	}
	_ = x.out.Encode(report{Tally: x.tally})
}

func newTally() *tally {
	return &tally{States: map[string]int{}, Seconds: map[string]int{}, Ops: map[string]int{}, Steps: map[string]int{}}
}

func (t *tally) add(o *tally) {
	t.Starts += o.Starts
	t.Restarts += o.Restarts
	for _, m := range []struct{ to, from map[string]int }{{t.States, o.States}, {t.Seconds, o.Seconds}, {t.Ops, o.Ops}, {t.Steps, o.Steps}} {
		for k, n := range m.from {
			m.to[k] += n
		}
	}
}

// cuts is how many disks were started after a power cut and checked.
func (t *tally) cuts() int { return total(t.States) + total(t.Seconds) }

func total(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func (t *tally) String() string {
	return fmt.Sprintf("%d states, %d starts\n"+
		"  power cut after an operation of a workload: %s\n"+
		"  and again after an operation of the start or what follows it: %s\n"+
		"  clean stops in between: %d\n"+
		"  workloads: %d operations: %s\n"+
		"  steps of the workloads: %s",
		t.cuts(), t.Starts, list(t.States), list(t.Seconds), t.Restarts, total(t.Ops), list(t.Ops), list(t.Steps))
}

func list(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}
