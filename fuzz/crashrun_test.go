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
//	LEAT_SEED            of the first workload; "clock" takes another one each time. It is printed
//	LEAT_CRASH_STATE     explore one state only, as a failure names it; or a seed: everything of one workload
const (
	envStates  = "LEAT_CRASH_STATES"
	envSeed    = "LEAT_SEED"
	envOne     = "LEAT_CRASH_STATE"
	envProcess = "LEAT_CRASH_PROCESS" // set for the processes that do the work: index/count
)

const (
	sampleStates   = 2000
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

// startSeed is the same unless told otherwise: whoever changes something should meet what he has changed.
func startSeed() uint64 {
	text := os.Getenv(envSeed)
	if s, err := strconv.ParseUint(text, 10, 64); err == nil {
		return s
	}
	if text == "clock" {
		return uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	return 1
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
				t.Errorf("seed %d: %s\nagain: %s=%s go test -count=1 -run TestCrashPoints ./fuzz", r.Seed, r.Failure, envOne, r.State)
			})
			if err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	fmt.Printf("crash points: %v, %s=%d: %s\n", time.Since(begin).Round(time.Second), envSeed, seed, sum)
	if os.Getenv(envOne) != "" || t.Failed() {
		return
	}
	if n := sum.cuts(); n < want {
		t.Errorf("%d states were explored, %d were planned", n, want)
	}
	for kind := range faultKinds {
		if sum.Faults[kind.String()] == 0 {
			t.Errorf("no fault of kind %v happened", kind)
		}
	}
}

