//go:build linux

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/leatmq/leat/interop/harness"
)

// The rig works with both brokers, whatever LEAT_INTEROP_PEERS says. What it measures in so short a time means nothing.
func TestSmoke(t *testing.T) {
	harness.Need(t, "java", "mvn", "bash")
	o := options{
		names: []string{"idle", "P64", "PR", "F64K", "FC", "tail", "mixed", "OC1", "OC16"}, rounds: 1, warmup: 100 * time.Millisecond, turn: 300 * time.Millisecond,
		maxBytes: 16 << 20, scale: 0.01, dir: t.TempDir(), touch: 1 << 20, log: testLog{t},
	}
	r, err := compare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	var names []string
	for _, w := range r.Workloads {
		names = append(names, w.Name)
		for _, v := range w.Variants {
			if len(v.Samples) != 1 || v.Samples[0].Records == 0 || v.Samples[0].Bytes == 0 || v.Samples[0].Seconds == 0 || v.Samples[0].RSS == 0 {
				t.Errorf("%s, %s: %+v", w.Name, v.Variant, v.Samples)
			}
		}
	}
	if !slices.Equal(names, o.names) {
		t.Errorf("measured %v, want %v", names, o.names)
	}
	t.Log(r.markdown())
}

type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Helper()
	l.t.Logf("%s", b)
	return len(b), nil
}

func TestUnknownWorkload(t *testing.T) {
	if _, _, err := selected([]string{"P64", "P65"}); err == nil {
		t.Error("P65 was accepted")
	}
	standard, special, err := selected(nil)
	if err != nil || len(standard) != 13 || !special["idle"] || !special["start"] {
		t.Error(standard, special, err)
	}
	list, special, err := selected([]string{"idle"})
	if err != nil || len(list) != 0 || !special["idle"] || special["start"] {
		t.Error(list, special, err)
	}
}
