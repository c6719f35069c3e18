package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/bench/load"
	"github.com/leatmq/leat/record"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// recordsBegin is the timestamp of the first record of each partition; the others follow every 10 s.
var recordsBegin = time.Date(2020, 11, 1, 8, 0, 0, 0, time.UTC)

// transcript is what commands said, normalised, beside what they said the last time.
type transcript struct {
	t       *testing.T
	addr    string
	replace map[string]string // what is different each time, and what stands for it
	b       strings.Builder
}

// run runs a command against the broker and writes down what it says.
func (tr *transcript) run(args string) {
	tr.t.Helper()
	tr.feed("", args)
}

// feed is run with something on standard input.
func (tr *transcript) feed(in, args string) {
	tr.t.Helper()
	fields := append(strings.Fields(args), "--bootstrap-server", tr.addr)
	code, out, errs := leatOn(context.Background(), strings.NewReader(in), fields...)
	if in != "" {
		fmt.Fprintf(&tr.b, "$ printf %s | leat %s\n", tr.normalise(strconv.Quote(in)), tr.normalise(args))
	} else {
		fmt.Fprintf(&tr.b, "$ leat %s\n", tr.normalise(args))
	}
	fmt.Fprintf(&tr.b, "%s%s", tr.normalise(out), tr.normalise(errs))
	if code != 0 {
		fmt.Fprintf(&tr.b, "exit code %d\n", code)
	}
	tr.b.WriteString("\n")
	if strings.Contains(args, "--output json") && !strings.Contains(args, "consume") && out != "" && !json.Valid([]byte(out)) {
		tr.t.Errorf("leat %s: no JSON:\n%s%s", args, out, errs)
	}
}

var normalisers = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
	{regexp.MustCompile(`(id |Id": "|Cluster )[A-Za-z0-9_-]{22}`), "${1}ID"},
	{regexp.MustCompile(`("timestamp":)1[7-9]\d{11}`), "${1}TIME"},
	{regexp.MustCompile(`x{1000,}`), "x..."},
	{regexp.MustCompile(`[0-9.]+ [KMGT]iB`), "SPACE"},
	{regexp.MustCompile(`((total|usable)Bytes": )\d+`), "${1}SPACE"},
	{regexp.MustCompile(`\((for|for another) [0-9hms.]+\)`), "($1 SPAN)"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "}, // the width of columns
	{regexp.MustCompile(` +\n`), "\n"},
}

func (tr *transcript) normalise(s string) string {
	s = strings.ReplaceAll(s, tr.addr, "BROKER")
	for find, put := range tr.replace {
		s = strings.ReplaceAll(s, find, put)
	}
	for _, n := range normalisers {
		s = n.find.ReplaceAllString(s, n.put)
	}
	return s
}

// compare ends a transcript.
func (tr *transcript) compare(name string) {
	tr.t.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name)+".txt")
	got := tr.b.String()
	tr.b.Reset()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			tr.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			tr.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tr.t.Fatal(err)
	}
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		tr.t.Errorf("%s: not what is written down (-update writes it):\n%s", file, got)
	}
}

// groupMember is a member of a group, by hand.
type groupMember struct {
	*conn
	group, id  string
	generation int32
	clientID   string
}

func (p *process) member(group, clientID string) *groupMember {
	return &groupMember{conn: p.dial(), group: group, clientID: clientID}
}

// request asks with the client id of the member.
func (m *groupMember) request(req kmsg.Request) kmsg.Response {
	m.t.Helper()
	m.conn.clientID = m.clientID
	resp, err := m.ask(req)
	if err != nil {
		m.t.Fatal(err)
	}
	return resp
}

func (m *groupMember) joinRequest(reason string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType, req.Reason = 9, m.group, m.id, "consumer", &reason
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 60_000, 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Topics = []string{"orders"}
	p.Name, p.Metadata = "range", sub.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	return req
}

// introduce gets a member id.
func (m *groupMember) introduce() {
	m.t.Helper()
	m.id = m.request(m.joinRequest("")).(*kmsg.JoinGroupResponse).MemberID
}

