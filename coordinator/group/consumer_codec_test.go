package group

import (
	"fmt"
	"testing"

	"github.com/leatmq/leat/coordinator/group/assign"
	"github.com/leatmq/leat/coordinator/machine"
)

func someChanges() []change {
	s := func(v string) *string { return &v }
	var o owned
	o.add(assign.TopicID{1}, 0, 3)
	o.add(assign.TopicID{1}, 7, 4)
	o.add(assign.TopicID{2}, 1, 5)
	return []change{
		{changeKey: changeKey{groupChange, ""}, group: &groupEpoch{5, -77}},
		{changeKey: changeKey{groupChange, ""}, group: &groupEpoch{5, 0}},
		{changeKey: changeKey{subscriptionChange, "m"}, sub: &memberSubscription{instance: s("i"), rack: s("r"), clientID: "c", clientHost: "/h", topics: []string{"a", "b"}, regex: "x.*", rebalanceTimeoutMs: 9, assignor: s("range"), classic: &classicProtocol{6000, []offered{{"range", []byte("x")}, {"sticky", []byte{}}}}}},
		{changeKey: changeKey{subscriptionChange, "m"}, sub: &memberSubscription{topics: []string{}}},
		{changeKey: changeKey{targetEpochChange, ""}, epoch: &targetEpoch{6, 999}},
		{changeKey: changeKey{targetChange, "m"}, target: o.Assignment},
		{changeKey: changeKey{targetChange, "m"}, target: emptyTarget},
		{changeKey: changeKey{currentChange, "m"}, cur: &current{epoch: 4, previous: 3, state: memberUnrevoked, assigned: o, revoking: o}},
		{changeKey: changeKey{currentChange, "m"}, cur: &current{epoch: leaveStaticEpoch}},
		{changeKey: changeKey{regexChange, "x.*"}, regex: &resolved{topics: []string{"xa"}, version: 3, atMs: 4}},
		{changeKey: changeKey{currentChange, "m"}},
	}
}

