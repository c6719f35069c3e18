package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseProperties(t *testing.T) {
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
		list, err := parseProperties(c.text)
		var got []string
		for _, p := range list {
			got = append(got, fmt.Sprintf("%d:%s=%s", p.line, p.name, p.value))
		}
		if err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("%q: %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"=b", `a=\u12`, `a=\u12xy`, ":x"} {
		if list, err := parseProperties("\n" + text); err == nil || !strings.HasPrefix(err.Error(), "2: ") {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	}
}

// Kafka's own server.properties (4.x, combined mode) loads: what means nothing here becomes a warning.
func TestLoadKafkaFile(t *testing.T) {
	s := NewSet()
	if err := s.LoadFile("testdata/server.properties"); err != nil {
		t.Fatal(err)
	}
	b, err := s.Broker()
	if err != nil {
		t.Fatal(err)
	}
	if b.NodeID != 7 || fmt.Sprint(b.Listeners) != "[PLAINTEXT://:9092]" || fmt.Sprint(b.AdvertisedListeners) != "[PLAINTEXT://broker7.example.com:9092]" ||
		fmt.Sprint(b.LogDirs) != "[/var/lib/kafka/a /var/lib/kafka/b]" || b.NumPartitions != 3 || b.TopicDefaults.RetentionMs != 72*3600_000 {
		t.Errorf("%+v", b)
	}
	warnings := strings.Join(s.Warnings(), "\n")
	for _, name := range []string{"process.roles", "num.network.threads", "zookeeper.connect", "listener.name.internal.ssl.keystore.location", "group.initial.rebalance.delay.ms"} {
		if !strings.Contains(warnings, name+" is a key of Kafka without an effect in leat: ignored") {
			t.Errorf("no warning about %s in\n%s", name, warnings)
		}
	}
	if strings.Contains(warnings, "node.id") {
		t.Error(warnings)
	}
}

func TestLoadFileErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"node.id=1\n\nnum.partitions=x\n", `:3: num.partitions: "x" is not allowed; expected a whole number from 1 to 2147483647`},
		{"log.dri=/data\n", `:1: unknown broker config key "log.dri"; did you mean log.dirs?`},
		{"\n=x", `:2: "=x" is not name=value`},
	} {
		path := write(t, c.text)
		if err := NewSet().LoadFile(path); err == nil || err.Error() != path+c.want {
			t.Errorf("got %v, want %s%s", err, path, c.want)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if err := NewSet().LoadFile(missing); !os.IsNotExist(err) || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
	if err := NewSet().LoadFile(write(t, strings.Repeat("#", fileBytesMax+1))); err == nil || !strings.Contains(err.Error(), "hardly a configuration file") {
		t.Errorf("%v", err)
	}
	s := NewSet()
	if err := s.LoadFile(write(t, "num.partitions=1\nnum.partitions=2\n")); err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "num.partitions is set in line 1 and again in line 2") {
		t.Errorf("%v", w)
	}
	if b, err := s.Broker(); err != nil || b.NumPartitions != 2 {
		t.Errorf("%+v %v", b, err)
	}
}

func FuzzParseProperties(f *testing.F) {
	f.Add("a=b\\\n c\n!x\nd\\u0041 : e")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseProperties(text)
		if err != nil {
			return
		}
		for _, p := range list {
			if p.name == "" || p.line < 1 {
				t.Errorf("%+v", p)
			}
		}
		// What was read, written with everything escaped, is read the same.
		var b strings.Builder
		for _, p := range list {
			b.WriteString(escapeAll(p.name) + "=" + escapeAll(p.value) + "\n")
		}
		again, err := parseProperties(b.String())
		if err != nil || len(again) != len(list) {
			t.Fatalf("%d properties, again %d: %v", len(list), len(again), err)
		}
		for i := range list {
			if again[i].name != list[i].name || again[i].value != list[i].value {
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
