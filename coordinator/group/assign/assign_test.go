package assign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func id(n int) (t TopicID) {
	t[14], t[15] = byte(n>>8), byte(n)
	return t
}

// topics makes topics 1, 2, ... with so many partitions.
func topics(partitions ...int32) (all []Topic) {
	for i, n := range partitions {
		all = append(all, Topic{id(i + 1), n})
	}
	return all
}

// parse reads "1:0,1 2:3".
func parse(s string) (a Assignment) {
	for f := range strings.FieldsSeq(s) {
		var topic int
		name, list, _ := strings.Cut(f, ":")
		fmt.Sscan(name, &topic)
		p := Partitions{Topic: id(topic)}
		for n := range strings.SplitSeq(list, ",") {
			var v int32
			fmt.Sscan(n, &v)
			p.Partitions = append(p.Partitions, v)
		}
		a = append(a, p)
	}
	return a
}

func show(a Assignment) string {
	var all []string
	for _, p := range a {
		all = append(all, fmt.Sprintf("%d:%s", int(p.Topic[14])<<8|int(p.Topic[15]), strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Partitions), " ", ","), "[]")))
	}
	return strings.Join(all, " ")
}

func static(name string) *string { return &name }

// The situations of Kafka's documentation and of its own tests, and what is promised for each.
func TestExamples(t *testing.T) {
	both := topics(3, 2)
	for name, c := range map[string]struct {
		assignor Assignor
		members  []Member
		want     []string
	}{
		"uniform: nobody":                  {Uniform, nil, nil},
		"uniform: no topics":               {Uniform, []Member{{ID: "a"}}, []string{""}},
		"uniform: one member gets all":     {Uniform, []Member{{ID: "a", Topics: both}}, []string{"1:0,1,2 2:0,1"}},
		"uniform: two members, two topics": {Uniform, []Member{{ID: "a", Topics: both}, {ID: "b", Topics: both}}, []string{"1:0,2 2:1", "1:1 2:0"}},
		"uniform: more members than partitions": {Uniform, []Member{{ID: "a", Topics: topics(2)}, {ID: "b", Topics: topics(2)}, {ID: "c", Topics: topics(2)}},
			[]string{"1:0", "1:1", ""}},
		"uniform: a member joins": {Uniform, []Member{{ID: "a", Topics: topics(3, 3), Current: parse("1:0,2 2:0")}, {ID: "b", Topics: topics(3, 3), Current: parse("1:1 2:1,2")},
			{ID: "c", Topics: topics(3, 3)}}, []string{"1:0,2", "1:1 2:1", "2:0,2"}},
		"uniform: a member leaves": {Uniform, []Member{{ID: "a", Topics: topics(3, 3), Current: parse("1:0 2:0")}, {ID: "b", Topics: topics(3, 3), Current: parse("1:1 2:1")}},
			[]string{"1:0,2 2:0", "1:1 2:1,2"}},
		"uniform: more partitions": {Uniform, []Member{{ID: "a", Topics: topics(6), Current: parse("1:0,2")}, {ID: "b", Topics: topics(6), Current: parse("1:1,3")}},
			[]string{"1:0,2,4", "1:1,3,5"}},
		"uniform: a topic is not wanted any more": {Uniform, []Member{{ID: "a", Topics: topics(4)[:1], Current: parse("1:0,1 2:0")}, {ID: "b", Topics: topics(4)[:1], Current: parse("1:2,3 2:1")}},
			[]string{"1:0,1", "1:2,3"}},
		"uniform: nonsense is ignored": {Uniform, []Member{{ID: "a", Topics: topics(2), Current: parse("1:-1,0,7 9:1")}, {ID: "b", Topics: topics(2), Current: parse("1:0")}},
			[]string{"1:0", "1:1"}},
		"uniform: who has more keeps the one on top": {Uniform, []Member{{ID: "a", Topics: topics(3), Current: parse("1:0")}, {ID: "b", Topics: topics(3), Current: parse("1:1,2")}},
			[]string{"1:0", "1:1,2"}},
		"uniform: different topics": {Uniform, []Member{{ID: "a", Topics: topics(3, 3)[:1]}, {ID: "b", Topics: topics(3, 3)}}, []string{"1:0,1,2", "2:0,1,2"}},
		"uniform: different topics, three members": {Uniform, []Member{{ID: "a", Topics: topics(3, 6)}, {ID: "b", Topics: topics(3, 6)[:1]}, {ID: "c", Topics: topics(3, 6)[1:]}},
			[]string{"1:0 2:2,4", "1:1,2", "2:0,1,3,5"}},

		"range: nobody":                  {Range, nil, nil},
		"range: two members, two topics": {Range, []Member{{ID: "a", Topics: topics(3, 3)}, {ID: "b", Topics: topics(3, 3)}}, []string{"1:0,1 2:0,1", "1:2 2:2"}},
		"range: more members than partitions": {Range, []Member{{ID: "a", Topics: topics(2, 2)}, {ID: "b", Topics: topics(2, 2)}, {ID: "c", Topics: topics(2, 2)}},
			[]string{"1:0 2:0", "1:1 2:1", ""}},
		"range: different topics": {Range, []Member{{ID: "a", Topics: topics(3, 3)}, {ID: "b", Topics: topics(3, 3, 2)[2:]}, {ID: "c", Topics: topics(3, 3, 2)[1:]}},
			[]string{"1:0,1,2 2:0,1", "3:0", "2:2 3:1"}},
		"range: static members keep their place under new ids": {Range, []Member{{ID: "a", Topics: topics(4), Instance: static("two")}, {ID: "b", Topics: topics(4)}, {ID: "z", Topics: topics(4), Instance: static("one")}},
			[]string{"1:2", "1:3", "1:0,1"}},
	} {
		got := c.assignor(c.members)
		for i := range c.want {
			if show(got[i]) != c.want[i] {
				t.Errorf("%s: %s got %q, want %q", name, c.members[i].ID, show(got[i]), c.want[i])
			}
		}
		if len(got) != len(c.members) {
			t.Errorf("%s: %d assignments for %d members", name, len(got), len(c.members))
		}
	}
}

