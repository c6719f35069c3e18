// Package metricstest reads pages of metrics in tests: strictly, so that whatever reads them in the world can.
package metricstest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Page is what a page says.
type Page struct {
	Types  map[string]string  // family -> counter or gauge
	Values map[string]float64 // series, as NAME or NAME{LABEL=VALUE,...} with bare values -> its value
}

// Series returns the series of a family, in order.
func (p *Page) Series(family string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.Values)), func(s string) bool { return s != family && !strings.HasPrefix(s, family+"{") })
}

var (
	helpLine   = regexp.MustCompile(`^# HELP ([a-z][a-z0-9_]*) ([^\\ ][^\\]*)$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-z][a-z0-9_]*) (counter|gauge)$`)
	sampleLine = regexp.MustCompile(`^([a-z][a-z0-9_]*)(?:\{(.+)\})? (\S+)$`)
	label      = regexp.MustCompile(`^([a-z][a-z0-9_]*)="((?:[^"\\]|\\["\\n])*)"(,|$)`)
	unescape   = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
)

// Parse reads a page and returns the first thing that is wrong with it.
func Parse(text string) (*Page, error) {
	p := &parser{page: &Page{Types: map[string]string{}, Values: map[string]float64{}}}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("it is not UTF-8")
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line has no end")
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := p.line(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", n, line, err)
		}
	}
	if p.helped != "" {
		return nil, fmt.Errorf("%s has no type", p.helped)
	}
	return p.page, nil
}

type parser struct {
	page   *Page
	helped string // family that waits for its type
	family string // whose samples come now
	labels string // the names of its first sample
	any    bool   // there was one
}

func (p *parser) line(line string) error {
	if m := helpLine.FindStringSubmatch(line); m != nil && p.helped == "" {
		p.helped = m[1]
		return nil
	}
	if m := typeLine.FindStringSubmatch(line); m != nil && p.helped == m[1] {
		return p.begin(m[1], m[2])
	}
	if p.helped != "" {
		return fmt.Errorf("the type of %s must come here", p.helped)
	}
	m := sampleLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("it is neither help, type nor sample")
	}
	return p.sample(m[1], m[2], m[3])
}

func (p *parser) begin(family, kind string) error {
	if p.page.Types[family] != "" {
		return fmt.Errorf("the family is there twice")
	}
	if (kind == "counter") != strings.HasSuffix(family, "_total") {
		return fmt.Errorf("a counter ends in _total, and nothing else does")
	}
	p.page.Types[family] = kind
	p.helped, p.family, p.any = "", family, false
	return nil
}

func (p *parser) sample(name, labels, value string) error {
	if name != p.family {
		return fmt.Errorf("a sample of %s among those of %q", name, p.family)
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return err
	}
	if p.page.Types[name] == "counter" && !(v >= 0) {
		return fmt.Errorf("a counter below 0")
	}
	names, pairs, err := readLabels(labels)
	if err != nil {
		return err
	}
	if p.any && names != p.labels {
		return fmt.Errorf("labels %s, those before had %s", names, p.labels)
	}
	p.any, p.labels = true, names
	series := name
	if pairs != "" {
		series += "{" + pairs + "}"
	}
	if _, ok := p.page.Values[series]; ok {
		return fmt.Errorf("the series is there twice")
	}
	p.page.Values[series] = v
	return nil
}

func readLabels(s string) (names, pairs string, err error) {
	var ns, ps []string
	for s != "" {
		m := label.FindStringSubmatch(s)
		if m == nil {
			return "", "", fmt.Errorf("%q is no label", s)
		}
		if slices.Contains(ns, m[1]) {
			return "", "", fmt.Errorf("the label %s is there twice", m[1])
		}
		ns, ps = append(ns, m[1]), append(ps, m[1]+"="+unescape.Replace(m[2]))
		if s = s[len(m[0]):]; m[3] == "," && s == "" {
			return "", "", fmt.Errorf("a comma at the end")
		}
	}
	return strings.Join(ns, ","), strings.Join(ps, ","), nil
}
