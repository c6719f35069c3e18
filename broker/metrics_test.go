package broker

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator"
	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/internal/metrics"
	"github.com/leatmq/leat/internal/metricstest"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/protocol"
)

// metered is a broker with metrics and a clock.
type metered struct {
	*node
	wall, steady *atomic.Int64
}

func startMetered(t *testing.T, settings ...string) metered {
	t.Helper()
	m := metered{wall: new(atomic.Int64), steady: new(atomic.Int64)}
	m.wall.Store(nowMs())
	var err error
	settings = append(append([]string{"metrics.listener=127.0.0.1:0"}, quickGroups...), settings...)
	if m.node, err = tryStartWith(t, Options{FS: vfs.NewMem(1), Now: m.wall.Load, Steady: m.steady.Load}, settings...); err != nil {
		t.Fatal(err)
	}
	return m
}

// pass lets time pass, for groups too.
func (m metered) pass(d time.Duration) {
	m.wall.Add(d.Milliseconds())
	m.awake(m.steady, d.Milliseconds())
}

// scrape reads a new page.
func (m metered) scrape() *metricstest.Page {
	m.t.Helper()
	text := m.text()
	page, err := metricstest.Parse(text)
	if err != nil {
		m.t.Fatalf("%v in\n%s", err, text)
	}
	return page
}

func (m metered) text() string {
	m.t.Helper()
	m.pass(2 * time.Second) // the last page is older than it may be
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get("http://" + m.b.MetricsAddr().String() + "/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != metrics.ContentType {
		m.t.Fatalf("%v, %v", resp, err)
	}
	return string(body)
}

// Whatever is on the page is what was done.
func TestMetricsPage(t *testing.T) {
	m := startMetered(t)
	c := m.dial()
	c.create("t", 2)
	for range 3 {
		c.produce("t", 0, plain("value"))
	}
	c.findGroup("g")
	c.joinAlone("g")
	c.beat(beat("k", "m", 0))
	page := m.scrape()
	listener := "{listener=PLAINTEXT://" + m.addr() + "}"
	for series, want := range map[string]float64{
		"leat_connections" + listener:                1,
		"leat_connections_accepted_total" + listener: 1,
		"leat_connections_rejected_total" + listener: 0,
		"leat_request_panics_total" + listener:       0,
		"leat_brokers":                               1,
		"leat_topics":                                2,
		"leat_partitions":                            7,
		"leat_log_dir_online{dir=/data}":             1,
		"leat_log_dir_full{dir=/data}":               0,
		"leat_log_dir_partitions{dir=/data}":         8,
		"leat_log_dir_start_offsets{dir=/data}":      0,
		"leat_groups{type=classic,state=Stable}":     1,
		"leat_groups{type=consumer,state=Stable}":    1,
		"leat_group_partitions{state=active}":        5,
		"leat_group_partitions{state=loading}":       0,
		"leat_group_offsets":                         0,
		"leat_groups_expiring":                       0,
		"leat_group_offsets_expiring":                0,
		"leat_cleaner_failures_total":                0,
	} {
		if got, ok := page.Values[series]; !ok || got != want {
			t.Errorf("%s is %v, %v; want %v", series, got, ok, want)
		}
	}
	for series, least := range map[string]float64{
		"leat_requests_total" + listener: 5, "leat_received_bytes_total" + listener: 100, "leat_sent_bytes_total" + listener: 100,
		"leat_log_dir_end_offsets{dir=/data}": 3, "leat_log_dir_log_bytes{dir=/data}": 200, "leat_metadata_offset": 5, "process_start_time_seconds": 1e9,
	} {
		if got := page.Values[series]; got < least {
			t.Errorf("%s is %v, want at least %v", series, got, least)
		}
	}
}

// A day before an idle group loses its offsets it is on the page; a consumer that comes back takes it off; and so does its end.
func TestMetricsOfExpiringOffsets(t *testing.T) {
	m := startMetered(t, "offsets.retention.minutes=10080", "connections.max.idle.ms=-1")
	c := m.dial()
	c.create("t", 3)
	c.findGroup("g")
	for p := range int32(3) {
		wantCode(t, do[*kmsg.OffsetCommitResponse](c, commitRequest(9, "g", "t", [16]byte{}, p, 5)).Topics[0].Partitions[0].ErrorCode, protocol.None)
	}
	wantCode(t, do[*kmsg.OffsetCommitResponse](c, commitRequest(9, "bad\xffname", "t", [16]byte{}, 0, 5)).Topics[0].Partitions[0].ErrorCode, protocol.None)
	wantCode(t, do[*kmsg.OffsetCommitResponse](c, commitRequest(9, strings.Repeat("long", 100), "t", [16]byte{}, 0, 5)).Topics[0].Partitions[0].ErrorCode, protocol.None)
	at := m.wall.Load() + (7 * 24 * time.Hour).Milliseconds()
	expect := func(when string, groups, offsets, listed float64) {
		t.Helper()
		page := m.scrape()
		if page.Values["leat_groups_expiring"] != groups || page.Values["leat_group_offsets_expiring"] != offsets || page.Values["leat_group_expiring_offsets{group=g}"] != listed ||
			len(page.Series("leat_group_expiring_offsets")) != int(min(listed, 1)) {
			t.Errorf("%s: %v, %v, %v", when, page.Values["leat_groups_expiring"], page.Values["leat_group_offsets_expiring"], page.Series("leat_group_expiring_offsets"))
		}
		if listed > 0 && page.Values["leat_group_expiring_timestamp_seconds{group=g}"] != float64(at)/1000 {
			t.Errorf("%s: at %v, want %v", when, page.Values["leat_group_expiring_timestamp_seconds{group=g}"], float64(at)/1000)
		}
	}
	expect("fresh", 0, 0, 0)
	m.pass(6*24*time.Hour - time.Hour)
	expect("a day and an hour ahead", 0, 0, 0)
	m.pass(2 * time.Hour)
	expect("less than a day ahead", 3, 5, 3)
	wantCode(t, do[*kmsg.OffsetCommitResponse](c, commitRequest(9, "g", "t", [16]byte{}, 1, 6)).Topics[0].Partitions[0].ErrorCode, protocol.None)
	expect("one of them is new", 3, 4, 2)
	m.pass(2 * 24 * time.Hour)
	m.b.groups.tick()
	eventually(t, "the end of the offsets", func() bool { return m.scrape().Values["leat_group_offsets"] == 1 })
}