// join begins a join; what is returned waits for its end.
func (m *groupMember) join(reason string) (done func()) {
	m.conn.clientID = m.clientID
	answer := make(chan error, 1)
	go func() {
		resp, err := m.ask(m.joinRequest(reason))
		if err == nil {
			j := resp.(*kmsg.JoinGroupResponse)
			if m.generation = j.Generation; j.ErrorCode != 0 {
				err = fmt.Errorf("join: code %d", j.ErrorCode)
			}
		}
		answer <- err
	}()
	return func() {
		m.t.Helper()
		if err := <-answer; err != nil {
			m.t.Fatal(err)
		}
	}
}

// sync sends the assignments, topic orders, of those who are named.
func (m *groupMember) sync(assign map[string][]int32) {
	m.t.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, m.group, m.id, m.generation
	for id, partitions := range assign {
		a := kmsg.NewConsumerMemberAssignment()
		t := kmsg.NewConsumerMemberAssignmentTopic()
		t.Topic, t.Partitions = "orders", partitions
		a.Topics = append(a.Topics, t)
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: a.AppendTo(nil)})
	}
	if code := m.request(req).(*kmsg.SyncGroupResponse).ErrorCode; code != 0 {
		m.t.Fatalf("sync: code %d", code)
	}
}

func (m *groupMember) commit(offsets map[int32]int64) {
	m.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 8, m.group, m.id, m.generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "orders"
	for p, offset := range offsets {
		r := kmsg.NewOffsetCommitRequestTopicPartition()
		r.Partition, r.Offset = p, offset
		t.Partitions = append(t.Partitions, r)
	}
	req.Topics = append(req.Topics, t)
	for _, p := range m.request(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
		if p.ErrorCode != 0 {
			m.t.Fatalf("commit: code %d", p.ErrorCode)
		}
	}
}

func (m *groupMember) leave(reason string) {
	m.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, m.group
	l := kmsg.NewLeaveGroupRequestMember()
	l.MemberID, l.Reason = m.id, &reason
	req.Members = append(req.Members, l)
	if code := m.request(req).(*kmsg.LeaveGroupResponse).ErrorCode; code != 0 {
		m.t.Fatalf("leave: code %d", code)
	}
}

// ordersBroker serves topic orders with three partitions, of 5 records, 5 in one compressed batch, and none.
func ordersBroker(t *testing.T) *process {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	p := serveProcess(t, t.TempDir(), "--listen", "127.0.0.1:0", "--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=3")
	if _, err := load.CreateTopic(t.Context(), p.addr, "orders", 3, nil); err != nil {
		t.Fatal(err)
	}
	c := p.dial()
	for i := range int64(5) {
		c.put("orders", 0, record.Options{}, recordsBegin.UnixMilli()+i*10_000)
	}
	times := []int64{}
	for i := range int64(5) {
		times = append(times, recordsBegin.UnixMilli()+i*10_000)
	}
	c.put("orders", 1, record.Options{Codec: record.Zstd}, times...)
	t.Cleanup(func() { now = time.Now })
	now = func() time.Time { return recordsBegin.Add(100 * time.Second) }
	p.awaitCoordinator()
	return p
}

// awaitCoordinator waits until groups are served.
func (p *process) awaitCoordinator() {
	p.t.Helper()
	if code, _, errs := leat("group", "list", "--bootstrap-server", p.addr); code != 0 {
		p.t.Fatal(errs)
	}
	if code, _, errs := leat("group", "describe", "nobody", "--bootstrap-server", p.addr); code != exitFailed || !strings.Contains(errs, "does not exist") {
		p.t.Fatalf("exit code %d: %s", code, errs)
	}
}

// deleteRecords deletes what is before an offset.
func (c *conn) deleteRecords(topic string, partition int32, offset int64) {
	c.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version = 2
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: partition, Offset: offset})
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		c.t.Fatal(err)
	}
	if code := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		c.t.Fatalf("delete records: code %d", code)
	}
}

