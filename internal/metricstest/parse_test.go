package metricstest

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	const head = "# HELP a_total Words.\n# TYPE a_total counter\n"
	p, err := Parse(head + "a_total{x=\"1,\\\"\\\\\\n\",y=\"\"} 2\na_total{x=\"2\",y=\"z\"} 1e3\n# HELP b B.\n# TYPE b gauge\nb -1.5\n")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"a_total{x=1,\"\\\n,y=}": 2, "a_total{x=2,y=z}": 1000, "b": -1.5}
	if !reflect.DeepEqual(p.Values, want) || p.Types["b"] != "gauge" || len(p.Series("a_total")) != 2 {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{
		"a_total 1\n", head + "a_total 1", head + "a_total 1\n\n", head + "a_total -1\n", head + "a_total one\n", head + "b 1\n", head + "a_total 1 2\n",
		head + "a_total 1\na_total 2\n", head + "a_total{x=\"1\"} 1\na_total{y=\"1\"} 1\n", head + "a_total{x=\"1\"} 1\na_total{x=\"1\"} 1\n",
		head + "a_total{x=\"1\",} 1\n", head + "a_total{x=\"\\x\"} 1\n", head + "a_total{x=\"1\",x=\"2\"} 1\n", head + "a_total{x=1} 1\n", head + "a_total{} 1\n",
		head + head, "# HELP a A.\n", "# HELP a A.\n# TYPE b gauge\n", "# HELP a A.\n# TYPE a counter\n", "# TYPE a gauge\na 1\n", head + "a_total{x=\"\xff\"} 1\n",
	} {
		if p, err := Parse(bad); err == nil {
			t.Errorf("%q is accepted: %+v", bad, p)
		}
	}
}
