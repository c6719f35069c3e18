package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/bench/load"
)

// topics lists all topics.
func (c *conn) topics() (names []string) {
	c.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	resp, err := c.ask(req)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		names = append(names, *t.Topic)
	}
	return names
}

func TestBench(t *testing.T) {
	p := serveProcess(t, t.TempDir(), "--listen", "127.0.0.1:0")
	addr := p.addr
	short := []string{"--broker", addr, "--duration", "1m", "--warmup", "0s", "--max-bytes", "64KiB", "--output", "json"}
	for _, args := range [][]string{
		{"produce", "--records", "4", "--size", "100", "--topic-config", "write.caching=true"},
		{"produce", "--acks", "1", "--rate", "50000", "--records", "10", "--partitions", "7", "--connections", "3"},
		{"fetch", "--fill", "1MiB", "--fetch-bytes", "128KiB"},
		{"e2e", "--rate", "5000", "--consumers", "2"},
	} {
		code, out, errs := leat(append(append([]string{"bench"}, args...), short...)...)
		if code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, errs)
		}
		var figures []struct {
			Load          string
			Records       int64
			Bytes         int64
			RecordsPerSec float64 `json:"recordsPerSecond"`
			Latency       map[string]float64
		}
		if err := json.Unmarshal([]byte(out), &figures); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		for _, f := range figures {
			if f.Records == 0 || f.Bytes == 0 || f.RecordsPerSec == 0 || f.Latency["count"] == 0 || f.Latency["p50Ms"] > f.Latency["maxMs"] {
				t.Errorf("%v: %+v", args, f)
			}
		}
		if want := map[string]int{"e2e": 2}[args[0]]; len(figures) != max(want, 1) {
			t.Errorf("%v: %d loads", args, len(figures))
		}
	}
	if left := p.dial().topics(); len(left) != 0 {
		t.Errorf("these topics were left: %v", left)
	}
}

func TestBenchOfAnExistingTopic(t *testing.T) {
	addr := serveProcess(t, t.TempDir(), "--listen", "127.0.0.1:0").addr
	if _, err := load.CreateTopic(t.Context(), addr, "mine", 2, nil); err != nil {
		t.Fatal(err)
	}
	common := []string{"--broker", addr, "--topic", "mine", "--warmup", "0s", "--duration", "1m", "--max-bytes", "100KiB", "--connections", "2"}
	for _, kind := range []string{"produce", "produce", "fetch"} {
		code, out, errs := leat(append([]string{"bench", kind}, common...)...)
		if code != 0 || !strings.Contains(out, "records/s") {
			t.Fatalf("%s: exit code %d: %s%s", kind, code, out, errs)
		}
	}
	if n, err := load.Partitions(t.Context(), addr, "mine"); n != 2 || err != nil {
		t.Errorf("the topic has %d partitions now (%v)", n, err)
	}
}

func TestBenchMistakes(t *testing.T) {
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"bench produce --acks 0", exitUsage, "--acks"},
		{"bench produce --output xml", exitUsage, "--output"},
		{"bench produce --max-bytes much", exitUsage, "--max-bytes"},
		{"bench produce --duration 0s", exitUsage, "--duration"},
		{"bench produce --rate -1", exitUsage, "--rate"},
		{"bench e2e --records 0", exitUsage, "--records"},
		{"bench fetch --fetch-bytes 0", exitUsage, "--fetch-bytes"},
		{"bench fetch --fill -1", exitUsage, "--fill"},
		{"bench e2e topic", exitUsage, "topic"},
		{"bench produce --broker 127.0.0.1:1", exitFailed, "refused"},
	} {
		code, _, errs := leat(strings.Fields(tc.args)...)
		if code != tc.code || !strings.Contains(errs, tc.says) {
			t.Errorf("%s: exit code %d, want %d: %s", tc.args, code, tc.code, errs)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "512": 512, "3KiB": 3 << 10, "2MiB": 2 << 20, "1 GiB": 1 << 30, "5KB": 5000, "1GB": 1e9} {
		if got, err := parseBytes(text); got != want || err != nil {
			t.Errorf("%q is %d, want %d (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5GiB", "1TiB", "99999999999GiB"} {
		if n, err := parseBytes(text); err == nil {
			t.Errorf("%q was taken for %d", text, n)
		}
	}
}