// put produces one batch of records with these timestamps.
func (c *conn) put(topic string, partition int32, o record.Options, timestamps ...int64) {
	c.t.Helper()
	b := record.NewBuilder(o)
	for _, ms := range timestamps {
		b.Append(ms, nil, []byte("v"), nil)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, b.Bytes()
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		c.t.Fatal(err)
	}
	if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		c.t.Fatalf("produce: code %d", code)
	}
}

// The life of a group, and what every command says of it.
func TestGroupCommands(t *testing.T) {
	p := ordersBroker(t)
	tr := &transcript{t: t, addr: p.addr}
	tr.run("group list")
	tr.run("group list -o json")

	a, b := p.member("app", "app-a"), p.member("app", "app-b")
	a.introduce()
	a.join("it begins")()
	a.sync(map[string][]int32{a.id: {0, 1, 2}})
	b.introduce()
	joined := b.join("scaled up")
	p.awaitState("app", "PreparingRebalance")
	a.join("group is already rebalancing")()
	joined()
	a.sync(map[string][]int32{a.id: {0, 1}, b.id: {2}})
	b.sync(nil)
	a.commit(map[int32]int64{0: 2, 1: 4})
	tr.run("group list")
	tr.run("group list --output json")
	tr.compare("group/list")

	tr.run("group describe app")
	tr.run("group describe --all-groups --output json")
	tr.run("group explain app")
	tr.run("group explain app --output json")
	tr.run("group reset app --to-earliest --execute")
	tr.run("group delete app")
	tr.run("group delete app nobody --output json")
	tr.compare("group/stable")

	c := p.member("app", "app-c")
	c.introduce()
	joined = c.join("scaled up again")
	p.awaitState("app", "PreparingRebalance")
	tr.run("group explain app")
	tr.run("group explain app --output json")
	tr.compare("group/rebalancing")

	a.leave("the consumer is being closed")
	b.leave("the consumer is being closed")
	joined()
	c.leave("the consumer is being closed")
	tr.run("group explain app")
	tr.run("group describe app")
	tr.compare("group/empty")

	for _, args := range []string{
		"--to-earliest", "--to-latest", "--to-offset 3", "--to-offset 99", "--to-datetime 2020-11-01T08:00:15Z", "--to-datetime 2020-12-01T09:00:00+01:00",
		"--by-duration 75s", "--by-duration PT1M15S", "--shift-by -1", "--shift-by 100", "--topic orders --to-earliest", "--topic orders:2,0 --to-offset 1", "--topic orders --shift-by 1",
		"--to-earliest --output json",
	} {
		tr.run("group reset app " + args)
	}
	tr.run("group describe app")
	tr.run("group reset app --topic orders --to-offset 1 --execute")
	tr.run("group reset app --topic orders:1 --to-latest --execute --output json")
	tr.run("group describe app")
	tr.compare("group/reset")

	p.dial().deleteRecords("orders", 0, 4)
	m := p.member("app", "app-d")
	m.generation = -1
	m.commit(map[int32]int64{2: 7}) // nothing was ever there
	tr.run("group describe app")
	tr.run("group describe app --output json")
	tr.compare("group/gone")

	tr.run("group delete app nobody")
	tr.run("group list")
	tr.compare("group/delete")
}

// awaitState waits until a group is in a state.
func (p *process) awaitState(group, state string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		code, out, errs := leat("group", "list", "--bootstrap-server", p.addr)
		if code != 0 {
			p.t.Fatal(errs)
		}
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); f[0] == group && f[2] == state {
				return
			}
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("not %s:\n%s", state, out)
		}
	}
}

func TestGroupFailures(t *testing.T) {
	p := ordersBroker(t)
	tr := &transcript{t: t, addr: p.addr}
	for _, args := range []string{
		"group describe nope", "group describe nope nothing", "group explain nope", "group reset nope --to-earliest", "group delete nope nothing", "group describe nope --output json",
	} {
		tr.run(args)
	}
	m := p.member("app", "app")
	m.generation = -1
	m.commit(map[int32]int64{0: 1})
	for _, args := range []string{
		"--topic missing --to-earliest", "--topic orders:7 --to-earliest", "--topic orders:1 --shift-by 2",
	} {
		tr.run("group reset app " + args)
	}
	if err := load.DeleteTopic(t.Context(), p.addr, "orders"); err != nil {
		t.Fatal(err)
	}
	tr.run("group explain app")
	tr.compare("group/failures")
}

