package differential

import (
	"fmt"
	"slices"
	"strings"
)

// A script whose play differs is played once more, on names that nothing has used: what a stall of the machine made
// (a session that expired early, an answer that came late) does not come again, what leat does differently does. Only
// differences of both plays, at the same step and path, fail the script. The others are printed and counted: more than
// onceLimit scripts with such differences fail the run, because then it is a script that depends on time, or a race in a broker.

// onceLimit is how many scripts of a run may have needed the second play.
const onceLimit = 2

// open returns the differences of two transcripts that no row of Accepted covers, and the ids of the rows that covered
// others; strict knows no accepted ones. A script whose preparation fails at the reference is a difference, too: it shows nothing.
func open(script string, want, got []Step, strict bool) (list []Difference, used []string) {
	if n := len(want); n > 0 && want[n-1].Label == "preparation" {
		list = append(list, Difference{script, "preparation", "outcome", want[n-1].Fields[0].value, "a script that works against the reference"})
	}
	for _, d := range Compare(script, want, got) {
		if a, ok := Judge(d); ok && !strict {
			used = append(used, a.ID)
			continue
		}
		list = append(list, d)
	}
	return list, used
}

// settle tells the differences of the second play that the first had at the same step and path, and those that only one
// of them had.
func settle(first, second []Difference) (same, once []Difference) {
	in := func(list []Difference, d Difference) bool {
		return slices.ContainsFunc(list, func(o Difference) bool { return o.Step == d.Step && o.Path == d.Path })
	}
	for _, d := range second {
		if in(first, d) {
			same = append(same, d)
		} else {
			once = append(once, d)
		}
	}
	for _, d := range first {
		if !in(second, d) {
			once = append(once, d)
		}
	}
	return same, once
}

// list prints differences with both sides, at most limit of them.
func list(ds []Difference, limit int) string {
	var b strings.Builder
	for i, d := range ds {
		if i == limit {
			fmt.Fprintf(&b, "\n    ... and %d more", len(ds)-i)
			break
		}
		fmt.Fprintf(&b, "\n    %s: %s\n        kafka %.400s\n        other %.400s", d.Step, d.Path, d.Want, d.Got)
	}
	return b.String()
}

// outcomes is what the scripts of a run came to.
type outcomes struct {
	failed map[string][]Difference // by script: what both plays had
	once   map[string][]Difference // by script: what one play had
	others []string                // tests that failed and are no scripts
}

// tooMany tells whether more scripts needed a second play than a busy machine explains.
func (o *outcomes) tooMany() bool { return len(o.once) > onceLimit }

// summary names in a few lines what went wrong, for the end of the output.
func (o *outcomes) summary() string {
	var b strings.Builder
	for _, name := range o.others {
		fmt.Fprintf(&b, "%s failed\n", name)
	}
	for _, kind := range []struct {
		what string
		of   map[string][]Difference
	}{{"differs", o.failed}, {"differed in one of two plays", o.once}} {
		var ids []string
		for id := range kind.of {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			d := kind.of[id][0]
			fmt.Fprintf(&b, "%s %s in %d places, first %s: %s: kafka %.80s, other %.80s\n", id, kind.what, len(kind.of[id]), d.Step, d.Path, d.Want, d.Got)
		}
	}
	return b.String()
}
