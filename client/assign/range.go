package assign

// rangeAssignor gives each subscriber of a topic the next run of its partitions; the first ones have one more where it does not come out even.
type rangeAssignor struct{}

func (rangeAssignor) Name() string                            { return "range" }
func (rangeAssignor) Cooperative() bool                       { return false }
func (rangeAssignor) UserData([]TopicPartition, int32) []byte { return nil }

func (rangeAssignor) Assign(members []Member, partitions map[string]int32) map[string][]TopicPartition {
	all := ordered(members)
	answer := nothing(all)
	for _, t := range subscriptions(all, partitions) {
		count := int32(len(t.subscribers))
		each, more := t.partitions/count, t.partitions%count
		next := int32(0)
		for i, m := range t.subscribers {
			end := next + each
			if int32(i) < more {
				end++
			}
			id := all[m].ID
			for ; next < end; next++ {
				answer[id] = append(answer[id], TopicPartition{t.name, next})
			}
		}
	}
	return answer
}
