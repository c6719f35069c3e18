package properties

import (
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"a=b", "1:a=b"},
		{"a = b c \r\n! no\n # no\n\n b:c\nc d", "1:a=b c |5:b=c|6:c=d"},
		{"a  =  b", "1:a=b"},
		{"a\t\t b", "1:a=b"},
		{"a", "1:a="},
		{"a=", "1:a="},
		{"a==b", "1:a==b"},
		{"a=b\\\n   c\\\n d\nx=y", "1:a=bcd|4:x=y"},
		{"a=b\\\\\nx=y", `1:a=b\|2:x=y`},
		{`a\=b\:c\ d=e`, "1:a=b:c d=e"},
		{`a=\u00e9\t\n\q`, "1:a=é\t\nq"},
		{`a=C:\\data`, `1:a=C:\data`},
		{"a=b\\", "1:a=b"},
		{"listeners=PLAINTEXT://:9092", "1:listeners=PLAINTEXT://:9092"},
	} {
		list, err := Parse(c.text)
		var got []string
		for _, p := range list {
			got = append(got, fmt.Sprintf("%d:%s=%s", p.Line, p.Name, p.Value))
		}
		if err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("%q: %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"=b", `a=\u12`, `a=\u12xy`, ":x"} {
		if list, err := Parse("\n" + text); err == nil || !strings.HasPrefix(err.Error(), "2: ") {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a=b\\\n c\n!x\nd\\u0041 : e")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Parse(text)
		if err != nil {
			return
		}
		for _, p := range list {
			if p.Name == "" || p.Line < 1 {
				t.Errorf("%+v", p)
			}
		}
		// What was read, written with everything escaped, is read the same.
		var b strings.Builder
		for _, p := range list {
			b.WriteString(escapeAll(p.Name) + "=" + escapeAll(p.Value) + "\n")
		}
		again, err := Parse(b.String())
		if err != nil || len(again) != len(list) {
			t.Fatalf("%d properties, again %d: %v", len(list), len(again), err)
		}
		for i := range list {
			if again[i].Name != list[i].Name || again[i].Value != list[i].Value {
				t.Errorf("%+v, again %+v", list[i], again[i])
			}
		}
	})
}

func escapeAll(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; c {
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\f':
			b.WriteString(`\f`)
		case '\\', '=', ':', ' ', '#', '!':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
