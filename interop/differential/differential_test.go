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
	harness.Main(m)
}

// found collects the differences of all scripts for the report.
var found struct {
	sync.Mutex
	list []Difference
	used map[string]bool // acceptance IDs
}

func TestScripts(t *testing.T) {
	want, got := targets(t)
	var token [3]byte
	rand.Read(token[:])
	run := hex.EncodeToString(token[:])
	t.Cleanup(func() { writeReport(t) })
	for i, sc := range Scripts() {
		t.Run(sc.ID, func(t *testing.T) {
			t.Parallel()
			var w, g []Step
			var wg sync.WaitGroup
			wg.Go(func() { w = Play(sc, want, fmt.Sprintf("%s%03da", run, i)) })
			wg.Go(func() { g = Play(sc, got, fmt.Sprintf("%s%03db", run, i)) })
			wg.Wait()
			if *verbose {
				printTranscript(t, w)
			}
			if n := len(w); n > 0 && w[n-1].Label == "preparation" {
				t.Errorf("the script does not work against %s: %s", want.Name, w[n-1].Fields[0].value)
			}
			judge(t, Compare(sc.ID, w, g))
		})
	}
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

func judge(t *testing.T, ds []Difference) {
	found.Lock()
	defer found.Unlock()
	if found.used == nil {
		found.used = map[string]bool{}
	}
	var open []string
	for _, d := range ds {
		a, ok := Judge(d)
		if ok && !*selfMode {
			found.used[a.ID] = true
			continue
		}
		found.list = append(found.list, d)
		open = append(open, fmt.Sprintf("%s: %s\n    kafka %s\n    other %s", d.Step, d.Path, d.Want, d.Got))
	}
	if n := len(open); n > 40 {
		open = append(open[:40], fmt.Sprintf("... and %d more", n-40))
	}
	if len(open) > 0 {
		t.Errorf("%d differences\n%s", len(ds), strings.Join(open, "\n"))
	}
}

func printTranscript(t *testing.T, steps []Step) {
	for _, s := range steps {
		t.Log(s.Label)
		for _, f := range s.Fields {
			t.Logf("    %s = %s", f.path, f.value)
		}
	}
}

// writeReport writes the open differences grouped by API and script, and tells acceptances that nothing used.
func writeReport(t *testing.T) {
	for _, a := range Accepted {
		if !*selfMode && !found.used[a.ID] {
			t.Logf("accepted difference %s did not occur in this run", a.ID)
		}
	}
	if *report == "" {
		return
	}
	text := differencesMarkdown(found.list)
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
	seen := map[string]bool{}
	for _, sc := range Scripts() {
		if seen[sc.ID] {
			t.Errorf("two scripts %s", sc.ID)
		}
		seen[sc.ID] = true
	}
	if len(seen) < 150 {
		t.Errorf("only %d scripts", len(seen))
	}
	for _, a := range Accepted {
		if a.ID == "" || a.What == "" || a.Reason == "" {
			t.Errorf("an acceptance without ID, What or Reason: %+v", a)
		}
	}
}
