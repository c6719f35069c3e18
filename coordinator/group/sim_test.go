package group

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// sim is a shard with a log behind it, a clock and nothing else.
type sim struct {
	t     testing.TB
	cfg   Config
	names map[string][16]byte // the topics there are
	sizes map[string]int32    // how many partitions they have, if not 4
	ccfg  ConsumerConfig
	ids   int // member ids given out
	now   int64

	s           *Shard
	log         []machine.Record // what is committed
	queue       []machine.Write  // what is not
	mostRecords int              // of a write; 0: any
	hold        bool             // writes wait in queue until settle
	answers     []simAnswer      // given and not looked at
	notes       []string
	out         machine.Out
}

type simAnswer struct {
	to   *simTicket
	body any
}

// simTicket knows how often it was answered.
type simTicket struct {
	name    string
	answers int
	sim     *sim
}

func (t *simTicket) Answer(body any) {
	t.answers++
	if t.answers > 1 {
		t.sim.t.Fatalf("%s is answered twice, with %+v", t.name, body)
	}
	t.sim.answers = append(t.sim.answers, simAnswer{t, body})
}

type simTopics struct{ *sim }

func (t simTopics) TopicID(name string) ([16]byte, bool) { id, ok := t.names[name]; return id, ok }
func (t simTopics) Topic(name string) ([16]byte, int32, bool) {
	id, ok := t.names[name]
	n, other := t.sizes[name]
	if !other {
		n = 4
	}
	return id, n, ok
}
func (t simTopics) Each(visit func(name string)) {
	for name := range t.names {
		visit(name)
	}
}

// Version is a sum over everything: whatever is changed in a test, it is another.
func (t simTopics) Version() int64 {
	sum := int64(0)
	for name := range t.names {
		id, n, _ := t.Topic(name)
		one := int64(n) + int64(id[14])<<16 + int64(id[15])<<32
		for _, b := range []byte(name) {
			one = one*1_000_003 + int64(b)
		}
		sum += one
	}
	return sum &^ (-1 << 62)
}
func (t simTopics) TopicName(id [16]byte) (string, bool) {
	for name, other := range t.names {
		if other == id {
			return name, true
		}
	}
	return "", false
}

func newSim(t testing.TB) *sim {
	s := &sim{t: t, now: 1_000_000, names: map[string][16]byte{}}
	s.cfg = Config{InitialRebalanceDelayMs: 3000, MinSessionTimeoutMs: 6000, MaxSessionTimeoutMs: 1_800_000, MaxSize: 1 << 30,
		OffsetMetadataMaxBytes: 4096, OffsetsRetentionMs: 7 * 24 * 3600_000, OffsetsCheckIntervalMs: 600_000}
	s.ccfg = ConsumerConfig{SessionTimeoutMs: 45_000, HeartbeatIntervalMs: 5000, AssignmentIntervalMs: 0, MaxSize: 1 << 30, Upgrade: true, Downgrade: true,
		Assignors: []string{"uniform", "range"}, RegexRefreshMs: 600_000}
	s.sizes = map[string]int32{}
	s.s = s.shard()
	s.s.Loaded(s.now, &s.out)
	s.deliver()
	return s
}

func (s *sim) shard() *Shard {
	return New(Options{Config: func() *Config { return &s.cfg }, Topics: func() ConsumerTopics { return simTopics{s} },
		ConsumerConfig: func(string) *ConsumerConfig { return &s.ccfg },
		NewID:          func() string { s.ids++; return fmt.Sprintf("id%d", s.ids) }})
}

func (s *sim) ticket(name string) *simTicket { return &simTicket{name: name, sim: s} }

