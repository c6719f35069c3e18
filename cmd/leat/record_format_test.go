package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/leatmq/leat/client"
)

func TestRecordFormats(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 5e6, time.UTC)
	full := &client.Record{Topic: "orders", Partition: 2, Offset: 7, Timestamp: at, Key: []byte("k"), Value: []byte("v\x00\"\\\n"),
		Headers: []client.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: []byte{0xff}}, {Key: "\xfe", Value: []byte{}}}}
	empty := &client.Record{Topic: "orders", Timestamp: at}
	template := func(s string) recordFormat {
		f, err := templateFormat(s)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, tc := range []struct {
		name   string
		format recordFormat
		r      *client.Record
		want   string
	}{
		{"text", textFormat(""), full, "v\x00\"\\\n\n"},
		{"text of null", textFormat(""), empty, "\n"},
		{"text with key", textFormat("::"), full, "k::v\x00\"\\\n\n"},
		{"text with key of null", textFormat(":"), empty, "\n"},
		{"hex", hexFormat(""), full, "7600225c0a\n"},
		{"hex with key", hexFormat(":"), full, "6b:7600225c0a\n"},
		{"hex of null", hexFormat(":"), empty, "-:-\n"},
		{"json", jsonFormat, full, `{"topic":"orders","partition":2,"offset":7,"timestamp":1796040000005,"key":"k","value":"v\u0000\"\\\n","headers":[` +
			`{"key":"a","value":"1"},{"key":"a","value":null},{"key":"b","valueBase64":"/w=="},{"keyBase64":"/g==","value":""}]}` + "\n"},
		{"json of null", jsonFormat, empty, `{"topic":"orders","partition":0,"offset":0,"timestamp":1796040000005,"key":null,"value":null}` + "\n"},
		{"template", template(`%t[%p]@%o %T %d %k=%s (%K,%S) %h 100%%\t\x41\\\n`), full, "orders[2]@7 1796040000005 2026-11-30T12:00:00.005Z k=v\x00\"\\\n (1,5) a=1,a=,b=\xff,\xfe= 100%\tA\\\n"},
		{"template of null", template("%k|%s|%K|%S|%h"), empty, "||-1|-1|"},
		{"empty template", template(""), full, ""},
	} {
		if got := string(tc.format([]byte("before "), tc.r)); got != "before "+tc.want {
			t.Errorf("%s:\n got %q\nwant %q", tc.name, got, "before "+tc.want)
		}
		b := make([]byte, 0, 1024)
		if n := testing.AllocsPerRun(100, func() { b = tc.format(b[:0], tc.r) }); n != 0 {
			t.Errorf("%s: %v allocations", tc.name, n)
		}
	}
}