// checkOwners: every partition of a subscribed topic has one owner, who subscribes to it; nothing else is owned. Sorted.
func checkOwners(t *testing.T, members []Member, got []Assignment) {
	t.Helper()
	owner := map[string]int{}
	for i, a := range got {
		if !slices.IsSortedFunc(a, func(x, y Partitions) int { return compareIDs(x.Topic, y.Topic) }) {
			t.Fatalf("not in order: %s", show(a))
		}
		for _, p := range a {
			n := slices.IndexFunc(members[i].Topics, func(t Topic) bool { return t.ID == p.Topic })
			if n < 0 || len(p.Partitions) == 0 || !slices.IsSorted(p.Partitions) {
				t.Fatalf("%s got %s", members[i].ID, show(a))
			}
			for _, q := range p.Partitions {
				key := fmt.Sprint(p.Topic, q)
				if other, ok := owner[key]; ok || q < 0 || q >= members[i].Topics[n].Partitions {
					t.Fatalf("partition %d of %v: %d and %d", q, p.Topic, i, other)
				}
				owner[key] = i
			}
		}
	}
	want := map[TopicID]int32{}
	for i := range members {
		for _, topic := range members[i].Topics {
			want[topic.ID] = topic.Partitions
		}
	}
	total := 0
	for _, n := range want {
		total += int(n)
	}
	if len(owner) != total {
		t.Fatalf("%d of %d partitions have an owner", len(owner), total)
	}
}

func spread(got []Assignment) int {
	least, most := 1<<30, 0
	for _, a := range got {
		least, most = min(least, a.Count()), max(most, a.Count())
	}
	return most - least
}

// kept is how many of the partitions that members had they have still.
func kept(members []Member, got []Assignment) (n int) {
	for i := range members {
		for _, p := range members[i].Current {
			for _, q := range p.Partitions {
				if got[i].Has(p.Topic, q) {
					n++
				}
			}
		}
	}
	return n
}

// mostKept is how many can be kept by any assignment of total partitions that is even.
func mostKept(members []Member, total int) (n int) {
	least, more := total/len(members), total%len(members)
	for i := range members {
		has := members[i].Current.Count()
		n += min(has, least)
		if has > least && more > 0 {
			n++
			more--
		}
	}
	return n
}

// checkNoBetterMove: no partition can go to another subscriber so that the two come closer together.
func checkNoBetterMove(t *testing.T, members []Member, got []Assignment) {
	t.Helper()
	for i, a := range got {
		for _, p := range a {
			for j := range members {
				if slices.ContainsFunc(members[j].Topics, func(t Topic) bool { return t.ID == p.Topic }) && a.Count()-got[j].Count() >= 2 {
					t.Fatalf("%s has %d, %s has %d, and both subscribe to %v", members[i].ID, a.Count(), members[j].ID, got[j].Count(), p.Topic)
				}
			}
		}
	}
}

