package group

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/record"
)

// kafkaLog is what Kafka 4.4.0 wrote for a console consumer of topic gt with group g1, that read three records and left.
func kafkaLog(t testing.TB) (records []machine.Record) {
	t.Helper()
	records = logOf(t, "consumer_offsets_kafka_4.4.0.log")
	if len(records) != 5 {
		t.Fatalf("%d records", len(records))
	}
	return records
}

// logOf is the records of a log.
func logOf(t testing.TB, name string) (records []machine.Record) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	_, err = record.Walk(b, func(_ int, batch record.Batch) error {
		return batch.Records(func(r *record.Record) error {
			records = append(records, machine.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// A log of Kafka's is understood, and we would have written the same bytes.
func TestKafkasRecords(t *testing.T) {
	s := newSim(t)
	id := [16]byte{0xe0, 0x78, 0x72, 0xea, 0xfb, 0x81, 0x48, 0xf5, 0xa2, 0x71, 0x5d, 0x25, 0x7a, 0x1a, 0xe5, 0x5c}
	s.names["gt"] = id
	for i, r := range kafkaLog(t) {
		if err := s.s.Replay(int64(i), r); err != nil {
			t.Fatal(err)
		}
		g := s.s.groups["g1"]
		c := g.membership.(*classic)
		var again machine.Record
		switch i {
		case 0, 1, 4:
			again = c.groupRecord(func(m *member) []byte { return m.assignment })
		case 2, 3:
			o, _ := g.offsets["gt"].committed.get(int32(3 - i))
			again = machine.Record{Key: offsetKey("g1", "gt", int32(3-i)), Value: offsetValue(&o)}
		}
		if !bytes.Equal(again.Key, r.Key) || !bytes.Equal(again.Value, r.Value) {
			t.Errorf("record %d:\nKafka %x %x\n ours %x %x", i, r.Key, r.Value, again.Key, again.Value)
		}
		if i == 1 && (c.state != Stable || !c.topics["gt"] || len(c.members.list) != 1) {
			t.Errorf("the group is %s %v", c.state, c.topics)
		}
	}
	want := `g1 true Empty 2 "consumer" "" [] gt-0=3/0/""/92 gt-1=0/-1/""/92`
	if got := dump(s.s); got != want {
		t.Errorf("the shard is %s", got)
	}
}

// Values of every version are read; what we write is read back.
func TestOffsetValues(t *testing.T) {
	for _, c := range []committed{
		{offset: 5, leaderEpoch: 3, metadata: "m", commitMs: 9, expireMs: -1},
		{offset: 5, leaderEpoch: -1, commitMs: 9, expireMs: -1, topicID: [16]byte{1}},
		{offset: 1<<63 - 1, leaderEpoch: 1<<31 - 1, metadata: strings.Repeat("ä", 2000), commitMs: 1 << 60, expireMs: -1, topicID: [16]byte{15: 9}},
	} {
		got, err := readOffsetValue(offsetValue(&c))
		if err != nil || got != c {
			t.Errorf("%+v came back as %+v, %v", c, got, err)
		}
	}
	c := committed{offset: 5, metadata: "m", leaderEpoch: -1, commitMs: 9, expireMs: 12}
	if got, err := readOffsetValue(offsetValue(&c)); err != nil || got != c {
		t.Errorf("%+v came back as %+v, %v", c, got, err)
	}
}

// A record that cannot be read is an error that names the group, never a group without it. Unknown kinds of records are left alone.
func TestDamagedRecords(t *testing.T) {
	for i, r := range kafkaLog(t) {
		for n := range r.Value {
			s := newSim(t)
			err := s.s.Replay(0, machine.Record{Key: r.Key, Value: r.Value[:n]})
			if err == nil && (n < 20 || i != 2) { // a cut tag section may look like one without tags
				t.Errorf("record %d cut to %d bytes is accepted", i, n)
			}
			if err != nil && !strings.Contains(err.Error(), `"g1"`) {
				t.Errorf("record %d: %v", i, err)
			}
		}
		for n := range r.Key {
			if s := newSim(t); s.s.Replay(0, machine.Record{Key: r.Key[:n], Value: r.Value}) == nil {
				t.Errorf("record %d with a key of %d bytes is accepted", i, n)
			}
		}
	}
	s := newSim(t)
	if err := s.s.Replay(0, machine.Record{Key: []byte{0, 99, 1}, Value: []byte{1}}); err != nil {
		t.Error(err)
	}
	for _, version := range []byte{5, 99} {
		if err := s.s.Replay(0, machine.Record{Key: offsetKey("g", "t", 0), Value: []byte{0, version, 0, 0}}); err == nil {
			t.Errorf("an offset of version %d is accepted", version)
		}
	}
	if len(s.s.groups) != 0 {
		t.Error("groups were made of nothing")
	}
}

// Tombstones of what is not there are no error: compaction may have removed what was before them (B-F3).
func TestTombstonesOfNothing(t *testing.T) {
	s := newSim(t)
	for _, key := range [][]byte{offsetKey("g", "t", 0), groupKey("g")} {
		if err := s.s.Replay(0, machine.Record{Key: key}); err != nil {
			t.Error(err)
		}
	}
	if len(s.s.groups) != 0 {
		t.Error("groups were made of nothing")
	}
}

// Whatever is in the log, the replay neither panics nor takes memory without bound.
func FuzzReplay(f *testing.F) {
	for _, r := range append(kafkaLog(f), logOf(f, "migration_kafka_4.4.0.log")...) {
		f.Add(r.Key, r.Value)
	}
	f.Add([]byte{0, 2, 0, 1, 'g'}, []byte{0, 3, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 127, 255, 255, 255})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s := newSim(t)
		if err := s.s.Replay(0, machine.Record{Key: key, Value: value}); err != nil {
			return
		}
		s.s.Loaded(s.now, &s.out)
		s.deliver()
		for id := range s.s.groups { // it may become a consumer group
			p := player{sim: s}
			s.s.ConsumerHeartbeat(s.now, p.beatOf(id, args{"member": "m", "topics": "t"}), Client{}, s.ticket("m"), &s.out)
			s.deliver()
		}
		s.advance(3_600_000)
	})
}

// Malformed subscriptions harm nobody.
func FuzzSubscription(f *testing.F) {
	f.Add(subscriptionOf("a", "b"))
	f.Add([]byte{0, 1, 127, 255, 255, 255})
	f.Add(metadataOf("sub/a/b@a:0.1@b:7"))
	f.Add(assignmentOf("asg/a:0.1@b:2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		names := map[string]bool{}
		ok := subscribedTopics(b, func(name string) { names[name] = true })
		if said, all := readSubscription(b); all && (!ok || len(said.topics) != len(names)) {
			t.Errorf("%v, %v of %q", said, names, b)
		}
		readAssignment(b)
	})
}

// A million offsets, as many as a large cluster has, in a second.
func BenchmarkReplayOffsets(b *testing.B) {
	const groups, partitions = 1000, 1000
	var records []machine.Record
	c := committed{offset: 1234, leaderEpoch: 1, commitMs: 1, expireMs: -1, topicID: [16]byte{1}}
	value := offsetValue(&c)
	for p := range partitions {
		for g := range groups {
			records = append(records, machine.Record{Key: offsetKey(fmt.Sprintf("group-%d", g), "a-topic", int32(p)), Value: value})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s := newSim(b)
		for i, r := range records {
			if err := s.s.Replay(int64(i), r); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(len(records)), "records/op")
}

// 1,000 groups of 10 members: one beat of all of them.
func BenchmarkHeartbeats(b *testing.B) {
	s := newSim(b)
	s.cfg.InitialRebalanceDelayMs = 0
	type beat struct{ group, member string }
	var beats []beat
	for g := range 1000 {
		group := fmt.Sprintf("group-%d", g)
		for range 10 {
			s.s.Join(s.now, joinOf(group, args{"v": "3", "session": "30000"}), Client{ID: "c"}, s.ticket("join"), &s.out)
			beats = append(beats, beat{group, fmt.Sprintf("c-id%d", s.ids)})
		}
	}
	s.advance(0)
	s.answers = nil
	b.ReportAllocs()
	for b.Loop() {
		for _, e := range beats {
			r := heartbeatOf(e.group, e.member)
			if code := s.s.heartbeat(s.now, r); code != 0 {
				b.Fatal(code)
			}
		}
		s.now += 10
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(beats)), "ns/heartbeat")
}