// What is written is what is read.
func TestConsumerRecords(t *testing.T) {
	for _, c := range someChanges() {
		r := c.record("g")
		version, err := keyVersion(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		group, got, ok, err := readChange(version, r)
		if err != nil || !ok || group != "g" {
			t.Fatalf("%v %v %q of %+v", err, ok, group, c)
		}
		again := got.record("g")
		if string(again.Key) != string(r.Key) || string(again.Value) != string(r.Value) || (again.Value == nil) != (r.Value == nil) {
			t.Errorf("%s\nis read as\n%s", showChange(version, r), showChange(version, again))
		}
	}
}

// A log of Kafka 4.4.0 with a consumer group of two members, of whom the first gave the second half of its partitions: it is
// understood, and we would have written the same bytes.
func TestKafkasConsumerRecords(t *testing.T) {
	s := newSim(t).s
	group := ""
	for i, r := range logOf(t, "consumer_group_kafka_4.4.0.log") {
		if r.Value == nil {
			break // the members are gone: what was there before is looked at
		}
		version, err := keyVersion(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		if version > groupKeyVersion {
			id, c, ok, err := readChange(version, r)
			if err != nil || !ok {
				t.Fatal(i, ok, err)
			}
			group = id
			if again := c.record(id); string(again.Key) != string(r.Key) || string(again.Value) != string(r.Value) {
				t.Errorf("record %d: %s: we would write %x, Kafka wrote %x", i, showChange(version, r), again.Value, r.Value)
			}
		}
		if err := s.Replay(int64(i), r); err != nil {
			t.Fatal(err)
		}
	}
	g := s.groups[group].membership.(*consumerGroup)
	if g.stateName() != "Stable" || g.epoch() != 3 || g.targetEpoch() != 3 || len(g.members) != 2 || len(g.owners) != 4 || g.members["a"].cur.epoch != 3 {
		t.Errorf("the group is %s at %d/%d with\n%s", g.stateName(), g.epoch(), g.targetEpoch(), dumpConsumer(g))
	}
	if n := g.members["b"].cur.assigned.Count(); n != 2 {
		t.Errorf("b has %d partitions", n)
	}
}

// A log of Kafka 4.4.0 with groups that went from classic to consumer and back: it is understood, we would have written the same
// bytes, and the groups are what they were.
func TestKafkasMigratedRecords(t *testing.T) {
	s := newSim(t).s
	upgrades, downgrades, members := 0, 0, 0
	for i, r := range logOf(t, "migration_kafka_4.4.0.log") {
		version, err := keyVersion(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		if version == groupKeyVersion {
			id, _ := readGroupKey(r.Key)
			if g := s.groups[id]; r.Value == nil && g != nil && !g.membership.isEmpty() {
				upgrades++
			}
			if v, err := readGroupValue(r.Value); err == nil && len(v.Members) > 0 && s.groups[id] == nil {
				downgrades++
			}
		}
		if version > groupKeyVersion {
			id, c, ok, err := readChange(version, r)
			if err != nil || !ok && version != consumerTopicsKey {
				t.Fatal(i, ok, err)
			}
			if !ok {
				continue // a tombstone for the records of older versions
			}
			if again := c.record(id); string(again.Key) != string(r.Key) || string(again.Value) != string(r.Value) {
				t.Errorf("record %d: %s: we would write %x, Kafka wrote %x", i, showChange(version, r), again.Value, r.Value)
			}
			if c.sub != nil && c.sub.classic != nil {
				members++
				if said, ok := readSubscription(c.sub.classic.protocols[0].metadata); !ok || len(said.topics) != 1 || said.topics[0] != c.sub.topics[0] {
					t.Errorf("record %d: %+v of %+v", i, said, c.sub)
				}
			}
		}
		if err := s.Replay(int64(i), r); err != nil {
			t.Fatal(err)
		}
	}
	if upgrades != 4 || downgrades != 1 || members < 10 {
		t.Errorf("%d upgrades, %d downgrades, %d records of classic members", upgrades, downgrades, members)
	}
	both := 0
	for _, g := range s.groups {
		if cg, ok := g.membership.(*consumerGroup); ok && cg.classics == 1 && len(cg.members) == 2 {
			both++
		}
	}
	if both < 2 {
		t.Errorf("%d groups have a member of either protocol", both)
	}
}

// Records that are cut off, or of another version, or that say anything, are refused with an error or read; nothing panics, and
// no length that a record names makes memory.
func TestDamagedConsumerRecords(t *testing.T) {
	for _, c := range someChanges() {
		r := c.record("g")
		version, _ := keyVersion(r.Key)
		for n := range len(r.Value) {
			if _, _, _, err := readChange(version, machine.Record{Key: r.Key, Value: r.Value[:n]}); err == nil {
				t.Errorf("the first %d of %d bytes of %s are a record", n, len(r.Value), showChange(version, r))
			}
			for _, b := range []byte{0xff, 0x7f, 0} {
				bad := append([]byte(nil), r.Value...)
				bad[n] = b
				_, got, _, err := readChange(version, machine.Record{Key: r.Key, Value: bad})
				_ = fmt.Sprint(got, err)
			}
		}
		for n := 2; n < len(r.Key); n++ {
			if _, _, _, err := readChange(version, machine.Record{Key: r.Key[:n], Value: r.Value}); err == nil {
				t.Errorf("the first %d of %d bytes of a key are a key", n, len(r.Key))
			}
		}
	}
}

func FuzzConsumerRecord(f *testing.F) {
	for _, c := range someChanges() {
		r := c.record("g")
		f.Add(r.Key, r.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s := newSim(t)
		n := s.shard()
		for range 2 {
			if err := n.Replay(0, machine.Record{Key: key, Value: value}); err != nil {
				return
			}
		}
		n.Loaded(1, &s.out)
		s.s = n
		s.consumerBeat("x", 7, nil)
		s.consumerBeat("x", joinEpoch, []string{"t"})
	})
}

// A log that says less about a group than it should, as after a compaction: the group is there, without members, and can be used.
func TestIncompleteConsumerGroup(t *testing.T) {
	for _, c := range someChanges() {
		s := newSim(t)
		s.s = s.shard()
		s.names["t"] = [16]byte{1}
		if err := s.s.Replay(0, c.record("g")); err != nil {
			t.Fatal(err)
		}
		s.s.Loaded(s.now, &s.out)
		s.deliver()
		s.consumerBeat("x", 7, nil)
		s.consumerBeat("x", joinEpoch, []string{"t"})
		g := s.s.groups["g"]
		if g == nil || !isConsumer(g) || g.membership.(*consumerGroup).members["x"] == nil {
			t.Fatalf("after %+v the group is %+v", c, g)
		}
		s.advance(100_000)
		if !g.membership.isEmpty() {
			t.Fatalf("after %+v there are members that nobody hears of", c)
		}
		s.s.Delete(s.now, "g", s.ticket("delete"), &s.out)
		s.deliver()
		if s.s.groups["g"] != nil {
			t.Fatalf("after %+v the group cannot be deleted", c)
		}
	}
}
