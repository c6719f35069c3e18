package assign

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// on makes a member that subscribes to topics (between spaces).
func on(id, topics string) Member {
	return Member{ID: id, Topics: strings.Fields(topics), Generation: -1}
}

// tps reads partitions: "t-0 t-1".
func tps(s string) (all []TopicPartition) {
	for f := range strings.FieldsSeq(s) {
		i := strings.LastIndexByte(f, '-')
		var p int32
		if _, err := fmt.Sscan(f[i+1:], &p); err != nil {
			panic(err)
		}
		all = append(all, TopicPartition{f[:i], p})
	}
	return all
}

// text is an answer: "c0: a-0 a-1; c1: a-2", members by id.
func text(answer map[string][]TopicPartition) string {
	var ids []string
	for id := range answer {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(id + ":")
		for _, p := range answer[id] {
			fmt.Fprintf(&b, " %s-%d", p.Topic, p.Partition)
		}
	}
	return b.String()
}

// example is a question with its answer.
type example struct {
	name       string
	assignor   Assignor
	members    []Member
	partitions map[string]int32
	want       string
}

func (e *example) check(t *testing.T) {
	t.Helper()
	if got := text(e.assignor.Assign(e.members, e.partitions)); got != e.want {
		t.Errorf("%s:\n got %s\nwant %s", e.name, got, e.want)
	}
	turned := slices.Clone(e.members)
	slices.Reverse(turned)
	if got := text(e.assignor.Assign(turned, e.partitions)); got != e.want {
		t.Errorf("%s, members in another order:\n got %s\nwant %s", e.name, got, e.want)
	}
}

func TestRangeExamples(t *testing.T) {
	three := []Member{on("C1", "t"), on("C2", "t"), on("C3", "t")}
	both := []Member{on("C1", "t u"), on("C2", "u t"), on("C3", "t u")}
	for _, e := range []example{
		{"10 partitions", Range, three, map[string]int32{"t": 10}, "C1: t-0 t-1 t-2 t-3; C2: t-4 t-5 t-6; C3: t-7 t-8 t-9"},
		{"11 partitions", Range, three, map[string]int32{"t": 11}, "C1: t-0 t-1 t-2 t-3; C2: t-4 t-5 t-6 t-7; C3: t-8 t-9 t-10"},
		{"two topics of 10", Range, both, map[string]int32{"t": 10, "u": 10},
			"C1: t-0 t-1 t-2 t-3 u-0 u-1 u-2 u-3; C2: t-4 t-5 t-6 u-4 u-5 u-6; C3: t-7 t-8 t-9 u-7 u-8 u-9"},
		{"two topics of 4, two consumers", Range, []Member{on("c1", "t u"), on("c2", "t u")}, map[string]int32{"t": 4, "u": 4}, "c1: t-0 t-1 u-0 u-1; c2: t-2 t-3 u-2 u-3"},
		{"more members than partitions", Range, three, map[string]int32{"t": 2}, "C1: t-0; C2: t-1; C3:"},
		{"different subscriptions", Range, []Member{on("a", "t"), on("b", "t u"), on("c", "u")}, map[string]int32{"t": 3, "u": 3}, "a: t-0 t-1; b: t-2 u-0 u-1; c: u-2"},
		{"a topic that does not exist", Range, []Member{on("a", "gone t")}, map[string]int32{"t": 1, "other": 5}, "a: t-0"},
		{"a topic named twice", Range, []Member{on("a", "t t"), on("b", "t")}, map[string]int32{"t": 2}, "a: t-0; b: t-1"},
		{"static members first, by instance id", Range,
			[]Member{{ID: "a", Topics: []string{"t"}}, {ID: "z", InstanceID: "1", Topics: []string{"t"}}, {ID: "b", InstanceID: "2", Topics: []string{"t"}}},
			map[string]int32{"t": 3}, "a: t-2; b: t-1; z: t-0"},
		{"nobody", Range, nil, map[string]int32{"t": 3}, ""},
	} {
		e.check(t)
	}
}

