package metadata

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func topicRecords(name string, n byte, partitions int, leader int32) []Record {
	records := []Record{TopicRecord{Name: name, ID: id(n)}}
	for p := range partitions {
		records = append(records, PartitionRecord{TopicID: id(n), Partition: int32(p), Replicas: []int32{leader}, ISR: []int32{leader}, Leader: leader})
	}
	return records
}

func TestApplyCreatesAndRemoves(t *testing.T) {
	i0 := brokers(t, 1, 0)
	i1, d := apply(t, i0, topicRecords("a.b", 1, 2, 1)...)
	if len(d.Created) != 1 || d.Created[0] != i1.Topic("a.b") || i1.TopicByID(id(1)) != i1.Topic("a.b") {
		t.Fatalf("delta %+v", d)
	}
	if i0.Topic("a.b") != nil || i0.TopicCount() != 0 || i0.PartitionCount() != 0 {
		t.Fatal("the old image changed")
	}
	if i1.PartitionCount() != 2 || i1.Offset() != i0.Offset()+3 || i1.Collision("a_b") != "a.b" || i1.Collision("a.b") != "" {
		t.Fatalf("image %+v", i1)
	}
	i2, d := apply(t, i1, ConfigRecord{Resource: TopicResource, Name: "a.b", Key: "k", Value: "v"},
		PartitionChange{TopicID: id(1), Partition: 1, Leader: 1})
	c := d.Changed[0]
	if !c.Config || !reflect.DeepEqual(c.Partitions, []int32{1}) || c.Prev != i1.Topic("a.b") || c.Next != i2.Topic("a.b") {
		t.Fatalf("change %+v", c)
	}
	if p := c.Next.Partitions; p[1].LeaderEpoch != 1 || p[1].PartitionEpoch != 1 || p[0].LeaderEpoch != 0 || c.Prev.Partitions[1].LeaderEpoch != 0 {
		t.Fatalf("partitions %+v, before %+v", p, c.Prev.Partitions)
	}
	i3, d := apply(t, i2, append([]Record{RemoveTopic{ID: id(1)}}, topicRecords("a.b", 2, 1, 1)...)...)
	if len(d.Removed) != 1 || d.Removed[0] != i2.Topic("a.b") || len(d.Created) != 1 || d.Created[0].ID != id(2) || len(d.Changed) != 0 {
		t.Fatalf("recreated in one commit: %+v", d)
	}
	if i3.PartitionCount() != 1 || i3.Topic("a.b").Config != nil || i3.TopicByID(id(1)) != nil || i3.Collision("a_b") != "a.b" {
		t.Fatalf("image %+v", i3)
	}
	i4, d := apply(t, i3, append(topicRecords("x", 3, 1, 1), RemoveTopic{ID: id(3)})...)
	if !d.Empty() || i4.TopicCount() != 1 {
		t.Fatalf("created and removed in one commit: %+v", d)
	}
}

// TestRegistrationBumpsLeaderEpochs: whoever restarts leads in a new epoch (B-D1); who registers again in the same life does not.
func TestRegistrationBumpsLeaderEpochs(t *testing.T) {
	image, _ := apply(t, brokers(t, 2, 0), append(topicRecords("a", 1, 2, 1), topicRecords("b", 2, 1, 2)...)...)
	epochs := func(i *Image) string {
		a, b := i.Topic("a"), i.Topic("b")
		return fmt.Sprint(a.Partitions[0].LeaderEpoch, a.Partitions[1].LeaderEpoch, b.Partitions[0].LeaderEpoch)
	}
	same, d := apply(t, image, BrokerRegistration{ID: 1, Epoch: -1, Incarnation: image.Broker(1).Incarnation, Rack: "z"})
	if got := epochs(same); got != "0 0 0" || len(d.Changed) != 0 || same.Broker(1).Rack != "z" {
		t.Errorf("same life: epochs %s, %+v", got, d)
	}
	next, d := apply(t, image, BrokerRegistration{ID: 1, Epoch: -1, Incarnation: id(9)})
	if got := epochs(next); got != "1 1 0" || !reflect.DeepEqual(d.Brokers, []int32{1}) || len(d.Changed) != 1 {
		t.Errorf("new life: epochs %s, %+v", got, d)
	}
	if next.Broker(1).Epoch != image.Offset() {
		t.Errorf("broker epoch %d, the record is at %d", next.Broker(1).Epoch, image.Offset())
	}
}

