package group

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var update = flag.Bool("update", false, "write what the scripts print into testdata instead of comparing it")

// The scripts of testdata/*.script: a command a line, and behind it, indented, what it brought about: records that went into the
// log and answers, in the order in which they came. Lines that begin with # say what is shown.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.script")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".script"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s: it went otherwise:\n%s", file, diff(string(want), got))
			}
		})
	}
}

// diff shows the first line that differs, with some lines before it.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			line := func(l []string) string {
				if i < len(l) {
					return l[i]
				}
				return "(end)"
			}
			return fmt.Sprintf("%s\n- %s\n+ %s", strings.Join(g[max(0, min(i, len(g))-6):min(i, len(g))], "\n"), line(w), line(g))
		}
	}
	return ""
}

// play runs the commands of a script and returns it with what came of them.
func play(t *testing.T, script string) string {
	var b bytes.Buffer
	var p *player
	for line := range strings.Lines(script) {
		switch {
		case strings.HasPrefix(line, "    "):
			continue
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"):
			b.WriteString(line)
			continue
		}
		b.WriteString(line)
		if p == nil || strings.HasPrefix(line, "new") {
			p = &player{sim: newSim(t)}
		}
		p.run(strings.Fields(line))
		for _, l := range p.printed() {
			b.WriteString("    " + l + "\n")
		}
	}
	return b.String()
}

// player turns commands into calls.
type player struct {
	*sim
	logged, noted int
}

func (p *player) printed() (lines []string) {
	for ; p.logged < len(p.log); p.logged++ {
		lines = append(lines, "log: "+showRecord(p.log[p.logged]))
	}
	for _, a := range p.answers {
		lines = append(lines, a.to.name+": "+showAnswer(a.body))
	}
	p.answers = nil
	for ; p.noted < len(p.notes); p.noted++ {
		if strings.Contains(p.notes[p.noted], "expire") {
			lines = append(lines, "note: "+p.notes[p.noted])
		}
	}
	return lines
}

// args reads key=value pairs.
type args map[string]string

func (a args) num(key string, otherwise int64) int64 {
	if v, ok := a[key]; ok {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	return otherwise
}

func (a args) ptr(key string) *string {
	if v, ok := a[key]; ok {
		return &v
	}
	return nil
}

func (p *player) run(words []string) {
	a := args{}
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			a[k] = v
		} else {
			a[strconv.Itoa(len(a))] = w
		}
	}
	p.command(words, a)
	p.deliver()
}

func (p *player) command(words []string, a args) {
	group := a["group"]
	if group == "" {
		group = "g"
	}
	to := p.ticket(words[0])
	if a["0"] != "" {
		to.name = a["0"]
	}
	switch words[0] {
	case "new":
		p.cfg.InitialRebalanceDelayMs = int32(a.num("delay", 3000))
		p.cfg.MaxSize = int(a.num("size", 1<<30))
		p.ccfg.MaxSize = int(a.num("size", 1<<30))
		p.ccfg.AssignmentIntervalMs = int32(a.num("interval", 0))
		p.cfg.OffsetsRetentionMs = a.num("retention", 7*24*3600_000)
		for _, name := range strings.Split(a["topics"], ",") {
			p.topic(name)
		}
	case "topic":
		p.topic(a["0"])
	case "delete-topic":
		delete(p.names, a["0"])
		p.s.TopicsDeleted([]string{a["0"]}, &p.out)
	case "gone": // deleted, and nobody is told
		delete(p.names, a["0"])
	case "join":
		p.s.Join(p.now, joinOf(group, a), Client{ID: a["0"], Host: "/h"}, to, &p.out)
	case "beat":
		p.s.ConsumerHeartbeat(p.now, p.beatOf(group, a), Client{ID: a["0"], Host: "/h"}, to, &p.out)
	case "explain":
		p.s.Explain(p.now, group, to, &p.out)
	case "consumer-describe":
		p.s.ConsumerDescribe(p.now, group, to, &p.out)
	case "max-size": // group.max.size
		p.cfg.MaxSize = int(a.num("is", 1))
	case "policy":
		p.ccfg.Upgrade, p.ccfg.Downgrade = a["0"] == "upgrade" || a["0"] == "bidirectional", a["0"] == "downgrade" || a["0"] == "bidirectional"
	case "too-large": // the log refuses what has more records at once
		p.mostRecords = int(a.num("is", 0))
	case "consumer-max-size":
		p.ccfg.MaxSize = int(a.num("is", 1))
	case "size":
		p.sizes[a["0"]] = int32(a.num("is", 4))
	case "sync":
		p.s.Sync(p.now, syncOf(group, a), to, &p.out)
	case "heartbeat":
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 4, group, a["member"], int32(a.num("gen", 0)), a.ptr("instance")
		p.s.Heartbeat(p.now, r, to, &p.out)
	case "leave":
		p.s.Leave(p.now, leaveOf(group, a), to, &p.out)
	case "commit":
		p.s.Commit(p.now, commitOf(group, a), to, &p.out)
	case "fetch":
		p.s.Fetch(p.now, fetchOf(group, a), NewBudget(1<<20), to, &p.out)
	case "delete-offsets":
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = group
		for _, tp := range partitionsOf(a["of"]) {
			t := kmsg.NewOffsetDeleteRequestTopic()
			t.Topic = tp.topic
			t.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: tp.partition}}
			r.Topics = append(r.Topics, t)
		}
		p.s.DeleteOffsets(p.now, r, to, &p.out)
	case "delete":
		p.s.Delete(p.now, group, to, &p.out)
	case "describe":
		p.s.Describe(p.now, group, to, &p.out)
	case "list":
		p.s.List(p.now, to, &p.out)
	case "wait":
		p.advance(a.num("ms", 0))
	case "hold":
		p.hold = true
	case "commit-log":
		p.hold = false
	case "fail-log":
		p.settle(errDisk)
		p.hold = false
	case "restart":
		p.reload()
	default:
		panic("unknown command " + words[0])
	}
}

