package assign

import "slices"

// roundRobinAssignor deals out all partitions of all topics one by one, in their order, to the members in theirs. A member that does not subscribe to
// the topic is passed over.
type roundRobinAssignor struct{}

func (roundRobinAssignor) Name() string                            { return "roundrobin" }
func (roundRobinAssignor) Cooperative() bool                       { return false }
func (roundRobinAssignor) UserData([]TopicPartition, int32) []byte { return nil }

func (roundRobinAssignor) Assign(members []Member, partitions map[string]int32) map[string][]TopicPartition {
	all := ordered(members)
	answer := nothing(all)
	turn := 0 // the index of the member whose turn it is
	for _, t := range subscriptions(all, partitions) {
		for p := range t.partitions {
			next := t.subscribers[0] // when nobody behind the turn subscribes
			if i, _ := slices.BinarySearch(t.subscribers, turn); i < len(t.subscribers) {
				next = t.subscribers[i]
			}
			answer[all[next].ID] = append(answer[all[next].ID], TopicPartition{t.name, p})
			turn = (next + 1) % len(all)
		}
	}
	return answer
}