// A group lives: members come, go and change their minds, topics grow and go. What is promised holds after every step.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		same := seed%2 == 0
		sizes := make([]int32, 1+rng.IntN(8))
		for i := range sizes {
			sizes[i] = int32(rng.IntN(20))
		}
		var members []Member
		for range 50 {
			members = step(rng, members, sizes, same)
			got := Uniform(members)
			checkOwners(t, members, got)
			if len(members) > 0 && same {
				if n := spread(got); n > 1 {
					t.Fatalf("seed %d: the assignment is uneven by %d", seed, n)
				}
				usable := valid(members)
				total := 0
				for _, topic := range members[0].Topics {
					total += int(topic.Partitions)
				}
				if n, most := kept(usable, got), mostKept(usable, total); n != most {
					t.Fatalf("seed %d: %d partitions stay, %d could", seed, n, most)
				}
			}
			checkNoBetterMove(t, members, got)
			again := Uniform(slices.Clone(members))
			for i := range members {
				if !got[i].Equal(again[i]) {
					t.Fatalf("seed %d: the same question has two answers", seed)
				}
				members[i].Current = got[i]
			}
			for i, a := range Uniform(members) {
				if !a.Equal(got[i]) {
					t.Fatalf("seed %d: an assignment that is right does not stay", seed)
				}
			}
			ranges := Range(members)
			checkOwners(t, members, ranges)
			checkRanges(t, members, ranges)
		}
	}
}

// valid is members with what of their current assignment still makes sense.
func valid(members []Member) []Member {
	all := slices.Clone(members)
	for i := range all {
		var a Assignment
		for _, p := range all[i].Current {
			n := slices.IndexFunc(all[i].Topics, func(t Topic) bool { return t.ID == p.Topic })
			if n < 0 {
				continue
			}
			q := slices.DeleteFunc(slices.Clone(p.Partitions), func(q int32) bool { return q >= all[i].Topics[n].Partitions })
			if len(q) > 0 {
				a = append(a, Partitions{p.Topic, q})
			}
		}
		all[i].Current = a
	}
	return all
}

func step(rng *rand.Rand, members []Member, sizes []int32, same bool) []Member {
	members = slices.Clone(members)
	switch n := rng.IntN(10); {
	case n < 5 || len(members) == 0:
		members = append(members, Member{ID: fmt.Sprintf("m%06d", rng.IntN(1_000_000))})
		if rng.IntN(4) == 0 {
			members[len(members)-1].Instance = static(members[len(members)-1].ID)
		}
	case n < 8:
		i := rng.IntN(len(members))
		members = slices.Delete(members, i, i+1)
	default:
		sizes[rng.IntN(len(sizes))] = int32(rng.IntN(25))
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	members = slices.CompactFunc(members, func(a, b Member) bool { return a.ID == b.ID })
	all := topics(sizes...)
	for i := range members {
		switch {
		case same:
			members[i].Topics = all
		case len(members[i].Topics) == 0 || rng.IntN(5) == 0: // another subscription
			members[i].Topics = slices.DeleteFunc(slices.Clone(all), func(Topic) bool { return rng.IntN(2) == 0 })
		default: // the same one, of topics as they are now
			var topics []Topic
			for _, old := range members[i].Topics {
				topics = append(topics, all[int(old.ID[15])-1])
			}
			members[i].Topics = topics
		}
	}
	return members
}

// checkRanges: every member's partitions of a topic are consecutive, and as many as another's, give or take one.
func checkRanges(t *testing.T, members []Member, got []Assignment) {
	t.Helper()
	for i, a := range got {
		for _, p := range a {
			if n := len(p.Partitions); int(p.Partitions[n-1]-p.Partitions[0]) != n-1 {
				t.Fatalf("%s got %s", members[i].ID, show(a))
			}
			for j := range members {
				if slices.ContainsFunc(members[j].Topics, func(t Topic) bool { return t.ID == p.Topic }) && len(p.Partitions)-len(got[j].Of(p.Topic)) > 1 {
					t.Fatalf("%s got %d partitions of a topic, %s %d", members[i].ID, len(p.Partitions), members[j].ID, len(got[j].Of(p.Topic)))
				}
			}
		}
	}
}

// large is a group of 500 members on 5,000 partitions of 50 topics that is stable.
func large(same bool) []Member {
	sizes := make([]int32, 50)
	for i := range sizes {
		sizes[i] = 100
	}
	all := topics(sizes...)
	members := make([]Member, 500)
	for i := range members {
		members[i] = Member{ID: fmt.Sprintf("m%04d", i), Topics: all}
		if !same {
			members[i].Topics = append(slices.Clone(all[i%10:i%10+20]), all[45:]...)
			if i%2 == 1 {
				members[i].Topics = slices.Clone(all)
			}
		}
	}
	for i, a := range Uniform(members) {
		members[i].Current = a
	}
	return members
}

func BenchmarkOneMoreMember(b *testing.B) {
	for name, same := range map[string]bool{"same": true, "different": false} {
		members := large(same)
		members = append(members, Member{ID: "n", Topics: members[1].Topics})
		b.Run("uniform/"+name, func(b *testing.B) {
			for b.Loop() {
				Uniform(members)
			}
		})
		b.Run("range/"+name, func(b *testing.B) {
			for b.Loop() {
				Range(members)
			}
		})
	}
}