func TestRoundRobinExamples(t *testing.T) {
	all := []Member{on("c0", "T0 T1"), on("c1", "T0 T1"), on("c2", "T0 T1")}
	for _, e := range []example{
		{"two topics of 3, three consumers", RoundRobin, all, map[string]int32{"T0": 3, "T1": 3}, "c0: T0-0 T1-0; c1: T0-1 T1-1; c2: T0-2 T1-2"},
		{"1, 2 and 3 partitions, different subscriptions", RoundRobin, []Member{on("c0", "T0"), on("c1", "T0 T1"), on("c2", "T0 T1 T2")},
			map[string]int32{"T0": 1, "T1": 2, "T2": 3}, "c0: T0-0; c1: T1-0; c2: T1-1 T2-0 T2-1 T2-2"},
		{"the turn goes on over topics", RoundRobin, all, map[string]int32{"T0": 2, "T1": 2}, "c0: T0-0 T1-1; c1: T0-1; c2: T1-0"},
		{"static members first", RoundRobin, []Member{on("a", "t"), {ID: "b", InstanceID: "i", Topics: []string{"t"}}}, map[string]int32{"t": 3}, "a: t-1; b: t-0 t-2"},
		{"nothing to give", RoundRobin, all, nil, "c0:; c1:; c2:"},
	} {
		e.check(t)
	}
}

// randomGroup is a group with random subscriptions. A topic may not exist, a member subscribe to nothing.
func randomGroup(r *rand.Rand) ([]Member, map[string]int32) {
	partitions := map[string]int32{}
	for i := range 1 + r.IntN(5) {
		partitions[fmt.Sprint("t", i)] = r.Int32N(9)
	}
	uniform := r.IntN(3) == 0
	members := make([]Member, 1+r.IntN(6))
	for i := range members {
		m := Member{ID: fmt.Sprint("m", r.IntN(1000), "-", i), Generation: -1}
		if r.IntN(4) == 0 {
			m.InstanceID = fmt.Sprint("i", i)
		}
		for k := range 6 {
			if uniform || r.IntN(2) == 0 {
				m.Topics = append(m.Topics, fmt.Sprint("t", k))
			}
		}
		members[i] = m
	}
	return members, partitions
}

// checkValid: each partition of a topic with a subscriber is given to exactly one of them (or is in withheld), nothing else is, and every member is there.
func checkValid(t *testing.T, members []Member, partitions map[string]int32, answer map[string][]TopicPartition, withheld map[TopicPartition]bool) {
	t.Helper()
	if len(answer) != len(members) {
		t.Fatalf("%d members, %d in the answer", len(members), len(answer))
	}
	owner := map[TopicPartition]string{}
	wanted := map[string]bool{}
	for _, m := range members {
		for _, topic := range m.Topics {
			wanted[topic] = true
		}
		for _, p := range answer[m.ID] {
			if other, twice := owner[p]; twice {
				t.Fatalf("%v is given to %s and %s", p, other, m.ID)
			}
			owner[p] = m.ID
			if !slices.Contains(m.Topics, p.Topic) || p.Partition < 0 || p.Partition >= partitions[p.Topic] {
				t.Fatalf("%s gets %v", m.ID, p)
			}
		}
	}
	for topic, n := range partitions {
		for p := range n {
			tp := TopicPartition{topic, p}
			if _, ok := owner[tp]; ok == withheld[tp] && wanted[topic] {
				t.Fatalf("%v: owned %v, withheld %v", tp, ok, withheld[tp])
			}
		}
	}
}

// Range and RoundRobin on random groups: valid, independent of the order of the members, and as even as they promise.
func TestSimpleAssignorsModel(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		members, partitions := randomGroup(r)
		for _, a := range []Assignor{Range, RoundRobin} {
			answer := a.Assign(members, partitions)
			checkValid(t, members, partitions, answer, nil)
			turned := slices.Clone(members)
			r.Shuffle(len(turned), func(i, j int) { turned[i], turned[j] = turned[j], turned[i] })
			if other := a.Assign(turned, partitions); !reflect.DeepEqual(answer, other) {
				t.Fatalf("seed %d, %s: %s, in another order %s", seed, a.Name(), text(answer), text(other))
			}
			checkEven(t, a, members, answer)
		}
	}
}

// checkEven: Range's members have the same number of a topic's partitions, give or take one; RoundRobin's of all when they subscribe to the same.
func checkEven(t *testing.T, a Assignor, members []Member, answer map[string][]TopicPartition) {
	t.Helper()
	perTopic := map[string][]int{}
	var totals []int
	for _, m := range members {
		if a == RoundRobin && !slices.Equal(m.Topics, members[0].Topics) {
			return
		}
		for _, topic := range m.Topics {
			n := 0
			for _, p := range answer[m.ID] {
				if p.Topic == topic {
					n++
				}
			}
			perTopic[topic] = append(perTopic[topic], n)
		}
		totals = append(totals, len(answer[m.ID]))
	}
	if a == RoundRobin {
		perTopic = map[string][]int{"all": totals}
	}
	for topic, counts := range perTopic {
		if slices.Max(counts)-slices.Min(counts) > 1 {
			t.Fatalf("%s: %s: %v", a.Name(), topic, counts)
		}
	}
}