func TestApplyRefusesWhatDoesNotFit(t *testing.T) {
	image, _ := apply(t, brokers(t, 1, 0), append(topicRecords("a", 1, 1, 1), ProducerIDs{Next: 1000})...)
	f := func(want string, r Record) {
		t.Helper()
		if _, _, err := image.Apply(0, []Record{r}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%#v: %v, want %q", r, err, want)
		}
	}
	f("exists", TopicRecord{Name: "a", ID: id(2)})
	f("taken", TopicRecord{Name: "b", ID: id(1)})
	f("zero", TopicRecord{Name: "b"})
	f("name", TopicRecord{Name: "no/slash", ID: id(2)})
	f("no topic", PartitionRecord{TopicID: id(2), Replicas: []int32{1}})
	f("next one is 1", PartitionRecord{TopicID: id(1), Partition: 0, Replicas: []int32{1}})
	f("no replicas", PartitionRecord{TopicID: id(1), Partition: 1, Leader: -1})
	f("replicas", PartitionRecord{TopicID: id(1), Partition: 1, Replicas: []int32{1, 1}})
	f("isr", PartitionRecord{TopicID: id(1), Partition: 1, Replicas: []int32{1}, ISR: []int32{2}})
	f("elr", PartitionRecord{TopicID: id(1), Partition: 1, Replicas: []int32{1}, ISR: []int32{1}, ELR: []int32{1}})
	f("leader", PartitionRecord{TopicID: id(1), Partition: 1, Replicas: []int32{1}, Leader: 1})
	f("no partition 1", PartitionChange{TopicID: id(1), Partition: 1, Leader: NoChange})
	f("no partition -1", PartitionChange{TopicID: id(1), Partition: -1, Leader: NoChange})
	f("no topic", RemoveTopic{ID: id(2)})
	f("does not exist", ConfigRecord{Resource: TopicResource, Name: "b", Key: "k"})
	f("newer", ConfigRecord{Resource: 16, Name: "b", Key: "k"})
	f("given twice", ProducerIDs{Next: 999})
	f("not registered", BrokerChange{ID: 1, Epoch: 77})
	f("no place", snapshotHeader{})
}

func TestBrokerConfigs(t *testing.T) {
	i1, d := apply(t, Empty(), ConfigRecord{Resource: BrokerResource, Name: "", Key: "a", Value: "1"}, ConfigRecord{Resource: BrokerResource, Name: "1", Key: "b", Value: "2"})
	if !reflect.DeepEqual(d.BrokerConfigs, []string{"", "1"}) {
		t.Errorf("delta %+v", d)
	}
	i2, _ := apply(t, i1, ConfigRecord{Resource: BrokerResource, Name: "", Key: "a", Value: "3"}, ConfigRecord{Resource: BrokerResource, Name: "1", Key: "b", Delete: true})
	if i1.BrokerConfig("")["a"] != "1" || i2.BrokerConfig("")["a"] != "3" || i2.BrokerConfig("1") != nil || i1.BrokerConfig("1")["b"] != "2" {
		t.Errorf("before %v, after %v", i1.configs, i2.configs)
	}
}

func TestGroupConfigs(t *testing.T) {
	set := func(group, key, value string) ConfigRecord {
		return ConfigRecord{Resource: GroupResource, Name: group, Key: key, Value: value}
	}
	i1, d := apply(t, Empty(), set("b", "k", "1"), set("a", "k", "2"), set("b", "l", "3"))
	if !reflect.DeepEqual(d.GroupConfigs, []string{"a", "b"}) || d.Empty() {
		t.Errorf("delta %+v", d)
	}
	i2, d := apply(t, i1, set("b", "k", "4"), ConfigRecord{Resource: GroupResource, Name: "a", Key: "k", Delete: true},
		set("c", "k", "5"), ConfigRecord{Resource: GroupResource, Name: "c", Key: "k", Delete: true})
	if !reflect.DeepEqual(d.GroupConfigs, []string{"a", "b", "c"}) {
		t.Errorf("delta %+v", d)
	}
	if got := fmt.Sprint(i1.ConfiguredGroups(), i1.GroupConfig("a"), i1.GroupConfig("b"), i1.GroupConfig("z")); got != "[a b] map[k:2] map[k:1 l:3] map[]" {
		t.Errorf("the image before: %s", got)
	}
	if got := fmt.Sprint(i2.ConfiguredGroups(), i2.GroupConfig("a") == nil, i2.GroupConfig("b")); got != "[b] true map[k:4 l:3]" {
		t.Errorf("the image after: %s", got)
	}
}

func TestTopicsAreSorted(t *testing.T) {
	image := brokers(t, 1, 0)
	for n, name := range []string{"c", "a", "b"} {
		image, _ = apply(t, image, topicRecords(name, byte(n+1), 1, 1)...)
	}
	var names []string
	for _, topic := range image.Topics() {
		names = append(names, topic.Name)
	}
	if got := strings.Join(names, " "); got != "a b c" {
		t.Error(got)
	}
}

func bigImage(b testing.TB, topics int) *Image {
	e := newEditor(brokers(b, 1, 0))
	for n := range topics {
		var tid [16]byte
		copy(tid[:], fmt.Sprintf("%016d", n))
		for _, r := range []Record{TopicRecord{Name: fmt.Sprintf("topic-%06d", n), ID: tid},
			PartitionRecord{TopicID: tid, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1}} {
			if err := e.apply(r); err != nil {
				b.Fatal(err)
			}
		}
	}
	image, _ := e.finish()
	return image
}

// BenchmarkApplyOne100k changes one of 100,000 partitions.
func BenchmarkApplyOne100k(b *testing.B) {
	image := bigImage(b, 100000)
	var tid [16]byte
	copy(tid[:], fmt.Sprintf("%016d", 500))
	change := []Record{PartitionChange{TopicID: tid, Leader: 1}}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := image.Apply(0, change); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRegister100k bumps the leader epochs of 100,000 partitions.
func BenchmarkRegister100k(b *testing.B) {
	image := bigImage(b, 100000)
	for b.Loop() {
		if _, _, err := image.Apply(0, []Record{BrokerRegistration{ID: 1, Epoch: -1, Incarnation: id(77)}}); err != nil {
			b.Fatal(err)
		}
	}
}