func (p *player) topic(name string) {
	if name != "" {
		p.ids++
		p.names[name] = [16]byte{15: byte(p.ids)}
	}
}

func joinOf(group string, a args) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.ProtocolType = int16(a.num("v", 9)), group, a["member"], a.ptr("instance"), "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(a.num("session", 10_000)), int32(a.num("rebalance", 60_000))
	if t, ok := a["type"]; ok {
		r.ProtocolType = t
	}
	offers, ok := a["offers"]
	if !ok {
		offers = "range:x"
	}
	for _, o := range strings.Split(offers, ",") {
		if name, metadata, ok := strings.Cut(o, ":"); ok {
			q := kmsg.NewJoinGroupRequestProtocol()
			q.Name, q.Metadata = name, metadataOf(metadata)
			r.Protocols = append(r.Protocols, q)
		}
	}
	return r
}

// metadataOf makes a subscription of "sub/t1/t2", one of version 1 that says what the member has of "sub/t1/t2@t1:0.1@t2:3", else the bytes themselves.
func metadataOf(s string) []byte {
	topics, ok := strings.CutPrefix(s, "sub/")
	if !ok {
		return []byte(s)
	}
	topics, owned, cooperative := strings.Cut(topics, "@")
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = strings.Split(topics, "/")
	if cooperative {
		m.Version = 1
		for _, t := range namedOf(owned) {
			m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: t.topic, Partitions: t.partitions})
		}
	}
	return m.AppendTo(nil)
}

// namedOf reads "t1:0.1@t2:3"; "-" is nothing.
func namedOf(s string) (all []namedPartitions) {
	for one := range strings.SplitSeq(s, "@") {
		topic, partitions, ok := strings.Cut(one, ":")
		if !ok {
			continue
		}
		t := namedPartitions{topic: topic}
		for p := range strings.SplitSeq(partitions, ".") {
			n, err := strconv.Atoi(p)
			if err != nil {
				panic(err)
			}
			t.partitions = append(t.partitions, int32(n))
		}
		all = append(all, t)
	}
	return all
}

// assignmentOf makes an assignment of "asg/t1:0.1@t2:3", with user data of "asg!/...", else the bytes themselves.
func assignmentOf(s string) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	rest, ok := strings.CutPrefix(s, "asg/")
	if data, with := strings.CutPrefix(s, "asg!/"); with {
		rest, ok, a.UserData = data, true, []byte("data")
	}
	if !ok {
		return []byte(s)
	}
	for _, t := range namedOf(rest) {
		a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: t.topic, Partitions: t.partitions})
	}
	return a.AppendTo(nil)
}

// showGiven prints an assignment.
func showGiven(b []byte) string {
	all, userData, ok := readAssignment(b)
	if !ok || len(b) < 10 || userData {
		return fmt.Sprintf("%q", b)
	}
	line := fmt.Sprintf("v%d", b[1])
	for _, t := range all {
		line += " " + t.topic + ":" + strings.Trim(strings.ReplaceAll(fmt.Sprint(t.partitions), " ", "."), "[]")
	}
	return line
}

func subscriptionOf(topics ...string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}

func syncOf(group string, a args) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 5, group, a["member"], int32(a.num("gen", 0)), a.ptr("instance")
	r.ProtocolType, r.Protocol = a.ptr("type"), a.ptr("protocol")
	for _, pair := range strings.Split(a["give"], ",") {
		if id, what, ok := strings.Cut(pair, ":"); ok {
			r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: assignmentOf(what)})
		}
	}
	return r
}

func leaveOf(group string, a args) *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = int16(a.num("v", 5)), group
	r.MemberID = a["member"]
	for _, id := range strings.Split(a["member"], ",") {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID, m.InstanceID = id, a.ptr("instance")
		r.Members = append(r.Members, m)
	}
	return r
}

// partitionsOf reads "t-0,u-1".
func partitionsOf(s string) (all []topicPartition) {
	for _, tp := range strings.Split(s, ",") {
		if i := strings.LastIndexByte(tp, '-'); i > 0 {
			n, _ := strconv.Atoi(tp[i+1:])
			all = append(all, topicPartition{tp[:i], int32(n)})
		}
	}
	return all
}

func commitOf(group string, a args) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = int16(a.num("v", 10)), group, a["member"], int32(a.num("gen", -1)), a.ptr("instance")
	r.RetentionTimeMillis = a.num("retention", -1)
	for _, tp := range partitionsOf(a["of"]) {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = tp.topic
		q := kmsg.NewOffsetCommitRequestTopicPartition()
		q.Partition, q.Offset, q.LeaderEpoch, q.Metadata = tp.partition, a.num("at", 0), int32(a.num("epoch", -1)), a.ptr("metadata")
		t.Partitions = append(t.Partitions, q)
		r.Topics = append(r.Topics, t)
	}
	return r
}

func fetchOf(group string, a args) *kmsg.OffsetFetchRequestGroup {
	r := kmsg.NewOffsetFetchRequestGroup()
	r.Group = group
	for _, tp := range partitionsOf(a["of"]) {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = tp.topic, []int32{tp.partition}
		r.Topics = append(r.Topics, t)
	}
	return &r
}

func heartbeatOf(group, member string) *kmsg.HeartbeatRequest {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.Generation = 4, group, member, 1
	return r
}
