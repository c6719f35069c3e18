package config

import (
	"cmp"
	"fmt"
)

// Nearest returns the known key of a scope whose name is closest to name; "" when nothing is near.
func Nearest(scope Scope, name string) string {
	best, bestDistance := "", 1+max(3, len(name)/4)
	consider := func(candidate string) {
		d := distance(name, candidate)
		if d < bestDistance || d == bestDistance && best != "" && cmp.Less(candidate, best) {
			best, bestDistance = candidate, d
		}
	}
	if scope == TopicScope {
		for i := range topicKeys {
			consider(topicKeys[i].Name)
		}
		return best
	}
	for i := range brokerKeys {
		consider(brokerKeys[i].Name)
	}
	return best
}

// distance is the number of letters to insert, remove, replace or swap with their neighbour to make b of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// unknownKey says that a scope has no such key, and what was probably meant.
func unknownKey(scope Scope, name string) *Error {
	const longest = 256
	if len(name) > longest {
		name = name[:longest] + "..."
	}
	return &Error{Key: name, Msg: fmt.Sprintf("unknown %s config key %q%s", scope, name, hint(scope, name))}
}

func hint(scope Scope, name string) string {
	if scope == BrokerScope {
		if t := topicByName[name]; t != nil {
			if t.BrokerKey == "" {
				return ": it is a topic key and has no default for all topics"
			}
			return fmt.Sprintf(": it is a topic key; the broker key that sets it for all topics is %s", t.BrokerKey)
		}
	} else if brokerByName[name] != nil {
		for i := range topicKeys {
			for _, l := range topicKeys[i].chain {
				if l.broker == name {
					return fmt.Sprintf(": it is a broker key; the topic key is %s", topicKeys[i].Name)
				}
			}
		}
		return ": it is a broker key"
	}
	if near := Nearest(scope, name); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}
