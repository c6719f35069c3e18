package group

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/leatmq/leat/coordinator/group/assign"
)

// sortedNames is names in order, each once, in memory of its own.
func sortedNames(names []string) []string {
	all := make([]string, 0, len(names))
	for _, n := range names {
		all = append(all, strings.Clone(n))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func sortedIDs[V any](m map[assign.TopicID]V) []assign.TopicID {
	all := make([]assign.TopicID, 0, len(m))
	for id := range m {
		all = append(all, id)
	}
	slices.SortFunc(all, func(a, b assign.TopicID) int { return bytes.Compare(a[:], b[:]) })
	return all
}

// sortedBy sorts all by key, each key once, in place.
func sortedBy[V any, K cmp.Ordered](all []V, key func(V) K) []V {
	slices.SortFunc(all, func(a, b V) int { return cmp.Compare(key(a), key(b)) })
	return slices.CompactFunc(all, func(a, b V) bool { return key(a) == key(b) })
}