// deliver does with out what the runtime does.
func (s *sim) deliver() {
	for {
		out := s.out
		s.out = machine.Out{}
		var tooLarge []machine.Then
		for _, w := range out.Writes {
			if s.mostRecords > 0 && len(w.Records) > s.mostRecords {
				tooLarge = append(tooLarge, w.Then)
				continue
			}
			s.queue = append(s.queue, w)
		}
		for _, a := range out.Answers {
			a.To.Answer(a.Body)
		}
		for _, n := range out.Notes {
			s.notes = append(s.notes, n.Text)
		}
		for _, then := range tooLarge {
			then(s.now, machine.ErrTooLarge, &s.out)
		}
		if len(tooLarge) > 0 {
			continue
		}
		if s.hold || len(s.queue) == 0 {
			return
		}
		s.settleOne(nil)
	}
}

// settleOne commits the oldest write.
func (s *sim) settleOne(err error) {
	w := s.queue[0]
	s.queue = s.queue[1:]
	if err == nil {
		s.log = append(s.log, w.Records...)
	}
	if w.Then != nil {
		w.Then(s.now, err, &s.out)
	}
}

// settle commits everything that waits, or fails it, the latest first.
func (s *sim) settle(err error) {
	hold := s.hold
	s.hold = true
	if err != nil {
		queue := s.queue
		s.queue = nil
		for i := len(queue) - 1; i >= 0; i-- {
			if queue[i].Then != nil {
				queue[i].Then(s.now, err, &s.out)
				s.deliver()
			}
		}
	} else {
		for len(s.queue) > 0 {
			s.settleOne(nil)
			s.deliver()
		}
	}
	s.hold = hold
	s.deliver()
}

// advance moves the clock, stopping at every deadline.
func (s *sim) advance(ms int64) {
	end := s.now + ms
	for s.s.Next() <= end {
		s.now = max(s.now, s.s.Next())
		s.s.Tick(s.now, &s.out)
		s.deliver()
	}
	s.now = end
}

// reload replays the log into a new shard, as after a crash. Whoever waits for the old one is told so.
func (s *sim) reload() {
	s.crash()
	s.s = s.replayed()
	s.s.Loaded(s.now, &s.out)
	s.deliver()
}

func (s *sim) crash() {
	s.settle(machine.ErrUnloaded)
	s.s.Unload(&s.out)
	s.deliver()
}

func (s *sim) replayed() *Shard {
	n := s.shard()
	for i, r := range s.log {
		if err := n.Replay(int64(i), r); err != nil {
			s.t.Fatal(err)
		}
	}
	return n
}

// Printing.

