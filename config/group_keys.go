package config

// groupKey is a row of the groups' table: the key, the broker keys that give its default and its limits, and where its value goes.
type groupKey struct {
	Key
	low, high string
	set       func(*Group, value)
}

// groupKeys is every group key, in the order in which Kafka looks at them. Kafka 4.4 has more, of share groups and streams groups: leat does not
// have those groups, and refuses their keys rather than keep what nobody obeys.
var groupKeys = []groupKey{
	{Key{Name: "consumer.heartbeat.interval.ms", Type: Int, Min: 1, Max: anyInt, BrokerKey: "group.consumer.heartbeat.interval.ms",
		Doc: "How often members of the consumer group are told to send heartbeats."},
		"group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms",
		func(g *Group, v value) { g.ConsumerHeartbeatIntervalMs = int32(v.n) }},
	{Key{Name: "consumer.session.timeout.ms", Type: Int, Min: 1, Max: anyInt, BrokerKey: "group.consumer.session.timeout.ms",
		Doc: "A member of the consumer group that is not heard of for so long is taken out."},
		"group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms",
		func(g *Group, v value) { g.ConsumerSessionTimeoutMs = int32(v.n) }},
	{Key{Name: "consumer.assignment.interval.ms", Type: Int, Max: anyInt, BrokerKey: "group.consumer.assignment.interval.ms",
		Doc: "The shortest time between two assignments of the consumer group: members that come together cost one."},
		"group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms",
		func(g *Group, v value) { g.ConsumerAssignmentIntervalMs = int32(v.n) }},
}

var groupByName = indexGroupKeys()

func indexGroupKeys() map[string]*groupKey {
	m := make(map[string]*groupKey, len(groupKeys))
	for i := range groupKeys {
		k := &groupKeys[i]
		k.Scope, k.Dynamic, k.Default = GroupScope, true, brokerByName[k.BrokerKey].Default
		m[k.Name] = k
	}
	return m
}
