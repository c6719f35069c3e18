package assign_test

import (
	"fmt"

	"github.com/leatmq/leat/client/assign"
)

// Eleven partitions for three members: the first two have one more.
func Example() {
	members := []assign.Member{{ID: "c1", Topics: []string{"orders"}}, {ID: "c2", Topics: []string{"orders"}}, {ID: "c3", Topics: []string{"orders"}}}
	answer := assign.Range.Assign(members, map[string]int32{"orders": 11})
	for _, m := range members {
		fmt.Print(m.ID)
		for _, p := range answer[m.ID] {
			fmt.Print(" ", p.Partition)
		}
		fmt.Println()
	}
	// Output:
	// c1 0 1 2 3
	// c2 4 5 6 7
	// c3 8 9 10
}

// firstTakesAll is an assignor of one's own: one member works, the others stand by.
type firstTakesAll struct{}

func (firstTakesAll) Name() string                                   { return "first-takes-all" }
func (firstTakesAll) Cooperative() bool                              { return false }
func (firstTakesAll) UserData([]assign.TopicPartition, int32) []byte { return nil }

func (firstTakesAll) Assign(members []assign.Member, partitions map[string]int32) map[string][]assign.TopicPartition {
	answer := map[string][]assign.TopicPartition{}
	for _, m := range members {
		answer[m.ID] = nil
	}
	for topic, n := range partitions {
		for p := range n {
			answer[members[0].ID] = append(answer[members[0].ID], assign.TopicPartition{Topic: topic, Partition: p})
		}
	}
	return answer
}

// An assignor of one's own. All members of the group must have it.
func ExampleAssignor() {
	var custom assign.Assignor = firstTakesAll{}
	answer := custom.Assign([]assign.Member{{ID: "a"}, {ID: "b"}}, map[string]int32{"orders": 3})
	fmt.Println(len(answer["a"]), len(answer["b"]))
	// Output: 3 0
}
