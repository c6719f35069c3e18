package assign

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// next is the same group in its next generation, the members with what they were given.
func next(a Assignor, members []Member, answer map[string][]TopicPartition, generation int32) []Member {
	members = slices.Clone(members)
	for i := range members {
		m := &members[i]
		m.UserData = a.UserData(answer[m.ID], generation)
		m.Generation = generation
		if a.Cooperative() {
			m.Owned = answer[m.ID]
		}
	}
	return members
}

func TestStickyExamples(t *testing.T) {
	different := []Member{on("c0", "T0"), on("c1", "T0 T1"), on("c2", "T0 T1 T2")}
	four := map[string]int32{"t0": 2, "t1": 2, "t2": 2, "t3": 2}
	three := []Member{on("c0", "t0 t1 t2 t3"), on("c1", "t0 t1 t2 t3"), on("c2", "t0 t1 t2 t3")}
	for _, a := range []Assignor{Sticky, CooperativeSticky} {
		for _, e := range []example{
			{"1, 2 and 3 partitions, different subscriptions", a, different, map[string]int32{"T0": 1, "T1": 2, "T2": 3}, "c0: T0-0; c1: T1-0 T1-1; c2: T2-0 T2-1 T2-2"},
			{"4 topics of 2 partitions", a, three, four, "c0: t0-0 t1-1 t3-0; c1: t0-1 t2-0 t3-1; c2: t1-0 t2-1"},
			{"nothing", a, nil, four, ""},
			{"no topic", a, three, nil, "c0:; c1:; c2:"},
		} {
			e.check(t)
		}
	}
}

// A member leaves: only what it had moves.
func TestStickyMemberLeaves(t *testing.T) {
	partitions := map[string]int32{"t0": 2, "t1": 2, "t2": 2, "t3": 2}
	members := []Member{on("c0", "t0 t1 t2 t3"), on("c1", "t0 t1 t2 t3"), on("c2", "t0 t1 t2 t3")}
	for _, a := range []Assignor{Sticky, CooperativeSticky} {
		members := next(a, members, a.Assign(members, partitions), 1)
		e := example{"c1 leaves", a, []Member{members[0], members[2]}, partitions, "c0: t0-0 t1-1 t2-0 t3-0; c2: t0-1 t1-0 t2-1 t3-1"}
		e.check(t)
	}
}

// Where even and sticky stand against each other, even wins: two that have four each give one of them to the third... and no more than that.
func TestStickyEvenWins(t *testing.T) {
	members := []Member{on("a", "t"), on("b", "t"), on("c", "t")}
	members[0].UserData = Sticky.UserData(tps("t-0 t-1 t-2 t-3"), 5)
	members[1].UserData = Sticky.UserData(tps("t-4 t-5 t-6 t-7"), 5)
	e := example{"a third joins", Sticky, members, map[string]int32{"t": 8}, "a: t-0 t-1 t-2; b: t-4 t-5 t-6; c: t-3 t-7"}
	e.check(t)
}

// Partitions pass along a chain: c can take only of u, which b has; b takes one of t from a for it.
func TestStickyChain(t *testing.T) {
	members := []Member{on("a", "t"), on("b", "t u"), on("c", "u")}
	members[0].UserData = Sticky.UserData(tps("t-0 t-1 t-2"), 5)
	members[1].UserData = Sticky.UserData(tps("u-0 u-1"), 5)
	e := example{"chain", Sticky, members, map[string]int32{"t": 3, "u": 2}, "a: t-0 t-1; b: t-2 u-0; c: u-1"}
	e.check(t)
}

// Claims that cannot be: of partitions that are not there or not subscribed to, of two members at once, from an older generation, unreadable ones.
func TestStickyClaims(t *testing.T) {
	partitions := map[string]int32{"t": 2, "u": 1}
	with := func(id, topics, owned string, generation int32) Member {
		m := on(id, topics)
		m.UserData = Sticky.UserData(tps(owned), generation)
		return m
	}
	broken := on("a", "t")
	broken.UserData = []byte{0, 0, 0, 1, 0, 1}
	old := with("b", "t", "t-0", 0)
	old.UserData = old.UserData[:len(old.UserData)-4] // the first version had no generation
	owned := on("b", "t")
	owned.Owned, owned.Generation = tps("t-0"), 1 // a client without user data
	for _, e := range []example{
		{"not there", Sticky, []Member{with("a", "t", "t-7 t-1 x-0", 1), with("b", "t", "", 1)}, partitions, "a: t-1; b: t-0"},
		{"not subscribed to", Sticky, []Member{with("a", "t", "u-0", 1), with("b", "t u", "", 1)}, partitions, "a: t-0 t-1; b: u-0"},
		{"of two: the newer", Sticky, []Member{with("a", "t", "t-0", 1), with("b", "t", "t-0", 2)}, partitions, "a: t-1; b: t-0"},
		{"of two alike: the first", Sticky, []Member{with("a", "t", "t-1", 2), with("b", "t", "t-1", 2)}, partitions, "a: t-1; b: t-0"},
		{"unreadable", Sticky, []Member{broken, with("b", "t", "t-0", 1)}, partitions, "a: t-1; b: t-0"},
		{"of a client of long ago", Sticky, []Member{on("a", "t"), old}, partitions, "a: t-1; b: t-0"},
		{"no user data", Sticky, []Member{on("a", "t"), owned}, partitions, "a: t-1; b: t-0"},
	} {
		e.check(t)
	}
}

