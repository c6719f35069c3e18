package differential

import (
	"strings"
	"testing"
)

func TestSettle(t *testing.T) {
	d := func(step, path, got string) Difference { return Difference{"A/b", step, path, "x", got} }
	for _, c := range []struct {
		name          string
		first, second []Difference
		same, once    int
	}{
		{"nothing the second time", []Difference{d("one", "p", "y")}, nil, 0, 1},
		{"the same again", []Difference{d("one", "p", "y")}, []Difference{d("one", "p", "y")}, 1, 0},
		{"the same place, another value", []Difference{d("one", "p", "y")}, []Difference{d("one", "p", "z")}, 1, 0},
		{"another step", []Difference{d("one", "p", "y")}, []Difference{d("two", "p", "y")}, 0, 2},
		{"another path", []Difference{d("one", "p", "y")}, []Difference{d("one", "q", "y")}, 0, 2},
		{"one of two again", []Difference{d("one", "p", "y"), d("one", "q", "y")}, []Difference{d("one", "q", "y")}, 1, 1},
	} {
		if same, once := settle(c.first, c.second); len(same) != c.same || len(once) != c.once {
			t.Errorf("%s: the same %v, once %v", c.name, same, once)
		}
	}
}

func TestOpen(t *testing.T) {
	step := func(label, path, value string) Step { return Step{label, fields{{path, value}}} }
	works := []Step{step("one", "A", "1")}
	if ds, _ := open("A/b", works, works, false); len(ds) != 0 {
		t.Errorf("equal transcripts: %v", ds)
	}
	broken := []Step{step("preparation", "outcome", "failed: no leader")}
	if ds, _ := open("A/b", broken, broken, false); len(ds) != 1 || ds[0].Want != "failed: no leader" {
		t.Errorf("preparations that failed alike: %v", ds)
	}
	ds, used := open("A/b", []Step{step("one", "ErrorMessage", "null")}, []Step{step("one", "ErrorMessage", "$message")}, false)
	if len(ds) != 0 || len(used) != 1 || used[0] != "D-5" {
		t.Errorf("an accepted difference: %v, used %v", ds, used)
	}
}

func TestOutcomes(t *testing.T) {
	ds := []Difference{{"A/b", "one", "p", "x", "y"}}
	o := outcomes{failed: map[string][]Difference{"A/b": ds}, once: map[string][]Difference{"C/d": ds, "C/e": ds}}
	if o.tooMany() {
		t.Error("two scripts that needed a second play are too many")
	}
	o.once["C/f"] = ds
	if !o.tooMany() {
		t.Error("three scripts that needed a second play are not too many")
	}
	lines := strings.Split(strings.TrimSpace(o.summary()), "\n")
	if len(lines) != 4 || lines[0] != "A/b differs in 1 places, first one: p: kafka x, other y" || !strings.HasPrefix(lines[3], "C/f differed in one of two plays") {
		t.Errorf("the summary is\n%s", o.summary())
	}
}
