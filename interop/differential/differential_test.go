package differential

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leatmq/leat/interop/harness"
)

var (
	selfMode = flag.Bool("self", false, "compare Kafka with itself: shows that scripts are stable and the normaliser works")
	report   = flag.String("report", "", "write the differences found, accepted and not, to this file as markdown")
	verbose  = flag.Bool("transcript", false, "print the transcripts")
)

// parallel is how many scripts run at once; most of a script's time is waiting for a broker.
const parallel = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		f.Value.Set(parallel)
	}
	harness.Settings = settings
	harness.AtEnd = func() string { return results.summary() }
	harness.Main(m)
}

// settings are those of both brokers: what scripts wait for comes soon.
var settings = []string{
	"group.min.session.timeout.ms=1000", "group.consumer.min.session.timeout.ms=1000", "group.consumer.min.heartbeat.interval.ms=500",
	"group.consumer.assignment.interval.ms=0", "group.max.size=4", "group.consumer.max.size=4",
}

// results collects the differences of all scripts for the report and the summary.
var results struct {
	sync.Mutex
	outcomes
	list  []Difference
	used  map[string]bool // acceptance IDs
	token string          // of this run's names
}

// watch names a test that fails in the summary; a script that fails names itself.
func watch(t *testing.T) {
	t.Cleanup(func() {
		results.Lock()
		defer results.Unlock()
		if t.Failed() && len(results.failed) == 0 {
			results.others = append(results.others, t.Name())
		}
	})
}

func TestScripts(t *testing.T) {
	watch(t)
	want, got := targets(t)
	var token [3]byte
	rand.Read(token[:])
	results.token, results.used = hex.EncodeToString(token[:]), map[string]bool{}
	results.failed, results.once = map[string][]Difference{}, map[string][]Difference{}
	t.Cleanup(func() { writeReport(t) })
	for i, sc := range Scripts() {
		t.Run(sc.ID, func(t *testing.T) {
			t.Parallel()
			judge(t, sc.ID, sc.What(), func(play int) []Difference {
				run := fmt.Sprintf("%s%03d%c", results.token, i, 'a'+2*play)
				return differences(t, sc, want, got, run)
			})
		})
	}
}

// differences plays a script against both and returns what no acceptance covers.
func differences(t *testing.T, sc Script, want, got Target, run string) []Difference {
	var w, g []Step
	var wg sync.WaitGroup
	wg.Go(func() { w = Play(sc, want, run) })
	wg.Go(func() { g = Play(sc, got, run[:len(run)-1]+string(run[len(run)-1]+1)) })
	wg.Wait()
	if *verbose {
		t.Log(sc.What())
		printTranscript(t, w)
	}
	ds, used := open(sc.ID, w, g, *selfMode)
	results.Lock()
	defer results.Unlock()
	for _, id := range used {
		results.used[id] = true
	}
	return ds
}

// judge plays a script, and a second time if it differs.
func judge(t *testing.T, id, asked string, play func(n int) []Difference) {
	first := play(0)
	if len(first) == 0 {
		return
	}
	same, once := settle(first, play(1))
	results.Lock()
	defer results.Unlock()
	if len(once) > 0 {
		t.Logf("%d differences in one of two plays%s", len(once), list(once, 40))
	}
	if len(same) == 0 {
		results.once[id] = once
		return
	}
	results.failed[id] = same
	results.list = append(results.list, same...)
	t.Errorf("%d differences %s%s", len(same), asked, list(same, 40))
}

// targets are the reference and the broker to be compared with it.
func targets(t *testing.T) (want, got Target) {
	other := harness.LeatKind
	if *selfMode {
		other = harness.KafkaKind
	}
	var err error
	if want, err = NewTarget(harness.KafkaKind, harness.Shared(t, harness.KafkaKind).Addr); err != nil {
		t.Fatal(err)
	}
	if got, err = NewTarget(other, harness.Shared(t, other).Addr); err != nil {
		t.Fatal(err)
	}
	return want, got
}

func printTranscript(t *testing.T, steps []Step) {
	for _, s := range steps {
		t.Log(s.Label)
		for _, f := range s.Fields {
			t.Logf("    %s = %s", f.path, f.value)
		}
	}
}

// writeReport fails the run when too many scripts needed a second play, writes the open differences grouped by API and script, and tells acceptances that nothing used.
func writeReport(t *testing.T) {
	if len(results.once) > 0 {
		t.Logf("%d scripts differed in one of two plays", len(results.once))
	}
	if results.tooMany() {
		t.Errorf("that is more than %d", onceLimit)
	}
	for _, a := range Accepted {
		if !*selfMode && !results.used[a.ID] {
			t.Logf("accepted difference %s did not occur in this run", a.ID)
		}
	}
	if *report == "" {
		return
	}
	text := differencesMarkdown(results.list)
	if err := os.WriteFile(*report, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}

// differencesMarkdown groups differences by API and script; equal ones of several steps share a row.
func differencesMarkdown(list []Difference) string {
	slices.SortStableFunc(list, func(a, b Difference) int { return cmp.Compare(a.Script, b.Script) })
	var b strings.Builder
	fmt.Fprintf(&b, "# Differences from Kafka 4.4.0\n\n%d scripts, %d open differences.\n", len(Scripts()), len(list))
	for i := 0; i < len(list); {
		script := list[i].Script
		if api := (Script{ID: script}).API(); i == 0 || api != (Script{ID: list[i-1].Script}).API() {
			fmt.Fprintf(&b, "\n## %s\n", api)
		}
		fmt.Fprintf(&b, "\n### %s\n\n| steps | field | Kafka | leat |\n| --- | --- | --- | --- |\n", script)
		steps := map[Difference][]string{}
		var rows []Difference
		for ; i < len(list) && list[i].Script == script; i++ {
			d := list[i]
			d.Step = ""
			if steps[d] == nil {
				rows = append(rows, d)
			}
			steps[d] = append(steps[d], list[i].Step)
		}
		for _, d := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(summary(steps[d])), cell(d.Path), cell(d.Want), cell(d.Got))
		}
	}
	return b.String()
}

func summary(steps []string) string {
	if len(steps) > 3 {
		return fmt.Sprintf("%s, %s, ... (%d)", steps[0], steps[1], len(steps))
	}
	return strings.Join(steps, ", ")
}

func cell(s string) string { return "`" + strings.ReplaceAll(s, "|", "\\|") + "`" }

// TestScriptTable guards the table itself.
func TestScriptTable(t *testing.T) {
	watch(t)
	seen := map[string]bool{}
	for _, sc := range Scripts() {
		if seen[sc.ID] {
			t.Errorf("two scripts %s", sc.ID)
		}
		seen[sc.ID] = true
	}
	if len(seen) < 600 {
		t.Errorf("only %d scripts", len(seen))
	}
	for _, a := range Accepted {
		if a.ID == "" || a.What == "" || a.Reason == "" {
			t.Errorf("an acceptance without ID, What or Reason: %+v", a)
		}
	}
}