func TestStickyUserData(t *testing.T) {
	b := Sticky.UserData(tps("b-1 a-0 b-0"), 7)
	var k kmsg.StickyMemberMetadata
	if err := k.ReadFrom(b); err != nil || k.Generation != 7 || len(k.CurrentAssignment) != 2 || !bytes.Equal(k.AppendTo(nil), b) {
		t.Errorf("%+v, %v", k, err)
	}
	if b := CooperativeSticky.UserData(nil, 7); !bytes.Equal(b, []byte{0, 0, 0, 7}) {
		t.Errorf("%x", b)
	}
}

// A cooperative member gives up first what another one is to have.
func TestCooperativeStickyTwoRounds(t *testing.T) {
	a := CooperativeSticky
	partitions := map[string]int32{"t": 6}
	one := []Member{on("c0", "t")}
	answer := a.Assign(one, partitions)
	members := append(next(a, one, answer, 1), on("c1", "t"))
	answer = a.Assign(members, partitions)
	if got := text(answer); got != "c0: t-0 t-1 t-2; c1:" {
		t.Fatal(got)
	}
	if got := text(a.Assign(next(a, members, answer, 2), partitions)); got != "c0: t-0 t-1 t-2; c1: t-3 t-4 t-5" {
		t.Fatal(got)
	}
}

// Whose claim is older than somebody else's missed something, and does not keep the partition; of two claims of one generation neither counts until both
// have given it up. A generation may stand in the user data, alone or behind partitions.
func TestCooperativeStickyClaims(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	claims := func(id, owned string, generation int32) Member {
		m := on(id, "t")
		m.Owned, m.Generation = tps(owned), generation
		return m
	}
	short, long := claims("b", "t-0", -1), claims("b", "t-0", -1)
	short.UserData, long.UserData = CooperativeSticky.UserData(nil, 3), Sticky.UserData(short.Owned, 3)
	for _, e := range []example{
		{"older", CooperativeSticky, []Member{claims("a", "t-0", 1), claims("b", "t-0 t-1", 2)}, partitions, "a:; b: t-0"},
		{"alike", CooperativeSticky, []Member{claims("a", "t-0", 2), claims("b", "t-0", 2)}, partitions, "a:; b: t-1"},
		{"user data", CooperativeSticky, []Member{claims("a", "t-0", 2), short}, partitions, "a: t-1; b: t-0"},
		{"user data of sticky", CooperativeSticky, []Member{claims("a", "t-0", 2), long}, partitions, "a: t-1; b: t-0"},
	} {
		e.check(t)
	}
}

// change is what happens to a group between two rebalances: members come and go, change what they subscribe to; topics grow, come and go.
func change(r *rand.Rand, members []Member, partitions map[string]int32) ([]Member, map[string]int32) {
	others, grown := randomGroup(r)
	for topic, n := range partitions {
		if r.IntN(8) > 0 {
			grown[topic] = n + max(0, r.Int32N(8)-5)
		}
	}
	var changed []Member
	for _, m := range members {
		if r.IntN(5) == 0 {
			continue // it left
		}
		if r.IntN(6) == 0 {
			m.Topics = others[0].Topics
		}
		changed = append(changed, m)
	}
	for _, m := range others[:r.IntN(len(others)+1)] {
		if !slices.ContainsFunc(changed, func(c Member) bool { return c.ID == m.ID || m.InstanceID != "" && c.InstanceID == m.InstanceID }) {
			changed = append(changed, m)
		}
	}
	if len(changed) == 0 {
		return others, grown
	}
	return changed, grown
}

