package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leatmq/leat/client/admin"
)

// brokerJSON is a broker in the output.
type brokerJSON struct {
	ID   int32  `json:"id"`
	Addr string `json:"address"`
}

func brokerOf(b admin.Broker) brokerJSON { return brokerJSON{b.ID, b.Addr} }

// newTable aligns cells; print a row with row.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// row prints cells; one that is empty is a dash.
func row(t *tabwriter.Writer, cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t, "\t")
		}
		fmt.Fprint(t, cmp.Or(printable(fmt.Sprint(c)), "-"))
	}
	fmt.Fprintln(t)
}

// printable keeps what clients choose from moving the cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// number is a cell of a number that may not be known.
func number[N int32 | int64](n *N) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// timeOf is a time in milliseconds for people and programs.
func timeOf(ms int64) string { return time.UnixMilli(ms).UTC().Format(timeLayout) }

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// counted is a number of things, in words.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// bytesOf is a cell of a size that may not be known.
func bytesOf(n *int64) string {
	if n == nil {
		return ""
	}
	size, unit := float64(*n), 0
	for size >= 1024 && unit < len(byteUnits)-1 {
		size /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", *n)
	}
	return fmt.Sprintf("%.1f %s", size, byteUnits[unit])
}

var byteUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