// runProcess runs this test binary again as one of the processes, and passes on what it reports.
func runProcess(i, states int, seed uint64, got func(report)) error {
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashProcess$", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=300", "GODEBUG=asyncpreemptoff=1", fmt.Sprintf("%s=%d/%d", envProcess, i, crashProcesses), fmt.Sprintf("%s=%d", envStates, states),
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

// TestCrashProcess is the work of one process; it is run by TestCrashPoints, and nothing otherwise.
func TestCrashProcess(t *testing.T) {
	process := os.Getenv(envProcess)
	if process == "" {
		return
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
		x.follower(seed)
	}
	_ = x.out.Encode(report{Tally: x.tally})
}

// explorer explores the states of workloads.
type explorer struct {
	out      *json.Encoder
	tally    *tally
	want     int
	failures int
	nth      [faultKinds]int // operation of the last fault of a kind: every one gets its turn
}

// statesOf is how many states are explored at one moment of a workload: each life after a power cut has a second one.
const statesOf = (len(cuts) + int(faultKinds)) * 2

// stride is which moments are explored: all, or some for a small sample.
func (x *explorer) stride(moments, statesOf int) int {
	return max(1, moments*statesOf*samplesOf/max(1, x.want))
}

// workload explores every state of a workload; of a small sample's workload some.
func (x *explorer) workload(seed uint64) {
	moments := x.record(seed)
	stride := x.stride(len(moments), statesOf)
	for i, m := range moments {
		if i%stride != int(seed)%stride {
			continue
		}
		for _, c := range cuts {
			x.explore(trial{state: &state{m, c}})
		}
		for kind := range faultKinds {
			x.nth[kind] = x.nth[kind]%kind.within() + 1
			x.explore(trial{&state{m, cuts[(x.nth[kind]+int(kind))%len(cuts)]}, &fault{kind: kind, nth: x.nth[kind]}})
		}
		moments[i] = nil
	}
}

// follower explores the states of a truncation workload.
func (x *explorer) follower(seed uint64) {
	moments, err := recordFollower(seed, x.tally.Ops)
	if err != nil {
		x.fail(seed, fmt.Sprintf("%d:truncation", seed), fmt.Errorf("the truncation workload, after %d operations: %w", len(moments), err))
	}
	stride := x.stride(len(moments), len(cuts)*2)
	for i, m := range moments {
		if i%stride != int(seed)%stride {
			continue
		}
		for _, c := range cuts {
			if x.failures >= failuresMax {
				return
			}
			x.tally.Truncation[c.mode.String()]++
			if err := m.explore(seed, c, x.tally); err != nil {
				x.fail(seed, fmt.Sprintf("%d:truncation", seed), fmt.Errorf("truncation workload, %v (variant %d) after operation %d, %v: %w", c.mode, c.variant, m.op, m.what, err))
			}
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
		x.fail(seed, strconv.FormatUint(seed, 10), fmt.Errorf("the workload itself, after %d operations: %w", r.ops, err))
	}
	return r.moments
}

// trial is a state, explored with a fault or without.
type trial struct {
	*state
	fault *fault
}

// name is what LEAT_CRASH_STATE takes: seed, operation, mode and variant of the cut, kind of the fault (-1 for none) and its operation, and a hash of the
// operations before, by which a repetition is known as one.
func (t trial) name() string {
	kind, nth := -1, 0
	if t.fault != nil {
		kind, nth = int(t.fault.kind), t.fault.nth
	}
	return fmt.Sprintf("%d:%d:%d:%d:%d:%d:%x", t.seed, t.op, t.cut.mode, t.cut.variant, kind, nth, t.hash)
}

func (x *explorer) explore(t trial) {
	if x.failures >= failuresMax {
		return
	}
	x.tally.States[t.cut.mode.String()]++
	var err error
	if t.fault == nil {
		err = t.state.explore(x.tally)
	} else {
		err = t.exploreFault(x.tally, t.fault)
	}
	if err != nil {
		x.fail(t.seed, t.name(), fmt.Errorf("%v: %w", t.state, err))
	}
}

func (x *explorer) fail(seed uint64, state string, err error) {
	x.failures++
	_ = x.out.Encode(report{Seed: seed, State: state, Failure: err.Error()})
}

// repeatsMax is how often a workload is run to get the operations of the state asked for once more: on a busy machine the scheduler interferes.
const repeatsMax = 50

// one explores what LEAT_CRASH_STATE names, until it fails: a trial, or all of a workload (only the seed), or of a truncation workload.
func (x *explorer) one(name string) {
	defer func() { _ = x.out.Encode(report{Tally: x.tally}) }()
	x.want = 1 << 30
	if seed, err := strconv.ParseUint(name, 10, 64); err == nil {
		x.workload(seed)
		return
	}
	if seed, err := strconv.ParseUint(strings.TrimSuffix(name, ":truncation"), 10, 64); err == nil {
		x.follower(seed)
		return
	}
	var seed, hash uint64
	var op, kind int
	var c cut
	var f fault
	if n, err := fmt.Sscanf(name, "%d:%d:%d:%d:%d:%d:%x", &seed, &op, &c.mode, &c.variant, &kind, &f.nth, &hash); n < 4 {
		x.fail(seed, name, err)
		return
	}
	t := trial{}
	if f.nth > 0 && kind >= 0 {
		f.kind = faultKind(kind)
		t.fault = &f
	}
	for tries := 0; tries < repeatsMax && x.failures == 0; tries++ {
		for _, m := range x.record(seed) {
			if m.op == op && (hash == 0 || m.hash == hash) {
				t.state = &state{m, c}
				x.explore(t)
			}
		}
	}
}

func newTally() *tally {
	return &tally{States: map[string]int{}, Seconds: map[string]int{}, Truncation: map[string]int{}, Faults: map[string]int{}, Ops: map[string]int{}, Steps: map[string]int{}}
}

func (t *tally) add(o *tally) {
	t.Starts += o.Starts
	t.Restarts += o.Restarts
	t.Missed += o.Missed
	for _, m := range []struct{ to, from map[string]int }{{t.States, o.States}, {t.Seconds, o.Seconds}, {t.Truncation, o.Truncation}, {t.Faults, o.Faults}, {t.Ops, o.Ops}, {t.Steps, o.Steps}} {
		for k, n := range m.from {
			m.to[k] += n
		}
	}
}

// cuts is how many disks were started after a power cut and checked.
func (t *tally) cuts() int { return total(t.States) + total(t.Seconds) + total(t.Truncation) }

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
		"  power cut after an operation of a truncation workload, and again: %s\n"+
		"  single faults in a start or what follows it: %s (of %d planned; the others were for operations that did not come)\n"+
		"  clean stops in between: %d\n"+
		"  workloads: %d operations: %s\n"+
		"  steps of the workloads: %s",
		t.cuts(), t.Starts, list(t.States), list(t.Seconds), list(t.Truncation), list(t.Faults), total(t.Faults)+t.Missed, t.Restarts, total(t.Ops), list(t.Ops), list(t.Steps))
}

func list(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}