// The life of random groups under sticky: always valid, as even as can be, quiet when nothing changed, and in groups with equal subscriptions no
// partition moves that need not.
func TestStickyModel(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 2))
		members, partitions := randomGroup(r)
		for generation := range int32(5) {
			answer := Sticky.Assign(members, partitions)
			checkValid(t, members, partitions, answer, nil)
			if chain := uneven(members, answer); chain != "" {
				t.Fatalf("seed %d: %s can be evened out by %s", seed, text(answer), chain)
			}
			members = next(Sticky, members, answer, generation)
			r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
			if again := Sticky.Assign(members, partitions); !reflect.DeepEqual(again, answer) {
				t.Fatalf("seed %d: nothing changed, but %s became %s", seed, text(answer), text(again))
			}
			before := answer
			members, partitions = change(r, members, partitions)
			answer = Sticky.Assign(members, partitions)
			if most, ok := mostThatStays(members, partitions, before); ok {
				if n := stayed(before, answer); n != most {
					t.Fatalf("seed %d: %d partitions stay, %d could: %s became %s", seed, n, most, text(before), text(answer))
				}
			}
		}
	}
}

// uneven looks for a chain from a member to one with at least two fewer, in the plainest way.
func uneven(members []Member, answer map[string][]TopicPartition) string {
	canGive := func(a, b Member) bool {
		return slices.ContainsFunc(answer[a.ID], func(p TopicPartition) bool { return slices.Contains(b.Topics, p.Topic) })
	}
	reaches := make([][]bool, len(members))
	for i := range members {
		reaches[i] = make([]bool, len(members))
		for j := range members {
			reaches[i][j] = canGive(members[i], members[j])
		}
	}
	for k := range members {
		for i := range members {
			for j := range members {
				reaches[i][j] = reaches[i][j] || reaches[i][k] && reaches[k][j]
			}
		}
	}
	for i, a := range members {
		for j, b := range members {
			if reaches[i][j] && len(answer[a.ID]) >= len(answer[b.ID])+2 {
				return fmt.Sprintf("a chain from %s to %s", a.ID, b.ID)
			}
		}
	}
	return ""
}

// stayed counts the partitions that are where they were.
func stayed(before, after map[string][]TopicPartition) (n int) {
	for id, all := range after {
		for _, p := range all {
			if slices.Contains(before[id], p) {
				n++
			}
		}
	}
	return n
}

// mostThatStays is how many partitions can stay in an even assignment of a group whose members all subscribe to the same: of what they have, the fullest
// members keep one more as far as there are places with one more.
func mostThatStays(members []Member, partitions map[string]int32, before map[string][]TopicPartition) (most int, uniform bool) {
	total := 0
	for topic, n := range partitions {
		if slices.Contains(members[0].Topics, topic) {
			total += int(n)
		}
	}
	var had []int
	for _, m := range members {
		if !slices.Equal(m.Topics, members[0].Topics) {
			return 0, false
		}
		n := 0
		for _, p := range before[m.ID] {
			if p.Partition < partitions[p.Topic] && slices.Contains(m.Topics, p.Topic) {
				n++
			}
		}
		had = append(had, n)
	}
	each, more := total/len(members), total%len(members)
	for _, n := range had {
		if n > each && more > 0 {
			more--
			most++
		}
		most += min(n, each)
	}
	return most, true
}

// Small groups against all assignments there are: none is more even, and hardly ever does one that is as even keep more in its place.
func TestStickyAgainstAll(t *testing.T) {
	groups, kept, possible := 0, 0, 0
	for seed := uint64(0); groups < 400; seed++ {
		r := rand.New(rand.NewPCG(seed, 3))
		members, partitions := randomGroup(r)
		before := Sticky.Assign(members, partitions)
		members, partitions = change(r, next(Sticky, members, before, 1), partitions)
		all := slices.Collect(free(members, partitions))
		if len(all) > 7 || len(members) > 5 {
			continue
		}
		groups++
		answer := Sticky.Assign(members, partitions)
		squares, stay := bestOf(members, all, before)
		if n := sumOfSquares(answer); n != squares {
			t.Fatalf("seed %d: %s is not even", seed, text(answer))
		}
		kept += stayed(before, answer)
		possible += stay
	}
	t.Logf("%d of the %d partitions that could stay did", kept, possible)
	if kept*100 < possible*99 {
		t.Errorf("%d of %d partitions stay", kept, possible)
	}
}

// free is every partition that somebody subscribes to.
func free(members []Member, partitions map[string]int32) func(yield func(TopicPartition) bool) {
	return func(yield func(TopicPartition) bool) {
		for topic, n := range partitions {
			if !slices.ContainsFunc(members, func(m Member) bool { return slices.Contains(m.Topics, topic) }) {
				continue
			}
			for p := range n {
				if !yield(TopicPartition{topic, p}) {
					return
				}
			}
		}
	}
}