func code(c int16) string {
	if c == 0 {
		return "ok"
	}
	return protocol.Code(c).Name()
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func showRecord(r machine.Record) string {
	version, err := keyVersion(r.Key)
	if err != nil {
		return err.Error()
	}
	if version > groupKeyVersion {
		return showChange(version, r)
	}
	if version == groupKeyVersion {
		id, _ := readGroupKey(r.Key)
		if r.Value == nil {
			return "group " + id + " tombstone"
		}
		v, err := readGroupValue(r.Value)
		if err != nil {
			return err.Error()
		}
		line := fmt.Sprintf("group %s generation %d type %q protocol %s leader %s since %d", id, v.Generation, v.ProtocolType, orNull(v.Protocol), orNull(v.Leader), v.CurrentStateTimestamp)
		for _, m := range v.Members {
			line += fmt.Sprintf(" [%s instance %s %q -> %s]", m.MemberID, orNull(m.InstanceID), m.Subscription, showGiven(m.Assignment))
		}
		return line
	}
	id, topic, partition, _ := readOffsetKey(r.Key)
	if r.Value == nil {
		return fmt.Sprintf("offset %s %s-%d tombstone", id, topic, partition)
	}
	c, err := readOffsetValue(r.Value)
	if err != nil {
		return err.Error()
	}
	line := fmt.Sprintf("offset %s %s-%d = %d epoch %d", id, topic, partition, c.offset, c.leaderEpoch)
	if c.metadata != "" {
		line += fmt.Sprintf(" metadata %q", c.metadata)
	}
	if c.topicID != [16]byte{} {
		line += fmt.Sprintf(" id %d", c.topicID[15])
	}
	if c.expireMs >= 0 {
		line += fmt.Sprintf(" until %d", c.expireMs)
	}
	return line
}

func showAnswer(body any) string {
	switch r := body.(type) {
	case *kmsg.JoinGroupResponse:
		if r.ErrorCode != 0 {
			return fmt.Sprintf("join %s member %q", code(r.ErrorCode), r.MemberID)
		}
		line := fmt.Sprintf("join ok generation %d protocol %s leader %s member %s", r.Generation, orNull(r.Protocol), r.LeaderID, r.MemberID)
		if r.SkipAssignment {
			line += " skip"
		}
		for _, m := range r.Members {
			line += fmt.Sprintf(" [%s instance %s %q]", m.MemberID, orNull(m.InstanceID), m.ProtocolMetadata)
		}
		return line
	case *kmsg.SyncGroupResponse:
		if r.ErrorCode != 0 {
			return "sync " + code(r.ErrorCode)
		}
		return "sync ok " + showGiven(r.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		return "heartbeat " + code(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		line := "leave " + code(r.ErrorCode)
		for _, m := range r.Members {
			line += fmt.Sprintf(" [%s %s %s]", m.MemberID, orNull(m.InstanceID), code(m.ErrorCode))
		}
		return line
	case *kmsg.OffsetCommitResponse:
		line := "commit"
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line += fmt.Sprintf(" %s-%d %s", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
		return line
	case *kmsg.OffsetFetchResponseGroup:
		line := "fetch " + code(r.ErrorCode)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line += fmt.Sprintf(" %s-%d=%d/%d", t.Topic, p.Partition, p.Offset, p.LeaderEpoch)
				if *p.Metadata != "" {
					line += fmt.Sprintf("%q", *p.Metadata)
				}
			}
		}
		return line
	case *kmsg.OffsetDeleteResponse:
		line := "delete-offsets " + code(r.ErrorCode)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line += fmt.Sprintf(" %s-%d %s", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
		return line
	case *kmsg.DescribeGroupsResponseGroup:
		line := fmt.Sprintf("describe %s %s type %q protocol %q", code(r.ErrorCode), r.State, r.ProtocolType, r.Protocol)
		for _, m := range r.Members {
			line += fmt.Sprintf(" [%s %s%s %q -> %q]", m.MemberID, m.ClientID, m.ClientHost, m.ProtocolMetadata, m.MemberAssignment)
		}
		return line
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return showBeat(r)
	case *kmsg.ConsumerGroupDescribeResponseGroup:
		return showConsumerDescribe(r)
	case protocol.Code:
		return "delete " + code(int16(r))
	case []Listed:
		line := "list"
		for _, g := range r {
			line += fmt.Sprintf(" [%s %q %s %s]", g.ID, g.Kind, g.State, g.Type)
		}
		return line
	case *Story:
		return fmt.Sprintf("story %+v", r)
	}
	return fmt.Sprintf("%T %+v", body, body)
}

// dump is everything about a shard that outlives it, for comparing.
func dump(s *Shard) string {
	var lines []string
	for id, g := range s.groups {
		line := fmt.Sprintf("%s %v", id, g.stored)
		if c, ok := g.membership.(*classic); ok {
			members := []string{}
			for _, m := range c.members.list {
				members = append(members, fmt.Sprintf("%s=%q", m.id, m.assignment))
			}
			sort.Strings(members)
			line += fmt.Sprintf(" %s %d %q %q %v", c.state, c.generation, c.protocolType, c.protocol, members)
		}
		if c, ok := g.membership.(*consumerGroup); ok {
			line += " " + dumpConsumer(c)
		}
		for _, tp := range g.partitions() {
			c, _ := g.offsets[tp.topic].committed.get(tp.partition)
			line += fmt.Sprintf(" %s-%d=%d/%d/%q/%d", tp.topic, tp.partition, c.offset, c.leaderEpoch, c.metadata, c.topicID[15])
		}
		lines = append(lines, line)
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

var errDisk = errors.New("no space")
