//go:build linux

package bench

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"testing"
)

// plot is two pictures side by side over the same points: throughput, and CPU time per record. Both axes are logarithmic: points stand at equal distances, whatever
// their labels say. The dot is the median, the bar goes from the least to the greatest round.
type plot struct {
	title, xlabel string
	labels        []string
	panels        [2]panel
}

type panel struct {
	name   string
	color  string
	values [][]float64 // by point, by round
}

func newPlot(title, xlabel string) *plot {
	return &plot{title: title, xlabel: xlabel, panels: [2]panel{{name: "MB/s", color: "#1a6faf"}, {name: "broker CPU, µs per record", color: "#b5471b"}}}
}

// add takes what was measured at a point. Nothing is below a millionth: the axes are logarithmic.
func (p *plot) add(label string, throughput, cpu []float64) {
	for _, all := range [][]float64{throughput, cpu} {
		for i := range all {
			all[i] = max(all[i], 1e-6)
		}
	}
	p.labels = append(p.labels, label)
	p.panels[0].values = append(p.panels[0].values, throughput)
	p.panels[1].values = append(p.panels[1].values, cpu)
}

// The picture, in SVG user units.
const (
	plotWidth, plotHeight     = 960.0, 330.0
	panelWidth, panelHeight   = 390.0, 220.0
	panelTop, panelLeft       = 50.0, 65.0
	panelApart                = 475.0
	plotFont, plotGrid, plotT = "font-family=\"sans-serif\"", "#d8d8d8", "#333333"
)

func (p *plot) svg() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" %s font-size="12" fill="%s">`+"\n", plotWidth, plotHeight, plotFont, plotT)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="white"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%g" y="20" font-size="14">%s</text>`+"\n", 15.0, escaped(p.title))
	for i := range p.panels {
		p.panels[i].draw(&b, panelLeft+float64(i)*panelApart, p.labels, p.xlabel)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (p *panel) draw(b *bytes.Buffer, left float64, labels []string, xlabel string) {
	least, most := p.bounds()
	y := func(v float64) float64 {
		return panelTop + panelHeight*(1-(math.Log10(v)-math.Log10(least))/(math.Log10(most)-math.Log10(least)))
	}
	x := func(i int) float64 { return left + panelWidth*(float64(i)+0.5)/float64(len(labels)) }
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text>`+"\n", left, panelTop-10, escaped(p.name))
	for v := least; v <= most*1.001; v *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if v*m > most*1.001 {
				break
			}
			fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", left, y(v*m), left+panelWidth, y(v*m), plotGrid)
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end" font-size="10">%g</text>`+"\n", left-6, y(v*m)+3, math.Round(v*m*1e6)/1e6)
		}
	}
	var line strings.Builder
	for i, v := range p.values {
		m := median(v)
		fmt.Fprintf(&line, "%.1f,%.1f ", x(i), y(m))
		low, high := minMax(v)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-opacity="0.5" stroke-width="2"/>`+"\n", x(i), y(low), x(i), y(high), p.color)
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x(i), y(m), p.color)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" font-size="10">%s</text>`+"\n", x(i), y(m)-8, short(m))
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" font-size="11">%s</text>`+"\n", x(i), panelTop+panelHeight+16, escaped(labels[i]))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.TrimSpace(line.String()), p.color)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", left+panelWidth/2, panelTop+panelHeight+36, escaped(xlabel))
}

// bounds are powers of ten, or 2 or 5 times one, around all values.
func (p *panel) bounds() (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, v := range p.values {
		low, high := minMax(v)
		least, most = min(least, low), max(most, high)
	}
	least = math.Pow(10, math.Floor(math.Log10(least)))
	top := math.Pow(10, math.Floor(math.Log10(most)))
	for _, m := range []float64{2, 5, 10} {
		if top*m >= most*1.1 {
			return least, top * m
		}
	}
	return least, top * 20
}

func minMax(v []float64) (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, x := range v {
		least, most = min(least, x), max(most, x)
	}
	return least, most
}

// short is a value with two or three digits.
func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}

// A plot is well-formed and has everything in it, inside its frame.
func TestPlot(t *testing.T) {
	p := newPlot("a < b & c", "x")
	p.add("1", []float64{0.2, 0.3, 0.25}, []float64{40, 50, 45})
	p.add("10", []float64{990, 1000, 995}, []float64{0.4, 0.5, 0.45})
	d := xml.NewDecoder(bytes.NewReader(p.svg()))
	dots, lines := 0, 0
	for {
		token, err := d.Token()
		if token == nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			break
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch e.Name.Local {
		case "circle":
			dots++
			for _, a := range e.Attr {
				var v float64
				if _, err := fmt.Sscan(a.Value, &v); a.Name.Local == "cy" && (err != nil || v < panelTop || v > panelTop+panelHeight) {
					t.Errorf("a dot at %s", a.Value)
				}
			}
		case "polyline":
			lines++
		}
	}
	if dots != 4 || lines != 2 {
		t.Errorf("%d dots, %d lines", dots, lines)
	}
}
