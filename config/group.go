package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Group is what a group obeys, typed. A Group is a value taken from a Set at one moment: read only, safe to share.
type Group struct {
	ConsumerSessionTimeoutMs     int32
	ConsumerHeartbeatIntervalMs  int32
	ConsumerAssignmentIntervalMs int32
}

// Group returns what a group with these configs of its own obeys. A value that was within the broker's limits when it was set and is not now is
// moved to the nearest limit, as by Kafka; one that this version cannot read does not count; and where the session would be over before the next
// heartbeat is due, the broker's own values of the two are in force.
func (s *Set) Group(own map[string]string) Group {
	l := s.snapshot()
	g := l.group(own)
	if g.ConsumerSessionTimeoutMs <= g.ConsumerHeartbeatIntervalMs {
		d := l.group(nil)
		g.ConsumerSessionTimeoutMs, g.ConsumerHeartbeatIntervalMs = d.ConsumerSessionTimeoutMs, d.ConsumerHeartbeatIntervalMs
	}
	return g
}

func (l *layers) group(own map[string]string) Group {
	var g Group
	for i := range groupKeys {
		k := &groupKeys[i]
		v, source := l.groupValue(k, own)
		if low, high := l.groupLimits(k); source == GroupOverride {
			v.n = max(low, min(v.n, high))
		}
		k.set(&g, v)
	}
	return g
}

// groupValue is a group key's value, as the group has it, or else the broker.
func (l *layers) groupValue(k *groupKey, own map[string]string) (value, Source) {
	if raw, ok := own[k.Name]; ok {
		if v, err := k.parse(raw); err == nil {
			return v, GroupOverride
		}
	}
	return l.resolve(brokerByName[k.BrokerKey])
}

func (l *layers) groupLimits(k *groupKey) (low, high int64) { return l.number(k.low), l.number(k.high) }

// number is the value of a broker key that is a number.
func (l *layers) number(name string) int64 {
	v, _ := l.resolve(brokerByName[name])
	return v.n
}

// ValidateGroup says whether a group may have these configs of its own. Errors are *Error.
func (s *Set) ValidateGroup(own map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if groupByName[name] == nil {
			return unknownKey(GroupScope, name)
		}
	}
	l := s.snapshot()
	for i := range groupKeys {
		k := &groupKeys[i]
		raw, ok := own[k.Name]
		if !ok {
			continue
		}
		v, err := k.parse(raw)
		if err != nil {
			return err
		}
		if low, high := l.groupLimits(k); v.n < low || v.n > high {
			return &Error{Key: k.Name, Msg: fmt.Sprintf("%s: %d is not allowed; expected %d to %d, which are %s and %s of the broker", k.Name, v.n, low, high, k.low, k.high)}
		}
	}
	if g := l.group(own); g.ConsumerSessionTimeoutMs <= g.ConsumerHeartbeatIntervalMs {
		return &Error{Key: "consumer.session.timeout.ms", Msg: fmt.Sprintf("consumer.session.timeout.ms: %d is not above consumer.heartbeat.interval.ms, which is %d",
			g.ConsumerSessionTimeoutMs, g.ConsumerHeartbeatIntervalMs)}
	}
	return nil
}

// EffectiveGroup returns every group key's value in order of name: the group's own, as it was set, or else the broker's.
func (s *Set) EffectiveGroup(own map[string]string) []Value {
	l := s.snapshot()
	values := make([]Value, 0, len(groupKeys))
	for i := range groupKeys {
		k := &groupKeys[i]
		v, source := l.groupValue(k, own)
		e := Value{Key: k.Key, Value: k.print(v), Source: source}
		if source == GroupOverride {
			e.Synonyms = append(e.Synonyms, Synonym{k.Name, e.Value, source})
		}
		e.Synonyms = append(e.Synonyms, l.synonyms(brokerByName[k.BrokerKey])...)
		values = append(values, e)
	}
	slices.SortFunc(values, func(a, b Value) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	return values
}

// checkGroups holds what Kafka demands of the broker's values and limits of consumer groups.
func (l *layers) checkGroups() error {
	for i := range groupKeys {
		k := &groupKeys[i]
		low, high := l.groupLimits(k)
		if low > high {
			return &Error{Key: k.high, Msg: fmt.Sprintf("%s: %d is below %s, which is %d", k.high, high, k.low, low)}
		}
		if n := l.number(k.BrokerKey); n < low || n > high {
			return &Error{Key: k.BrokerKey, Msg: fmt.Sprintf("%s: %d is not from %d to %d, which are %s and %s", k.BrokerKey, n, low, high, k.low, k.high)}
		}
	}
	session, heartbeat := l.number("group.consumer.session.timeout.ms"), l.number("group.consumer.heartbeat.interval.ms")
	if session <= heartbeat {
		return &Error{Key: "group.consumer.session.timeout.ms", Msg: fmt.Sprintf("group.consumer.session.timeout.ms: %d is not above group.consumer.heartbeat.interval.ms, which is %d", session, heartbeat)}
	}
	return nil
}
