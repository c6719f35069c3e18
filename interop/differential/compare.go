package differential

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Difference is one field (or whole outcome) in which the two answers to a step are not the same.
type Difference struct {
	Script, Step, Path string
	Want, Got          string // the reference's (Kafka's) value and the other's; "(absent)" where there is none
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: %s: want %s, got %s", d.Script, d.Step, d.Path, d.Want, d.Got)
}

// Compare lists the differences of two transcripts of a script.
func Compare(script string, want, got []Step) []Difference {
	var out []Difference
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return append(out, Difference{script, want[i].Label, "outcome", "a step", "(absent)"})
		case i >= len(want):
			return append(out, Difference{script, got[i].Label, "outcome", "(absent)", "a step: " + got[i].Fields[0].value})
		case want[i].Label != got[i].Label:
			return append(out, Difference{script, want[i].Label, "outcome", "this step", got[i].Label + ": " + got[i].Fields[0].value})
		}
		out = append(out, compareStep(script, want[i], got[i])...)
	}
	return out
}

func compareStep(script string, want, got Step) []Difference {
	w, g := index(want.Fields), index(got.Fields)
	if w["outcome"] != g["outcome"] { // answered against not answered: one difference, not one per field
		return []Difference{{script, want.Label, "outcome", outcome(w), outcome(g)}}
	}
	var out []Difference
	missing := map[string]bool{} // array elements already told
	for _, f := range want.Fields {
		if v, ok := g[f.path]; !ok {
			if e := missingElement(f.path, got.Fields); !missing[e] && !arrayGone(e, g) {
				missing[e] = true
				out = append(out, Difference{script, want.Label, e, presence(e, f), "(absent)"})
			}
		} else if v != f.value {
			out = append(out, Difference{script, want.Label, f.path, f.value, v})
		}
	}
	for _, f := range got.Fields {
		if _, ok := w[f.path]; ok {
			continue
		}
		if e := missingElement(f.path, want.Fields); !missing[e] && !arrayGone(e, w) {
			missing[e] = true
			out = append(out, Difference{script, want.Label, e, "(absent)", presence(e, f)})
		}
	}
	return out
}

// missingElement shortens the path of an absent field to the array element around it that is absent as a whole.
func missingElement(path string, other fields) string {
	for i, c := range path {
		if c == ']' && !slices.ContainsFunc(other, func(f field) bool { return strings.HasPrefix(f.path, path[:i+1]) }) {
			return path[:i+1]
		}
	}
	return path
}

// arrayGone tells whether the array of an element is empty or null on the other side: its length tells the difference.
func arrayGone(element string, other map[string]string) bool {
	i := strings.LastIndexByte(element, '[')
	if !strings.HasSuffix(element, "]") || i < 0 {
		return false
	}
	return other[element[:i]+".len"] == "0" || other[element[:i]] == "null"
}

// presence is what stands for an element, or the field itself, on the side that has it.
func presence(element string, f field) string {
	if element == f.path {
		return f.value
	}
	return "(present)"
}

func index(f fields) map[string]string {
	m := make(map[string]string, len(f))
	for _, x := range f {
		m[x.path] = x.value
	}
	return m
}

// outcome names what came back: the recorded outcome, or an answer with its error codes.
func outcome(m map[string]string) string {
	if o := m["outcome"]; o != "" {
		return o
	}
	var codes []string
	for path, v := range m {
		if strings.HasSuffix(path, "ErrorCode") && v != "NONE" {
			codes = append(codes, v)
		}
	}
	if len(codes) == 0 {
		return "an answer without error"
	}
	return "an answer with " + codes[0]
}

// Acceptance is a set of differences that leat has on purpose, with the reason. Empty patterns match everything; the
// others are regular expressions over the whole text.
type Acceptance struct {
	ID     string // D-n, as in docs/COMPATIBILITY.md
	What   string // what differs, for the reader of the document
	Reason string

	Script, Step, Path, Want, Got string
}

// Covers tells whether the difference is one of this set.
func (a Acceptance) Covers(d Difference) bool {
	return matches(a.Script, d.Script) && matches(a.Step, d.Step) && matches(a.Path, d.Path) && matches(a.Want, d.Want) && matches(a.Got, d.Got)
}

func matches(pattern, text string) bool {
	return pattern == "" || regexp.MustCompile("(?s)^(?:"+pattern+")$").MatchString(text)
}

// Judge returns the acceptance that covers a difference.
func Judge(d Difference) (Acceptance, bool) {
	for _, a := range Accepted {
		if a.Covers(d) {
			return a, true
		}
	}
	return Acceptance{}, false
}

// AcceptedMarkdown renders the table of accepted differences.
func AcceptedMarkdown() string {
	var b strings.Builder
	b.WriteString("| id | difference from Kafka 4.4.0 | reason |\n| --- | --- | --- |\n")
	seen := map[string]bool{}
	for _, a := range Accepted {
		if !seen[a.ID] {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", a.ID, a.What, a.Reason)
		}
		seen[a.ID] = true
	}
	return b.String()
}