func TestGroupMistakes(t *testing.T) {
	for _, tc := range []struct{ args, says string }{
		{"group nonsense", "nonsense"},
		{"group list extra", "extra"},
		{"group describe", "names of groups, or --all-groups"},
		{"group describe a --all-groups", "names of groups, or --all-groups"},
		{"group explain", "GROUP is missing"},
		{"group explain a b", "accepts 1 arg"},
		{"group delete", "GROUP is missing"},
		{"group list --output xml", "--output is table or json"},
		{"group list --timeout 0s", "--timeout is more than nothing"},
		{"group list --bootstrap-server localhost", `"localhost" is no address; expected HOST:PORT`},
		{"group list --bootstrap-server a:1,,b:2", `"" is no address`},
		{"group reset a", "one of --to-earliest, --to-latest, --to-offset, --to-datetime, --by-duration, --shift-by"},
		{"group reset a --to-earliest --to-latest", "--to-earliest and --to-latest exclude each other"},
		{"group reset a --to-earliest=false", "--to-earliest takes no value"},
		{"group reset a --to-earliest --execute --dry-run", "--execute and --dry-run"},
		{"group reset a --to-offset -1", "0 or more"},
		{"group reset a --to-offset x", "--to-offset"},
		{"group reset a --to-datetime yesterday", "RFC 3339"},
		{"group reset a --to-datetime 1960-01-01T00:00:00Z", "before 1970"},
		{"group reset a --by-duration soon", `"soon" is no duration`},
		{"group reset a --by-duration -1h", "no duration"},
		{"group reset a --by-duration P", "no duration"},
		{"group reset a --by-duration P9999999999999D", "no duration"},
		{"group reset a --to-latest --topic :1", "names no topic"},
		{"group reset a --to-latest --topic t:", "no partition"},
		{"group reset a --to-latest --topic t:1,x", "no partition"},
	} {
		code, _, errs := leat(strings.Fields(tc.args)...)
		if code != exitUsage || !strings.Contains(errs, tc.says) {
			t.Errorf("%s: exit code %d, %s; want %q in it", tc.args, code, errs, tc.says)
		}
	}
}

// What is there instead of a broker: nothing, a web server, somebody who hangs up, somebody who is silent.
func TestGroupWithoutBroker(t *testing.T) {
	listen := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { c.Close() })
				serve(c)
			}
		}()
		return l.Addr().String()
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	const cure = "give --bootstrap-server the address of a Kafka listener without TLS"
	for _, tc := range []struct {
		addr string
		says []string
	}{
		{gone.Addr().String(), []string{"cannot be reached", "refused", "start a broker there, or name the address of one with --bootstrap-server"}},
		{listen(func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }), []string{"does not speak Kafka's protocol", "HTTP", cure}},
		{listen(func(c net.Conn) { c.Close() }), []string{"does not speak Kafka's protocol", cure}},
		{listen(func(net.Conn) {}), []string{"does not speak Kafka's protocol", "did not answer in time", cure}},
	} {
		for _, args := range []string{"list", "describe g", "explain g", "reset g --to-latest", "delete g"} {
			code, out, errs := leat(append(strings.Fields("group "+args), "--bootstrap-server", tc.addr, "--timeout", "300ms")...)
			if code != exitFailed || out != "" || strings.Count(errs, "\n") != 1 {
				t.Errorf("%s: exit code %d, %q, %s", args, code, out, errs)
			}
			for _, s := range append(tc.says, "leat: "+tc.addr) {
				if !strings.Contains(errs, s) {
					t.Errorf("%s: %q is not in %s", args, s, errs)
				}
			}
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1h30m": 90 * time.Minute, "0s": 0, "PT1H30M": 90 * time.Minute, "P1D": 24 * time.Hour, "P2DT1S": 48*time.Hour + time.Second, "PT0S": 0,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s is %v, want %v (%v)", text, got, want, err)
		}
	}
}
