package metrics

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/leatmq/leat/internal/metricstest"
)

func TestText(t *testing.T) {
	var w Writer
	w.Family("leat_a_total", Counter, "Things that were counted: many.")
	w.Int(1<<62, "dir", `/a b/"c"\`+"\n", "x", "\xffä{},=")
	w.Int(0, "dir", "", "x", "")
	w.Family("leat_b", Gauge, "None.")
	w.One("leat_c", Gauge, "One.", -5)
	w.Family("leat_d", Gauge, "Fractions.")
	w.Float(1764522000.125, "group", "g")
	w.Int(1, "group", "h")
	const want = "# HELP leat_a_total Things that were counted: many.\n# TYPE leat_a_total counter\n" +
		"leat_a_total{dir=\"/a b/\\\"c\\\"\\\\\\n\",x=\"\uFFFDä{},=\"} 4611686018427387904\nleat_a_total{dir=\"\",x=\"\"} 0\n" +
		"# HELP leat_b None.\n# TYPE leat_b gauge\n# HELP leat_c One.\n# TYPE leat_c gauge\nleat_c -5\n" +
		"# HELP leat_d Fractions.\n# TYPE leat_d gauge\nleat_d{group=\"g\"} 1.764522000125e+09\nleat_d{group=\"h\"} 1\n"
	if string(w.b) != want {
		t.Errorf("got\n%s\nwant\n%s", w.b, want)
	}
	page, err := metricstest.Parse(string(w.b))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{"leat_a_total{dir=/a b/\"c\"\\\n,x=\uFFFDä{},=}": 1 << 62, "leat_a_total{dir=,x=}": 0, "leat_c": -5, "leat_d{group=g}": 1764522000.125, "leat_d{group=h}": 1}
	if !reflect.DeepEqual(page.Values, values) {
		t.Errorf("it reads as %v", page.Values)
	}
}

func TestProcess(t *testing.T) {
	var w Writer
	Process(&w)
	page, err := metricstest.Parse(string(w.b))
	if err != nil {
		t.Fatal(err)
	}
	if page.Values["process_start_time_seconds"] < 1.7e9 || page.Values["go_goroutines"] < 1 {
		t.Errorf("%v", page.Values)
	}
	if runtime.GOOS == "linux" && (page.Values["process_resident_memory_bytes"] < 1<<20 || page.Values["process_open_fds"] < 3 || page.Values["process_max_fds"] < page.Values["process_open_fds"] ||
		page.Types["process_cpu_seconds_total"] != "counter") {
		t.Errorf("%v", page.Values)
	}
}

func FuzzLabelValue(f *testing.F) {
	for _, s := range []string{"", "g", `\"`, "\n\xff", `a",b="c`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var w Writer
		w.Family("leat_x", Gauge, "X.")
		w.Int(1, "group", s)
		page, err := metricstest.Parse(string(w.b))
		if err != nil || len(page.Values) != 1 {
			t.Errorf("%q: %v, %v", s, page, err)
		}
	})
}