// A look at the groups waits for its own turn and no longer than it may; a partition that did not come is said to be busy.
func TestMetricsOfBusyGroups(t *testing.T) {
	m := startMetered(t)
	c := m.dial()
	c.create("t", 1)
	c.findGroup("g")
	wantCode(t, do[*kmsg.OffsetCommitResponse](c, commitRequest(9, "g", "t", [16]byte{}, 0, 5)).Topics[0].Partitions[0].ErrorCode, protocol.None)
	release := make(chan struct{})
	stuck := make(chan struct{})
	m.b.groups.runtime.Do(m.b.groups.partitionOf("g"), coordinator.Input[*group.Shard]{
		Run: func(*group.Shard, int64, *machine.Out) { close(stuck); <-release }, Refuse: func(err error) { t.Error(err) },
	})
	<-stuck
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	states, sum := m.b.groups.look(ctx)
	if states["busy"] < 1 || sum.Offsets != 0 {
		t.Errorf("%v, %+v", states, sum)
	}
	close(release)
	if states, sum = m.b.groups.look(t.Context()); states["active"] != 5 || sum.Offsets != 1 {
		t.Errorf("afterwards: %v, %+v", states, sum)
	}
}

// Nobody asked for metrics: there are none. And an address that is taken is said, before a file is touched.
func TestMetricsListener(t *testing.T) {
	if n := start(t); n.b.MetricsAddr() != nil {
		t.Errorf("unasked, they are at %v", n.b.MetricsAddr())
	}
	m := startMetered(t)
	disk := vfs.NewMem(9)
	_, err := tryStart(t, disk, "metrics.listener="+m.b.MetricsAddr().String())
	if err == nil || !strings.Contains(err.Error(), "another process has the port") || !strings.Contains(err.Error(), "metrics.listener") {
		t.Errorf("a port in use: %v", err)
	}
	if list, err := disk.ReadDir("/"); err == nil && len(list) > 0 {
		t.Errorf("files: %+v", list)
	}
	if _, err := tryStart(t, disk, "metrics.listener=nonsense"); err == nil || !strings.Contains(err.Error(), "metrics.listener") {
		t.Errorf("nonsense: %v", err)
	}
}

// The page of many groups has an end.
func TestMetricsAreBounded(t *testing.T) {
	sum := &group.Summary{Groups: map[group.Class]int{}}
	for shard := range 3 {
		one := &group.Summary{Groups: map[group.Class]int{{Type: "classic", State: "Empty"}: group.ExpiringMax}, ExpiringGroups: group.ExpiringMax}
		for n := range group.ExpiringMax {
			one.Expiring = append(one.Expiring, group.Expiring{ID: fmt.Sprintf("g%d-%d", shard, n), Offsets: 1, AtMs: int64(3*n + shard)})
		}
		sum.Add(one)
	}
	sum.Finish()
	if len(sum.Expiring) != group.ExpiringMax || sum.ExpiringGroups != 3*group.ExpiringMax || sum.Groups[group.Class{Type: "classic", State: "Empty"}] != 3*group.ExpiringMax {
		t.Fatalf("%d of %d", len(sum.Expiring), sum.ExpiringGroups)
	}
	for _, e := range sum.Expiring {
		if e.AtMs >= group.ExpiringMax {
			t.Fatalf("%+v is listed, though others are earlier", e)
		}
	}
}

var updateDocument = flag.Bool("update", false, "write the table of metrics into docs/METRICS.md")

// docs/METRICS.md has a row for each family on the page, and no other.
func TestMetricsDocument(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the page is complete on Linux only")
	}
	page := startMetered(t).text()
	const file, begin, end = "../docs/METRICS.md", "-update) -->\n", "<!-- metrics: end -->"
	table := "\n| metric | type | what it is |\n| --- | --- | --- |\n"
	rows := regexp.MustCompile(`(?m)^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n(?:\w+\{(.*)\} )?`).FindAllStringSubmatch(page, -1)
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
	labels := map[string]string{"leat_groups": "type,state", "leat_group_expiring_offsets": "group", "leat_group_expiring_timestamp_seconds": "group"} // without samples here
	for _, m := range rows {
		names := labels[m[1]]
		if m[4] != "" {
			names = m[4][:strings.IndexByte(m[4], '=')]
		}
		if names != "" {
			names = "{" + names + "}"
		}
		table += fmt.Sprintf("| `%s%s` | %s | %s |\n", m[1], names, m[3], m[2])
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	document := string(b)
	from := strings.Index(document, begin) + len(begin)
	to := strings.Index(document, end)
	if from < len(begin) || to < from {
		t.Fatal("the marks are gone")
	}
	if want := document[:from] + table + "\n" + document[to:]; want != document {
		if !*updateDocument {
			t.Fatalf("%s does not show the metrics as they are; run go test ./broker -run TestMetricsDocument -update", file)
		}
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