func sumOfSquares(answer map[string][]TopicPartition) (n int) {
	for _, all := range answer {
		n += len(all) * len(all)
	}
	return n
}

// bestOf tries every assignment: the least sum of squares, and the most partitions that stay with that.
func bestOf(members []Member, all []TopicPartition, before map[string][]TopicPartition) (squares, stay int) {
	squares = 1 << 30
	load := make([]int, len(members))
	var try func(i, stayed int)
	try = func(i, stayed int) {
		if i == len(all) {
			n := 0
			for _, l := range load {
				n += l * l
			}
			if n < squares || n == squares && stayed > stay {
				squares, stay = n, stayed
			}
			return
		}
		for k, m := range members {
			if !slices.Contains(m.Topics, all[i].Topic) {
				continue
			}
			same := 0
			if slices.Contains(before[m.ID], all[i]) {
				same = 1
			}
			load[k]++
			try(i+1, stayed+same)
			load[k]--
		}
	}
	try(0, 0)
	return squares, stay
}

// The life of random groups under cooperative-sticky: nothing is ever with two members at once, and after one round in which nothing changed everything
// has an owner, as even as can be. Now and then a member misses rounds and comes back with what it had.
func TestCooperativeStickyModel(t *testing.T) {
	a := CooperativeSticky
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 4))
		members, partitions := randomGroup(r)
		for generation := range int32(6) {
			answer := a.Assign(members, partitions)
			withheld := map[TopicPartition]bool{}
			for p := range free(members, partitions) {
				if owner := ownerOf(answer, p); owner == "" {
					withheld[p] = slices.ContainsFunc(members, func(m Member) bool { return slices.Contains(m.Owned, p) })
				} else {
					checkNobodyElseHas(t, members, owner, p)
				}
			}
			checkValid(t, members, partitions, answer, withheld)
			members = next(a, members, answer, 10*generation)
			answer = a.Assign(members, partitions)
			checkValid(t, members, partitions, answer, nil)
			if chain := uneven(members, answer); chain != "" {
				t.Fatalf("seed %d: %s can be evened out by %s", seed, text(answer), chain)
			}
			settled := next(a, members, answer, 10*generation+1)
			for i := range settled {
				if r.IntN(8) == 0 {
					settled[i] = members[i] // it missed the round
				}
			}
			members, partitions = change(r, settled, partitions)
		}
	}
}

func ownerOf(answer map[string][]TopicPartition, p TopicPartition) string {
	for id, all := range answer {
		if slices.Contains(all, p) {
			return id
		}
	}
	return ""
}

// checkNobodyElseHas: whoever else claims the partition has missed that the owner has it already.
func checkNobodyElseHas(t *testing.T, members []Member, owner string, p TopicPartition) {
	t.Helper()
	since := int32(-2)
	for _, m := range members {
		if m.ID == owner && slices.Contains(m.Owned, p) {
			since = m.Generation
		}
	}
	for _, m := range members {
		if m.ID != owner && slices.Contains(m.Owned, p) && m.Generation >= since {
			t.Fatalf("%v is given to %s, and %s still works on it", p, owner, m.ID)
		}
	}
}

// What members send may be anything.
func FuzzStickyUserData(f *testing.F) {
	f.Add(Sticky.UserData(tps("t-0 t-1 u-0"), 3))
	f.Add(CooperativeSticky.UserData(nil, 3))
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<31))
	f.Fuzz(func(t *testing.T, b []byte) {
		members := []Member{on("a", "t u"), on("b", "t")}
		members[0].UserData = b
		partitions := map[string]int32{"t": 3, "u": 2}
		for _, a := range []Assignor{Sticky, CooperativeSticky} {
			checkValid(t, members, partitions, a.Assign(members, partitions), nil)
		}
	})
}

// A thousand members and a hundred topics of a hundred partitions, a tenth of the members new: what a leader has to do while everybody waits.
func BenchmarkSticky(b *testing.B) {
	partitions := map[string]int32{}
	var topics []string
	for i := range 100 {
		topics = append(topics, fmt.Sprintf("topic-%03d", i))
		partitions[topics[i]] = 100
	}
	for _, different := range []bool{false, true} {
		members := make([]Member, 1000)
		for i := range members {
			members[i] = Member{ID: fmt.Sprintf("member-%04d", i), Topics: topics, Generation: -1}
			if different {
				members[i].Topics = topics[i%50 : i%50+1+i%40]
			}
		}
		b.Run(fmt.Sprintf("different=%v", different), func(b *testing.B) {
			joined := next(Sticky, members, Sticky.Assign(members[:900], partitions), 1)
			for b.Loop() {
				Sticky.Assign(joined, partitions)
			}
		})
	}
}
