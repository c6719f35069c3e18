package config

import (
	"cmp"
	"fmt"
	"strings"
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
	switch scope {
	case TopicScope:
		for i := range topicKeys {
			consider(topicKeys[i].Name)
		}
	case GroupScope:
		for i := range groupKeys {
			consider(groupKeys[i].Name)
		}
	default:
		for i := range brokerKeys {
			consider(brokerKeys[i].Name)
		}
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

// hint says where a name belongs that is not of the scope, or what was probably meant.
func hint(scope Scope, name string) string {
	var elsewhere string
	switch scope {
	case BrokerScope:
		elsewhere = hintForBroker(name)
	case TopicScope:
		elsewhere = hintForTopic(name)
	case GroupScope:
		elsewhere = hintForGroup(name)
	}
	if near := Nearest(scope, name); elsewhere == "" && near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return elsewhere
}

func hintForBroker(name string) string {
	if t := topicByName[name]; t != nil {
		if t.BrokerKey == "" {
			return ": it is a topic key and has no default for all topics"
		}
		return fmt.Sprintf(": it is a topic key; the broker key that sets it for all topics is %s", t.BrokerKey)
	}
	if g := groupByName[name]; g != nil {
		return fmt.Sprintf(": it is a group key; the broker key that sets it for all groups is %s", g.BrokerKey)
	}
	return ""
}

func hintForTopic(name string) string {
	if brokerByName[name] == nil {
		return ""
	}
	for i := range topicKeys {
		for _, l := range topicKeys[i].chain {
			if l.broker == name {
				return fmt.Sprintf(": it is a broker key; the topic key is %s", topicKeys[i].Name)
			}
		}
	}
	return ": it is a broker key"
}

func hintForGroup(name string) string {
	for i := range groupKeys {
		if groupKeys[i].BrokerKey == name {
			return fmt.Sprintf(": it is a broker key; the group key is %s", groupKeys[i].Name)
		}
	}
	switch {
	case strings.HasPrefix(name, "share.") || strings.HasPrefix(name, "errors.deadletterqueue."):
		return ": share groups are not there"
	case strings.HasPrefix(name, "streams."):
		return ": streams groups are not there"
	}
	return ""
}
