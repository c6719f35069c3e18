package metadata

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// describe is a result as "Kind" or "ok".
func describe(err *Error) string {
	if err == nil {
		return "ok"
	}
	return err.Kind.String()
}

func TestValidateTopicName(t *testing.T) {
	for _, name := range []string{"a", "A.b_c-9", strings.Repeat("x", 249), "..."} {
		if err := ValidateTopicName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", strings.Repeat("x", 250), "a b", "a/b", "ü", "a\x00"} {
		if err := ValidateTopicName(name); err == nil || err.Kind != InvalidTopic {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// spec is a TopicSpec from a few words.
func spec(name string, partitions int32, rf int16, assignment ...[]int32) TopicSpec {
	s := TopicSpec{Name: name, Partitions: partitions, ReplicationFactor: rf}
	for n, replicas := range assignment {
		s.Assignment = append(s.Assignment, ReplicaAssignment{Partition: int32(n), Replicas: replicas})
	}
	return s
}

func with(s TopicSpec, key, value string) TopicSpec {
	s.Config = append(s.Config, ConfigEntry{Name: key, Value: value})
	return s
}

func TestCreateTopicsAnswers(t *testing.T) {
	image, _ := apply(t, brokers(t, 2, 0), topicRecords("old.name", 1, 1, 1)...)
	image, _ = apply(t, image, BrokerRegistration{ID: 3, Epoch: -1, Incarnation: id(3), Fenced: true})
	f := func(want string, specs ...TopicSpec) []Record {
		t.Helper()
		records, results := testController().createTopics(image, CreateTopicsRequest{Topics: specs})
		var got []string
		for n, r := range results {
			if r.Name != specs[n].Name {
				t.Errorf("result %d is about %s", n, r.Name)
			}
			got = append(got, describe(r.Err))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%+v: %s, want %s", specs, s, want)
		}
		if next, _, err := image.Apply(0, records); err != nil {
			t.Errorf("%+v: %v", specs, err)
		} else if len(records) > 0 && next.TopicCount() == image.TopicCount() {
			t.Errorf("%+v: records without a topic", specs)
		}
		return records
	}
	f("ok", spec("t", 3, 2))
	f("ok", spec("t", -1, -1))
	f("ok", spec("t", -1, -1, []int32{2, 1}, []int32{1, 3}))
	f("ok", spec("t", 1, 3)) // the fenced broker is taken when there is no other
	f("InvalidTopic", spec("bad name", 1, 1))
	f("InvalidTopic", spec("old_name", 1, 1))
	f("ok InvalidTopic", spec("x.y", 1, 1), spec("x_y", 1, 1))
	f("TopicExists", spec("old.name", 1, 1))
	f("TopicExists", with(spec("old.name", 0, 0), "nonsense", "1"))
	f("InvalidRequest", spec(MetadataTopic, 1, 1))
	f("InvalidRequest ok InvalidRequest", spec("t", 1, 1), spec("u", 1, 1), spec("t", 1, 1))
	f("InvalidReplicationFactor", spec("t", 0, 0)) // protocol.md 6: the factor is looked at first
	f("InvalidReplicationFactor", spec("t", 1, -2))
	f("InvalidReplicationFactor", spec("t", 1, 4))
	f("InvalidPartitions", spec("t", 0, 1))
	f("InvalidPartitions", spec("t", -2, 1))
	f("InvalidRequest", spec("t", 1, -1, []int32{1}))
	f("InvalidRequest", spec("t", -1, 1, []int32{1}))
	f("InvalidAssignment", spec("t", -1, -1, []int32{}))
	f("InvalidAssignment", spec("t", -1, -1, []int32{1}, []int32{}))
	f("InvalidAssignment", spec("t", -1, -1, []int32{1}, []int32{1, 2}))
	f("InvalidAssignment", spec("t", -1, -1, []int32{1, 1}))
	f("InvalidAssignment", spec("t", -1, -1, []int32{9}))
	f("InvalidAssignment", spec("t", -1, -1, []int32{3}))
	twice := spec("t", -1, -1, []int32{1}, []int32{2})
	twice.Assignment[1].Partition = 0
	f("InvalidAssignment", twice)
	gap := spec("t", -1, -1, []int32{1}, []int32{2})
	gap.Assignment[1].Partition = 2
	f("InvalidAssignment", gap)
	f("InvalidConfig", with(spec("t", 1, 1), "no.such.key", "1"))
	f("InvalidConfig", with(spec("t", 1, 1), "retention.ms", "soon"))
	null := spec("t", 1, 1)
	null.Config = []ConfigEntry{{Name: "retention.ms", Null: true}}
	f("InvalidConfig", null)
	f("ok", with(spec("t", 1, 1), "retention.ms", "1000"))
	f("PolicyViolation", spec("t", 10001, 1))
	f("ok PolicyViolation ok", spec("t", 9000, 1), spec("u", 1000, 1), spec("v", 10, 1))
}

func TestCreateTopicsValidateOnly(t *testing.T) {
	records, results := testController().createTopics(brokers(t, 1, 0), CreateTopicsRequest{ValidateOnly: true, Topics: []TopicSpec{spec("t", 2, 1), spec("", 1, 1)}})
	if len(records) != 0 {
		t.Errorf("records %v", records)
	}
	// protocol.md 6: validate-only answers a non-zero topic id.
	if r := results[0]; r.Err != nil || r.ID == ([16]byte{}) || r.Partitions != 2 || r.ReplicationFactor != 1 || results[1].Err == nil {
		t.Errorf("results %+v", results)
	}
}

func TestCreateTopicsWithoutBrokers(t *testing.T) {
	_, results := testController().createTopics(Empty(), CreateTopicsRequest{Topics: []TopicSpec{spec("t", 1, 1)}})
	if describe(results[0].Err) != "InvalidReplicationFactor" {
		t.Error(results[0].Err)
	}
}

func TestInternalTopics(t *testing.T) {
	image := brokers(t, 1, 0)
	records, _ := testController().createTopics(image, CreateTopicsRequest{Topics: []TopicSpec{spec("__consumer_offsets", 1, 1), spec("x", 1, 1)}})
	image, _ = apply(t, image, records...)
	if !image.Topic("__consumer_offsets").Internal || image.Topic("x").Internal {
		t.Error("the wrong topics are internal")
	}
}

func TestDeleteTopicsAnswers(t *testing.T) {
	image, _ := apply(t, brokers(t, 1, 0), append(topicRecords("a", 1, 1, 1), topicRecords("b", 2, 1, 1)...)...)
	f := func(want string, refs ...TopicRef) {
		t.Helper()
		records, results := testController().deleteTopics(image, refs)
		var got []string
		for _, r := range results {
			got = append(got, describe(r.Err))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%+v: %s, want %s", refs, s, want)
		}
		if next, _, err := image.Apply(0, records); err != nil || next.TopicCount() != image.TopicCount()-strings.Count(want, "ok") {
			t.Errorf("%+v: %v", refs, err)
		}
	}
	f("ok ok", TopicRef{Name: "a"}, TopicRef{ID: id(2)})
	f("UnknownTopic UnknownTopicID", TopicRef{Name: "z"}, TopicRef{ID: id(9)})
	f("InvalidRequest", TopicRef{Name: "a", ID: id(1)})
	f("InvalidRequest InvalidRequest ok", TopicRef{Name: "a"}, TopicRef{ID: id(1)}, TopicRef{Name: "b"})
	f("TopicAuthorizationFailed TopicAuthorizationFailed", TopicRef{Name: MetadataTopic}, TopicRef{ID: MetadataTopicID})
}

func TestCreatePartitionsAnswers(t *testing.T) {
	image, _ := apply(t, brokers(t, 2, 0), topicRecords("a", 1, 2, 1)...)
	f := func(want string, specs ...PartitionsSpec) {
		t.Helper()
		records, results := testController().createPartitions(image, CreatePartitionsRequest{Topics: specs})
		var got []string
		for _, r := range results {
			got = append(got, describe(r.Err))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%+v: %s, want %s", specs, s, want)
		}
		if next, _, err := image.Apply(0, records); err != nil || want == "ok" && len(next.Topic("a").Partitions) != int(specs[0].Count) {
			t.Errorf("%+v: %v", specs, err)
		}
	}
	f("ok", PartitionsSpec{Topic: "a", Count: 5})
	f("ok", PartitionsSpec{Topic: "a", Count: 4, Assignment: [][]int32{{2}, {1}}})
	f("UnknownTopic", PartitionsSpec{Topic: "z", Count: 5})
	f("InvalidPartitions", PartitionsSpec{Topic: "a", Count: 2})
	f("InvalidPartitions", PartitionsSpec{Topic: "a", Count: 1})
	f("InvalidPartitions", PartitionsSpec{Topic: "a", Count: -1})
	f("InvalidRequest InvalidRequest", PartitionsSpec{Topic: "a", Count: 3}, PartitionsSpec{Topic: "a", Count: 3})
	f("InvalidAssignment", PartitionsSpec{Topic: "a", Count: 4, Assignment: [][]int32{{2}}})
	f("InvalidAssignment", PartitionsSpec{Topic: "a", Count: 3, Assignment: [][]int32{{2, 1}}})
	f("InvalidAssignment", PartitionsSpec{Topic: "a", Count: 3, Assignment: [][]int32{{7}}})
	f("InvalidAssignment", PartitionsSpec{Topic: "a", Count: 3, Assignment: [][]int32{{}}})
	f("PolicyViolation", PartitionsSpec{Topic: "a", Count: 10003})
	if records, _ := testController().createPartitions(image, CreatePartitionsRequest{ValidateOnly: true, Topics: []PartitionsSpec{{Topic: "a", Count: 5}}}); records != nil {
		t.Error("validate only has records")
	}
}

func TestAlterConfigsAnswers(t *testing.T) {
	image, _ := apply(t, brokers(t, 1, 0), append(topicRecords("a", 1, 1, 1),
		ConfigRecord{Resource: TopicResource, Name: "a", Key: "retention.ms", Value: "1000"},
		ConfigRecord{Resource: TopicResource, Name: "a", Key: "cleanup.policy", Value: "delete"})...)
	topic := func(changes ...ConfigChange) ResourceConfig {
		return ResourceConfig{Type: TopicResource, Name: "a", Changes: changes}
	}
	f := func(want, configs string, resources ...ResourceConfig) {
		t.Helper()
		records, results := testController().alterConfigs(image, AlterConfigsRequest{Resources: resources})
		var got []string
		for _, r := range results {
			got = append(got, describe(r.Err))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%+v: %s, want %s", resources, s, want)
		}
		next, _, err := image.Apply(0, records)
		if err != nil {
			t.Fatal(err)
		}
		if s := fmt.Sprint(next.Topic("a").Config); s != "map["+configs+"]" {
			t.Errorf("%+v: configs %s", resources, s)
		}
	}
	const same = "cleanup.policy:delete retention.ms:1000"
	f("ok", "cleanup.policy:delete retention.ms:5", topic(ConfigChange{Name: "retention.ms", Value: "5"}))
	f("ok", "cleanup.policy:delete", topic(ConfigChange{Name: "retention.ms", Op: OpDelete, Null: true}))
	f("ok", same, topic(ConfigChange{Name: "no.such.key", Op: OpDelete})) // protocol.md 6
	f("ok", "cleanup.policy:delete,compact retention.ms:1000", topic(ConfigChange{Name: "cleanup.policy", Op: OpAppend, Value: "compact"}))
	f("ok", same, topic(ConfigChange{Name: "cleanup.policy", Op: OpAppend, Value: "delete"}))
	f("ok", "cleanup.policy: retention.ms:1000", topic(ConfigChange{Name: "cleanup.policy", Op: OpSubtract, Value: "delete"}))
	f("InvalidConfig", same, topic(ConfigChange{Name: "retention.ms", Op: OpAppend, Value: "1"}))
	f("InvalidConfig", same, topic(ConfigChange{Name: "no.such.key", Value: "1"}))
	f("InvalidConfig", same, topic(ConfigChange{Name: "retention.ms", Value: "x"}))
	f("InvalidRequest", same, topic(ConfigChange{Name: "retention.ms", Null: true}))
	f("InvalidRequest", same, topic(ConfigChange{Name: "retention.ms", Value: "1"}, ConfigChange{Name: "retention.ms", Value: "2"}))
	f("Unknown", same, topic(ConfigChange{Name: "retention.ms", Op: 9, Value: "1"}))
	f("InvalidRequest InvalidRequest", same, topic(ConfigChange{Name: "retention.ms", Value: "1"}), topic())
	f("UnknownTopic", same, ResourceConfig{Type: TopicResource, Name: "z"})
	f("InvalidTopic", same, ResourceConfig{Type: TopicResource, Name: ""})
	f("InvalidRequest", same, ResourceConfig{Type: 16, Name: "z"})
	f("ok", "segment.ms:99999", ResourceConfig{Type: TopicResource, Name: "a", Replace: true, Changes: []ConfigChange{{Name: "segment.ms", Value: "99999"}}})
	f("ok", "", ResourceConfig{Type: TopicResource, Name: "a", Replace: true})
	f("InvalidRequest", same, ResourceConfig{Type: BrokerResource, Name: "x"})
	f("InvalidRequest", same, ResourceConfig{Type: BrokerResource, Name: "7"})
	f("InvalidRequest", same, ResourceConfig{Type: BrokerResource, Name: "01"})
	f("InvalidRequest", same, ResourceConfig{Type: BrokerResource, Name: "", Changes: []ConfigChange{{Name: "log.retention.ms", Value: "x"}}})
	f("ok", same, ResourceConfig{Type: BrokerResource, Name: "", Changes: []ConfigChange{{Name: "log.retention.ms", Value: "5"}}})
	f("ok", same, ResourceConfig{Type: BrokerResource, Name: "1", Changes: []ConfigChange{{Name: "log.retention.ms", Value: "5"}}})
}

// Configs of groups: a group need not exist, and its values are held to the limits of the broker.
func TestAlterGroupConfigs(t *testing.T) {
	const session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
	image, _ := apply(t, brokers(t, 1, 0), ConfigRecord{Resource: GroupResource, Name: "g", Key: session, Value: "50000"})
	f := func(want, configs string, replace bool, name string, changes ...ConfigChange) {
		t.Helper()
		records, results := testController().alterConfigs(image, AlterConfigsRequest{Resources: []ResourceConfig{{Type: GroupResource, Name: name, Replace: replace, Changes: changes}}})
		next, _, err := image.Apply(0, records)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(next.GroupConfig(name))
		if describe(results[0].Err) != want || got != "map["+configs+"]" {
			t.Errorf("%q %+v: %s, %s", name, changes, describe(results[0].Err), got)
		}
	}
	const same = session + ":50000"
	f("ok", session+":55000", false, "g", ConfigChange{Name: session, Value: "55000"})
	f("ok", heartbeat+":6000 "+same, false, "g", ConfigChange{Name: heartbeat, Value: "6000"})
	f("ok", "", false, "g", ConfigChange{Name: session, Op: OpDelete, Null: true})
	f("ok", same, false, "g", ConfigChange{Name: "nosuch", Op: OpDelete, Null: true})
	f("ok", heartbeat+":6000", true, "g", ConfigChange{Name: heartbeat, Value: "6000"})
	f("ok", "", true, "g")
	f("ok", session+":60000", false, "not there/ä", ConfigChange{Name: session, Value: "60000"})
	f("InvalidConfig", same, false, "g", ConfigChange{Name: session, Value: "60001"})
	f("InvalidConfig", same, false, "g", ConfigChange{Name: session, Value: "x"})
	f("InvalidConfig", same, true, "g", ConfigChange{Name: heartbeat, Value: "1"})
	f("InvalidConfig", same, false, "g", ConfigChange{Name: "nosuch", Value: "1"})
	f("InvalidConfig", same, false, "g", ConfigChange{Name: "share.session.timeout.ms", Value: "50000"})
	f("InvalidConfig", same, false, "g", ConfigChange{Name: session, Op: OpAppend, Value: "1"})
	f("InvalidConfig", same, false, "g", ConfigChange{Name: "streams.rack.aware.assignment.tags", Op: OpAppend, Value: "a"})
	f("InvalidRequest", same, false, "g", ConfigChange{Name: session, Null: true})
	f("InvalidRequest", "", false, "", ConfigChange{Name: session, Value: "50000"})
	f("InvalidRequest", "", false, strings.Repeat("g", groupIDBytesMax+1), ConfigChange{Name: session, Value: "50000"})
	f("ok", same, false, strings.Repeat("g", groupIDBytesMax), ConfigChange{Name: session, Value: "50000"})
}

// Any client can set configs of groups that nobody uses: there is an end to it, for new groups.
func TestConfiguredGroupsAreBounded(t *testing.T) {
	const session = "consumer.session.timeout.ms"
	records := make([]Record, configuredGroupsMax)
	for n := range records {
		records[n] = ConfigRecord{Resource: GroupResource, Name: fmt.Sprint(n), Key: session, Value: "50000"}
	}
	image, _ := apply(t, brokers(t, 1, 0), records...)
	for name, want := range map[string]string{"another": "PolicyViolation", "7": "ok"} {
		_, results := testController().alterConfigs(image, AlterConfigsRequest{Resources: []ResourceConfig{{Type: GroupResource, Name: name, Changes: []ConfigChange{{Name: session, Value: "51000"}}}}})
		if got := describe(results[0].Err); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A request may be 100 MiB long and is planned while all other changes wait: what it costs must grow with its length, no faster. With a loop in a loop this
// test takes many minutes.
func TestPlansOfHugeRequests(t *testing.T) {
	const n = 100_000
	image, _ := apply(t, brokers(t, 1, 0), topicRecords("a", 1, 1, 1)...)
	var more []PartitionsSpec
	var topics []TopicSpec
	var items strings.Builder
	for i := range n {
		more = append(more, PartitionsSpec{Topic: fmt.Sprintf("no-topic-%d", i), Count: 5})
		topics = append(topics, spec(fmt.Sprintf("t-%d", i), recordsPerRequestMax, 1))
		if items.Len() < stringBytesMax-10 {
			fmt.Fprintf(&items, "%d:1,", i)
		}
	}
	list := strings.TrimSuffix(items.String(), ",")
	if _, results := testController().createPartitions(image, CreatePartitionsRequest{Topics: more}); results[n-1].Err == nil {
		t.Error("partitions of no topic")
	}
	if _, results := testController().createTopics(image, CreateTopicsRequest{Topics: topics}); results[0].Err == nil || results[n-1].Err.Kind != PolicyViolation {
		t.Errorf("%v, %v", results[0].Err, results[n-1].Err)
	}
	const key = "leader.replication.throttled.replicas"
	change := func(ch ConfigChange) *Error {
		_, results := testController().alterConfigs(image, AlterConfigsRequest{Resources: []ResourceConfig{{Type: TopicResource, Name: "a", Changes: []ConfigChange{ch}}}})
		return results[0].Err
	}
	for _, op := range []ConfigOp{OpSet, OpAppend, OpSubtract} {
		if err := change(ConfigChange{Name: key, Op: op, Value: list}); err != nil {
			t.Errorf("op %d: %v", op, err)
		}
		if err := change(ConfigChange{Name: key, Op: op, Value: strings.Repeat(list, 2)}); err == nil || err.Kind != InvalidRequest {
			t.Errorf("op %d with more than fits: %v", op, err)
		}
	}
	if got := changeList(list, list, OpSubtract); got != "" {
		t.Errorf("all taken away: %d bytes", len(got))
	}
	if got := changeList("a,b,a", "a", OpSubtract) + " " + changeList("a", "b,a,b", OpAppend); got != "b a,b" {
		t.Error(got)
	}
}

// TestPlacement: leaders are balanced, replicas distinct, in different racks when there are enough, fenced brokers last.
func TestPlacement(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		n, racks := 1+r.IntN(9), r.IntN(4)
		rf := 1 + r.IntN(n)
		image := brokers(t, n, racks)
		rounds := 1 + r.IntN(3)
		leads, holds := map[int32]int{}, map[int32]int{}
		p := newPlacer(image.Brokers(), r)
		for range rounds * n {
			ids := p.place(rf)
			if len(ids) != rf || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != rf {
				t.Fatalf("replicas %v, want %d", ids, rf)
			}
			in := map[string]bool{}
			for _, b := range ids {
				in[image.Broker(b).Rack] = true
				holds[b]++
			}
			if want := min(rf, max(racks, 1), n); len(in) != want {
				t.Fatalf("%d brokers in %d racks: replicas %v lie in %d racks, want %d", n, racks, ids, len(in), want)
			}
			leads[ids[0]]++
		}
		for b, count := range leads {
			if count != rounds {
				t.Fatalf("broker %d leads %d of %d", b, count, rounds*n)
			}
		}
		if racks <= 1 {
			for b, count := range holds {
				if count != rounds*rf {
					t.Fatalf("broker %d holds %d replicas, want %d", b, count, rounds*rf)
				}
			}
		}
	}
}

func TestPlacementPrefersUnfenced(t *testing.T) {
	image, _ := apply(t, brokers(t, 3, 0), BrokerChange{ID: 2, Epoch: 1, Fenced: true})
	p := newPlacer(image.Brokers(), rand.New(rand.NewPCG(1, 1)))
	for range 10 {
		if ids := p.place(2); slices.Contains(ids, 2) {
			t.Fatalf("replicas %v hold the fenced broker", ids)
		}
		if ids := p.place(3); ids[2] != 2 {
			t.Fatalf("replicas %v don't have the fenced broker last", ids)
		}
	}
}

// TestElections is a script: one partition on brokers 1, 2, 3, min.insync.replicas 2.
func TestElections(t *testing.T) {
	image, _ := apply(t, brokers(t, 3, 0), TopicRecord{Name: "a", ID: id(1)},
		PartitionRecord{TopicID: id(1), Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: 1},
		ConfigRecord{Resource: TopicResource, Name: "a", Key: "min.insync.replicas", Value: "2"})
	c := testController()
	step := func(what string, plan func(*Image, int32) ([]Record, *Error), broker int32, want string) {
		t.Helper()
		records, err := plan(image, broker)
		if err != nil {
			t.Fatal(err)
		}
		image, _ = apply(t, image, records...)
		p := image.Topic("a").Partitions[0]
		if got := fmt.Sprintf("leader %d epoch %d isr %v elr %v", p.Leader, p.LeaderEpoch, p.ISR, p.ELR); got != want {
			t.Errorf("%s %d: %s, want %s", what, broker, got, want)
		}
	}
	restart := func(i *Image, b int32) ([]Record, *Error) {
		return c.registerBroker(i, Registration{ID: b, Incarnation: [16]byte{1, byte(i.Offset())}})
	}
	step("fence", c.fenceBroker, 2, "leader 1 epoch 0 isr [1 3] elr []")
	step("fence again", c.fenceBroker, 2, "leader 1 epoch 0 isr [1 3] elr []")
	step("fence", c.fenceBroker, 1, "leader 3 epoch 1 isr [3] elr [1]") // below min.insync.replicas: 1 stays eligible
	step("fence", c.fenceBroker, 3, "leader -1 epoch 2 isr [] elr [1 3]")
	step("unfence", c.unfenceBroker, 2, "leader -1 epoch 2 isr [] elr [1 3]") // 2 lacks acknowledged records (B-C7)
	step("unfence", c.unfenceBroker, 3, "leader 3 epoch 3 isr [3] elr [1]")
	step("restart", restart, 3, "leader 3 epoch 4 isr [3] elr [1]")
	step("fence", c.fenceBroker, 3, "leader -1 epoch 5 isr [] elr [1 3]")
	step("restart", restart, 1, "leader 1 epoch 6 isr [1] elr [3]")
	image, _ = apply(t, image, ConfigRecord{Resource: TopicResource, Name: "a", Key: "unclean.leader.election.enable", Value: "true"})
	step("fence", c.fenceBroker, 1, "leader 2 epoch 7 isr [2] elr []")
}

// TestElectionsProperty: whatever happens, the partition stays legal and nobody outside ISR and ELR is elected cleanly.
func TestElectionsProperty(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	c := testController()
	for range 100 {
		image, _ := apply(t, brokers(t, 4, 0), TopicRecord{Name: "a", ID: id(1)},
			PartitionRecord{TopicID: id(1), Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: 1},
			ConfigRecord{Resource: TopicResource, Name: "a", Key: "min.insync.replicas", Value: string(rune('1' + r.IntN(3)))})
		for range 30 {
			plan := c.fenceBroker
			if r.IntN(2) == 0 {
				plan = c.unfenceBroker
			}
			before := image.Topic("a").Partitions[0]
			records, err := plan(image, int32(1+r.IntN(4)))
			if err != nil {
				t.Fatal(err)
			}
			image, _ = apply(t, image, records...)
			after := image.Topic("a").Partitions[0]
			if after.Leader >= 0 && after.Leader != before.Leader && !slices.Contains(append(slices.Clone(before.ISR), before.ELR...), after.Leader) {
				t.Fatalf("%+v became %+v: the leader may lack acknowledged records", before, after)
			}
			if len(after.ISR)+len(after.ELR) == 0 {
				t.Fatalf("%+v became %+v: nobody is known to have everything", before, after)
			}
			if after.Leader >= 0 && image.Broker(after.Leader).Fenced {
				t.Fatalf("%+v is led by a fenced broker", after)
			}
		}
	}
}

func TestProducerIDBlocks(t *testing.T) {
	image, c := brokers(t, 1, 0), testController()
	for n := range int64(3) {
		records, block, err := c.allocateProducerIDs(image, 1)
		if err != nil || block.First != n*ProducerIDBlockSize || block.Count != ProducerIDBlockSize {
			t.Fatalf("block %+v, %v", block, err)
		}
		image, _ = apply(t, image, records...)
	}
	image, _ = apply(t, image, ProducerIDs{Next: maxProducerID - 5})
	if _, _, err := c.allocateProducerIDs(image, 1); err == nil {
		t.Error("ids beyond the last one")
	}
}

func TestRandomIDs(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 5000 {
		if id := randomUUID(r); id[6]>>4 != 4 || id[8]>>6 != 2 || id[0]>>2 == 62 {
			t.Fatalf("%x is no version 4 UUID without a leading '-'", id)
		}
	}
}
