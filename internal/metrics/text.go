package metrics

import (
	"strconv"
	"strings"
)

// ContentType is the media type of what a Writer makes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Kind is the type of a family of metrics.
type Kind string

// The kinds: a counter only grows, from 0 at the start of the process.
const (
	Counter Kind = "counter"
	Gauge   Kind = "gauge"
)

// Writer makes a page of metrics. The zero value is an empty page.
type Writer struct {
	b    []byte
	name string // of the family that was begun last
}

// Family begins a family; its samples follow, before the next one begins. Names are made of a-z, 0-9 and _, a counter's ends in _total, and the help is
// one line without backslashes. Every family is begun once on a page, and all its samples have the same label names and different values.
func (w *Writer) Family(name string, kind Kind, help string) {
	w.name = name
	w.b = append(w.b, "# HELP "...)
	w.b = append(w.b, name...)
	w.b = append(w.b, ' ')
	w.b = append(w.b, help...)
	w.b = append(w.b, "\n# TYPE "...)
	w.b = append(w.b, name...)
	w.b = append(w.b, ' ')
	w.b = append(w.b, kind...)
	w.b = append(w.b, '\n')
}

// Int adds a sample to the family. labels are name, value, name, value...
func (w *Writer) Int(v int64, labels ...string) {
	w.series(labels)
	w.b = append(strconv.AppendInt(w.b, v, 10), '\n')
}

// Float does the same with a number that has a fraction.
func (w *Writer) Float(v float64, labels ...string) {
	w.series(labels)
	w.b = append(strconv.AppendFloat(w.b, v, 'g', -1, 64), '\n')
}

// One is a family of one sample.
func (w *Writer) One(name string, kind Kind, help string, v int64) {
	w.Family(name, kind, help)
	w.Int(v)
}

func (w *Writer) series(labels []string) {
	w.b = append(w.b, w.name...)
	for i := 0; i+1 < len(labels); i += 2 {
		w.b = append(w.b, "{,"[min(i, 1)])
		w.b = append(w.b, labels[i]...)
		w.b = append(w.b, '=', '"')
		w.b = append(w.b, labelValue(labels[i+1])...)
		w.b = append(w.b, '"')
	}
	if len(labels) > 1 {
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ' ')
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labelValue escapes a value; what is not UTF-8 in it is replaced, for the format has no way to say it.
func labelValue(s string) string { return escapes.Replace(strings.ToValidUTF8(s, "\uFFFD")) }
