package assign

import (
	"encoding/binary"
	"slices"
)

// stickyAssignor is as even as the subscriptions allow, and then leaves where it is whatever can stay. Members tell with their user data what they had.
type stickyAssignor struct{}

func (stickyAssignor) Name() string      { return "sticky" }
func (stickyAssignor) Cooperative() bool { return false }

func (stickyAssignor) UserData(owned []TopicPartition, generation int32) []byte {
	if len(owned) == 0 && generation < 0 {
		return nil
	}
	return binary.BigEndian.AppendUint32(appendPartitions(nil, owned), uint32(generation))
}

func (stickyAssignor) Assign(members []Member, partitions map[string]int32) map[string][]TopicPartition {
	all := ordered(members)
	claims := make([]claim, len(all))
	for i, m := range all {
		claims[i] = stickyClaim(m)
	}
	return balanced(all, claims, partitions)
}

// claim is what a member says it had, and when; generation -1 is not told, and older than any other.
type claim struct {
	partitions []TopicPartition
	generation int32
}

// stickyClaim reads user data of sticky. What cannot be read counts as nothing: the member will get something all the same.
func stickyClaim(m *Member) claim {
	if len(m.UserData) == 0 {
		return claim{m.Owned, m.Generation}
	}
	r := reader{rest: m.UserData}
	c := claim{partitions: r.partitions(), generation: -1}
	if len(r.rest) >= 4 { // not there in the first version
		c.generation = r.int32()
	}
	if r.err != nil {
		return claim{generation: -1}
	}
	return c
}

// cooperativeAssignor decides like sticky, but a partition that another member still owns is given to nobody: its owner sees that it has to give it up,
// does so, and joins again, and then the partition is free.
type cooperativeAssignor struct{}

func (cooperativeAssignor) Name() string      { return "cooperative-sticky" }
func (cooperativeAssignor) Cooperative() bool { return true }

func (cooperativeAssignor) UserData(_ []TopicPartition, generation int32) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(generation))
}

func (cooperativeAssignor) Assign(members []Member, partitions map[string]int32) map[string][]TopicPartition {
	all := ordered(members)
	claims := make([]claim, len(all))
	for i, m := range all {
		claims[i] = cooperativeClaim(m)
	}
	answer := balanced(all, claims, partitions)
	withhold(answer, all, claims)
	return answer
}

// cooperativeClaim is what the subscription says. A client whose subscription has no generation tells it in its user data, alone or behind the
// partitions as for sticky.
func cooperativeClaim(m *Member) claim {
	c := claim{m.Owned, m.Generation}
	if c.generation >= 0 || len(m.UserData) == 0 {
		return c
	}
	if r := (reader{rest: m.UserData}); len(m.UserData) == 4 {
		c.generation = r.int32()
	} else {
		c.generation = stickyClaim(m).generation
	}
	return c
}

// withhold takes partitions out of an answer that somebody else may still work on. Only one whose claim is newer than all others' keeps what it has
// without a break: the others missed that it went to somebody else, and give it up when they see their assignment.
func withhold(answer map[string][]TopicPartition, members []*Member, claims []claim) {
	type owner struct {
		member     int
		generation int32
		disputed   bool // somebody else has a claim of the same generation
	}
	owners := map[TopicPartition]owner{}
	for i, c := range claims {
		for _, p := range c.partitions {
			was, ok := owners[p]
			switch {
			case !ok || c.generation > was.generation:
				owners[p] = owner{member: i, generation: c.generation}
			case c.generation == was.generation && was.member != i:
				was.disputed = true
				owners[p] = was
			}
		}
	}
	for i, m := range members {
		answer[m.ID] = slices.DeleteFunc(answer[m.ID], func(p TopicPartition) bool {
			o, ok := owners[p]
			return ok && (o.member != i || o.disputed)
		})
	}
}