func TestTemplateMistakes(t *testing.T) {
	for template, says := range map[string]string{
		"%": "write %%", "%q": "%q means nothing", `\`: `write \\`, `\q`: `\q means nothing`, `\x4`: `\x means nothing`, `\xzz`: `\xzz is no byte`,
	} {
		if _, err := templateFormat(template); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", template, err)
		}
		if strings.HasPrefix(template, `\`) {
			if _, err := unescape(template); err == nil {
				t.Errorf("unescape(%q) is fine", template)
			}
		}
	}
	if s, err := unescape(`a\tb\x00`); err != nil || s != "a\tb\x00" {
		t.Errorf("%q, %v", s, err)
	}
}

// What JSON and hex print, their parsers read: any bytes, null and headers.
func FuzzRecordRoundTrip(f *testing.F) {
	f.Add([]byte("k"), []byte("v"), "h", []byte("x"), uint8(0))
	f.Add([]byte{0xff}, []byte("\u0085\u2028\n"), "\xff", []byte{}, uint8(7))
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte, null uint8) {
		r := client.Record{Topic: "t", Timestamp: time.UnixMilli(5), Key: notNull(key), Value: notNull(value), Headers: []client.Header{{Key: name, Value: notNull(header)}}}
		if null&1 != 0 {
			r.Key = nil
		}
		if null&2 != 0 {
			r.Value = nil
		}
		if null&4 != 0 {
			r.Headers[0].Value = nil
		}
		line := jsonFormat(nil, &r)
		if !json.Valid(line) || bytes.Count(line, []byte("\n")) != 1 {
			t.Fatalf("%q", line)
		}
		var got client.Record
		if ok, err := jsonParser(false)(bytes.TrimSuffix(line, []byte("\n")), &got); !ok || err != nil {
			t.Fatal(err)
		}
		got.Topic = "t"
		if !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v became %+v by way of %s", r, got, line)
		}
		got = client.Record{}
		if ok, err := hexParser(":")(bytes.TrimSuffix(hexFormat(":")(nil, &r), []byte("\n")), &got); !ok || err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Key, r.Key) || !reflect.DeepEqual(got.Value, r.Value) {
			t.Fatalf("%+v became %+v by way of hex", r, got)
		}
	})
}

func TestRecordParsers(t *testing.T) {
	record := func(key, value string) client.Record { return client.Record{Key: []byte(key), Value: []byte(value)} }
	onlyValue := client.Record{Value: []byte("a:b\r")}
	for _, tc := range []struct {
		name  string
		parse recordParser
		line  string
		want  client.Record
		says  string // an error
	}{
		{"text", textParser(""), "a:b\r", onlyValue, ""},
		{"empty text", textParser(""), "", client.Record{Value: []byte{}}, ""},
		{"key", textParser(":"), "a:b:c", record("a", "b:c"), ""},
		{"longer separator", textParser("::"), "a:b::c", record("a:b", "c"), ""},
		{"empty key and value", textParser(":"), ":", record("", ""), ""},
		{"no separator", textParser("::"), "a:b\r", onlyValue, ""},
		{"hex", hexParser(""), "613A62\r", client.Record{Value: []byte("a:b")}, ""},
		{"hex with key", hexParser(":"), ":-", client.Record{Key: []byte{}}, ""},
		{"hex of three digits", hexParser(""), "613", client.Record{}, "it is not hexadecimal"},
		{"no hex", hexParser(""), "xx", client.Record{}, "it is not hexadecimal"},
		{"json", jsonParser(false), `{"value":"v", "key":"k", "topic":"x", "offset": 9, "partition": 3}`, record("k", "v"), ""},
		{"json and its partition", jsonParser(true), `{"value":"v","key":"k","partition":3}`, client.Record{Key: []byte("k"), Value: []byte("v"), Partition: 3}, ""},
		{"json objects", jsonParser(false), `{"key":[1,2],"value":{"a": "ü"}}`, record("[1,2]", `{"a": "ü"}`), ""},
		{"json headers", jsonParser(false), `{"headers":{"b":"1","a":null},"timestamp":5}`,
			client.Record{Timestamp: time.UnixMilli(5), Headers: []client.Header{{Key: "b", Value: []byte("1")}, {Key: "a"}}}, ""},
		{"no partition", jsonParser(true), `{"value":"v"}`, client.Record{}, "it has no partition, and --keep-partition is given"},
		{"number", jsonParser(false), `{"value":5}`, client.Record{}, "value is 5; a string, null, an object or an array is expected"},
		{"no object", jsonParser(false), `"value"`, client.Record{}, "it is a JSON string; an object such as"},
		{"typo", jsonParser(false), `{"vlaue":"v"}`, client.Record{}, `"vlaue" is no field of a record; there are key, value,`},
		{"typo in a header", jsonParser(false), `{"headers":[{"name":"v"}]}`, client.Record{}, `"name" is no field`},
		{"wrong type", jsonParser(false), `{"partition":"one"}`, client.Record{}, "partition cannot be a JSON string"},
		{"partition too large", jsonParser(false), `{"partition":5000000000}`, client.Record{}, "partition cannot be a JSON number 5000000000"},
		{"negative time", jsonParser(false), `{"timestamp":-5}`, client.Record{}, "timestamp -5 is before 1970"},
		{"bad Base64", jsonParser(false), `{"valueBase64":"!"}`, client.Record{}, "it is no JSON object: illegal base64"},
		{"twice", jsonParser(false), `{"value":"v","valueBase64":"dg=="}`, client.Record{}, "value is there twice"},
		{"half", jsonParser(false), `{"value":"v"`, client.Record{}, "it is no JSON object: unexpected EOF"},
		{"two", jsonParser(false), `{"value":"v"} {}`, client.Record{}, "there is more behind the object"},
		{"not UTF-8", jsonParser(false), "{\"value\":\"\xff\"}", client.Record{}, "it is not UTF-8"},
	} {
		var got client.Record
		ok, err := tc.parse([]byte(tc.line), &got)
		switch {
		case tc.says != "":
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v", tc.name, err)
			}
		case err != nil || !ok || !reflect.DeepEqual(got, tc.want):
			t.Errorf("%s: %+v, %v, want %+v", tc.name, got, err, tc.want)
		}
	}
	if ok, err := jsonParser(false)([]byte(" \r"), new(client.Record)); ok || err != nil {
		t.Errorf("an empty line of JSON: %v, %v", ok, err)
	}
}

// Lines of any length, whatever the sizes of the reads; the last one with or without its end.
func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 700<<10)
	text := "a\n\n\r\n" + long + "\nb\x00"
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "halves": iotest.HalfReader(strings.NewReader(text)), "data with EOF": iotest.DataErrReader(strings.NewReader(text))} {
		l := newLineReader(r)
		var got []string
		for {
			line, err := l.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(line))
		}
		if want := []string{"a", "", "\r", long, "b\x00"}; !reflect.DeepEqual(got, want) || l.line != 5 || l.read != int64(len(text)) {
			t.Errorf("%s: %d lines, line %d, %d bytes", name, len(got), l.line, l.read)
		}
	}
	l := newLineReader(io.MultiReader(strings.NewReader("a\n"), endless{}))
	_, _ = l.next()
	if _, err := l.next(); err == nil || !strings.Contains(err.Error(), "line 2 has more than 100 MiB") {
		t.Error(err)
	}
	broken := errors.New("broken")
	l = newLineReader(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)))
	if line, err := l.next(); string(line) != "a" || err != nil {
		t.Error(err)
	}
	if _, err := l.next(); !errors.Is(err, broken) {
		t.Errorf("half a line before an error: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// Parsers of text and hex allocate nothing.
func TestRecordParserAllocations(t *testing.T) {
	var r client.Record
	line := []byte("6162:6364")
	buf := bytes.Clone(line)
	for name, parse := range map[string]recordParser{"text": textParser(":"), "hex": hexParser(":")} {
		if n := testing.AllocsPerRun(100, func() { copy(buf, line); _, _ = parse(buf, &r) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestJSONString(t *testing.T) {
	for c := range rune(0x3000) {
		s := "a" + string(c) + "b"
		b := appendJSONString(nil, s)
		var got string
		if err := json.Unmarshal(b, &got); err != nil || got != s || !utf8.Valid(b) {
			t.Fatalf("%U: %q, %v", c, b, err)
		}
	}
}
