package differential

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupAPIs are the rows of the tables behind stateScripts. What a JoinGroup makes of a consumer group without members is
// the matter of migration.
var groupAPIs = []api{
	{"FindCoordinator", 0, 6, false, []ask{
		{"its coordinator", 0, false, func(sc scene) kmsg.Request { return findOf(0, sc.g) }},
		{"twice", 4, false, func(sc scene) kmsg.Request { return findOf(0, sc.g, sc.g, "") }},
	}, "pending completing preparing static consumer-static consumer-away consumer-empty simple"},
	{"JoinGroup", 0, 9, false, []ask{
		{"nobody", 0, true, func(sc scene) kmsg.Request { return joinOf(sc.g, "nobody") }},
		{"nobody of an instance", 5, true, func(sc scene) kmsg.Request { return joinOf(sc.g, "nobody", static(sc.instance)) }},
		{"the member as another instance", 5, true, func(sc scene) kmsg.Request { return joinOf(sc.g, sc.member, static("other")) }},
		{"an id is asked for", 4, true, func(sc scene) kmsg.Request { return joinOf(sc.g, "") }},
		{"no protocols", 0, true, func(sc scene) kmsg.Request { return joinOf(sc.g, "", noProtocols) }},
		{"no type", 0, true, func(sc scene) kmsg.Request { return joinOf(sc.g, "", noType) }},
		{"no type and no protocols", 0, true, func(sc scene) kmsg.Request { return joinOf(sc.g, "", noProtocols, noType) }},
		{"the member with another type", 0, true, func(sc scene) kmsg.Request { return joinOf(sc.g, sc.member, ofType("connect")) }},
		{"nobody with another type", 0, true, func(sc scene) kmsg.Request { return joinOf(sc.g, "nobody", ofType("connect")) }},
		{"session too short", 0, true, func(sc scene) kmsg.Request { return joinOf(sc.g, sc.member, session999) }},
		{"session too long", 0, true, func(sc scene) kmsg.Request { return joinOf(sc.g, sc.member, sessionHour) }},
	}, ""},
	{"SyncGroup", 0, 5, false, []ask{
		{"nobody", 0, false, func(sc scene) kmsg.Request { return syncOf(sc.g, "nobody", sc.gen) }},
		{"no member", 0, false, func(sc scene) kmsg.Request { return syncOf(sc.g, "", sc.gen) }},
		{"the generation before", 0, false, func(sc scene) kmsg.Request { return syncOf(sc.g, sc.member, sc.gen-1) }},
		{"the generation after", 0, false, func(sc scene) kmsg.Request { return syncOf(sc.g, sc.member, sc.gen+1) }},
		{"no generation", 0, false, func(sc scene) kmsg.Request { return syncOf(sc.g, sc.member, -1) }},
		{"nobody, no generation", 0, false, func(sc scene) kmsg.Request { return syncOf(sc.g, "nobody", -1) }},
		{"another type", 5, false, func(sc scene) kmsg.Request {
			return named(syncOf(sc.g, sc.member, sc.gen), ptr("connect"), ptr("range"))
		}},
		{"another protocol", 5, false, func(sc scene) kmsg.Request {
			return named(syncOf(sc.g, sc.member, sc.gen), ptr("consumer"), ptr("sticky"))
		}},
		{"another type of nobody", 5, false, func(sc scene) kmsg.Request {
			return named(syncOf(sc.g, "nobody", sc.gen), ptr("connect"), ptr("range"))
		}},
		{"only the type", 5, false, func(sc scene) kmsg.Request { return named(syncOf(sc.g, sc.member, sc.gen), ptr("consumer"), nil) }},
		{"only the protocol", 5, false, func(sc scene) kmsg.Request { return named(syncOf(sc.g, sc.member, sc.gen), nil, ptr("range")) }},
		{"an instance that is not there", 3, false, func(sc scene) kmsg.Request { return syncAs("other", syncOf(sc.g, sc.member, sc.gen)) }},
		{"nobody of the instance", 3, false, func(sc scene) kmsg.Request { return syncAs(sc.instance, syncOf(sc.g, "nobody", sc.gen)) }},
		{"no member of the instance", 3, false, func(sc scene) kmsg.Request { return syncAs(sc.instance, syncOf(sc.g, "", sc.gen)) }},
		{"right", 0, true, func(sc scene) kmsg.Request { return syncOf(sc.g, sc.member, sc.gen, sc.member) }},
		{"right without names", 5, true, func(sc scene) kmsg.Request { return named(syncOf(sc.g, sc.member, sc.gen, sc.member), nil, nil) }},
		{"right with the instance", 3, true, func(sc scene) kmsg.Request { return syncAs(sc.instance, syncOf(sc.g, sc.member, sc.gen, sc.member)) }},
	}, ""},
	{"Heartbeat", 0, 4, false, []ask{
		{"right", 0, false, func(sc scene) kmsg.Request { return heartbeatOf(sc.g, sc.member, sc.gen) }},
		{"nobody", 0, false, func(sc scene) kmsg.Request { return heartbeatOf(sc.g, "nobody", sc.gen) }},
		{"no member", 0, false, func(sc scene) kmsg.Request { return heartbeatOf(sc.g, "", sc.gen) }},
		{"the generation before", 0, false, func(sc scene) kmsg.Request { return heartbeatOf(sc.g, sc.member, sc.gen-1) }},
		{"the generation after", 0, false, func(sc scene) kmsg.Request { return heartbeatOf(sc.g, sc.member, sc.gen+1) }},
		{"no generation", 0, false, func(sc scene) kmsg.Request { return heartbeatOf(sc.g, sc.member, -1) }},
		{"neither", 0, false, func(sc scene) kmsg.Request { return heartbeatOf(sc.g, "", -1) }},
		{"the instance", 3, false, func(sc scene) kmsg.Request { return beatAs(sc.instance, heartbeatOf(sc.g, sc.member, sc.gen)) }},
		{"an instance that is not there", 3, false, func(sc scene) kmsg.Request { return beatAs("other", heartbeatOf(sc.g, sc.member, sc.gen)) }},
		{"nobody of the instance", 3, false, func(sc scene) kmsg.Request { return beatAs(sc.instance, heartbeatOf(sc.g, "nobody", sc.gen)) }},
		{"nobody of the instance, wrong generation", 3, false, func(sc scene) kmsg.Request { return beatAs(sc.instance, heartbeatOf(sc.g, "nobody", sc.gen+1)) }},
		{"no member of the instance", 3, false, func(sc scene) kmsg.Request { return beatAs(sc.instance, heartbeatOf(sc.g, "", sc.gen)) }},
		{"an empty instance", 3, false, func(sc scene) kmsg.Request { return beatAs("", heartbeatOf(sc.g, sc.member, sc.gen)) }},
	}, ""},
	{"LeaveGroup", 0, 5, false, []ask{
		{"nobody", 0, false, func(sc scene) kmsg.Request { return leaveOf(sc.g, "nobody") }},
		{"no member", 0, false, func(sc scene) kmsg.Request { return leaveOf(sc.g, "") }},
		{"no members", 3, false, func(sc scene) kmsg.Request { return leaveOf(sc.g) }},
		{"two that are not there", 3, false, func(sc scene) kmsg.Request { return leaveOf(sc.g, "x", "y") }},
		{"an instance that is not there", 3, false, func(sc scene) kmsg.Request { return leaveAs(leaveOf(sc.g, sc.member), "other") }},
		{"nobody of the instance", 3, false, func(sc scene) kmsg.Request { return leaveAs(leaveOf(sc.g, "nobody"), sc.instance) }},
		{"right", 0, true, func(sc scene) kmsg.Request { return leaveOf(sc.g, sc.member) }},
		{"the instance", 3, true, func(sc scene) kmsg.Request { return leaveAs(leaveOf(sc.g, ""), sc.instance) }},
		{"the instance with its member", 3, true, func(sc scene) kmsg.Request { return leaveAs(leaveOf(sc.g, sc.member), sc.instance) }},
		{"the member among others", 3, true, func(sc scene) kmsg.Request { return leaveOf(sc.g, "x", sc.member, "y") }},
		{"the member twice", 3, true, func(sc scene) kmsg.Request { return leaveOf(sc.g, sc.member, sc.member) }},
		{"the member and its instance", 3, true, func(sc scene) kmsg.Request { return leaveAs(leaveOf(sc.g, "", sc.member), sc.instance) }},
	}, ""},
	{"OffsetCommit", 2, 10, true, []ask{
		{"right", 2, false, func(sc scene) kmsg.Request { return by(commitOf(sc.g, oc{sc.t, 0, 1}), sc.member, sc.gen) }},
		{"nobody", 2, false, func(sc scene) kmsg.Request { return by(commitOf(sc.g, oc{sc.t, 0, 2}), "nobody", sc.gen) }},
		{"no member", 2, false, func(sc scene) kmsg.Request { return by(commitOf(sc.g, oc{sc.t, 0, 3}), "", sc.gen) }},
		{"the generation before", 2, false, func(sc scene) kmsg.Request { return by(commitOf(sc.g, oc{sc.t, 0, 4}), sc.member, sc.gen-1) }},
		{"the generation after", 2, false, func(sc scene) kmsg.Request { return by(commitOf(sc.g, oc{sc.t, 0, 5}), sc.member, sc.gen+1) }},
		{"generation -2", 2, true, func(sc scene) kmsg.Request { return by(commitOf(sc.g, oc{sc.t, 0, 5}), sc.member, -2) }},
		{"an instance that is not there", 7, false, func(sc scene) kmsg.Request {
			return commitAs("other", by(commitOf(sc.g, oc{sc.t, 0, 6}), sc.member, sc.gen))
		}},
		{"nobody of the instance", 7, false, func(sc scene) kmsg.Request {
			return commitAs(sc.instance, by(commitOf(sc.g, oc{sc.t, 0, 7}), "nobody", sc.gen))
		}},
		{"the instance", 7, false, func(sc scene) kmsg.Request {
			return commitAs(sc.instance, by(commitOf(sc.g, oc{sc.t, 0, 8}), sc.member, sc.gen))
		}},
		{"right, unknown partitions", 2, false, func(sc scene) kmsg.Request {
			return by(commitOf(sc.g, oc{sc.t, 7, 9}, oc{sc.t, -1, 9}, oc{sc.t, 1, 9}), sc.member, sc.gen)
		}},
		{"right, too much metadata", 2, false, func(sc scene) kmsg.Request {
			return by(noted(commitOf(sc.g, oc{sc.t, 0, 10}, oc{sc.u, 0, 10}), strings.Repeat("x", 4097)), sc.member, sc.gen)
		}},
		{"nobody, unknown partitions", 2, false, func(sc scene) kmsg.Request { return by(commitOf(sc.g, oc{sc.t, 7, 11}), "nobody", sc.gen) }},
		{"member without generation", 2, true, func(sc scene) kmsg.Request { return by(commitOf(sc.g, oc{sc.t, 0, 12}), sc.member, -1) }},
		{"simple", 2, true, func(sc scene) kmsg.Request { return commitOf(sc.g, oc{sc.t, 0, 13}) }},
	}, ""},
	{"OffsetFetch", 1, 10, true, []ask{
		{"nothing was committed", 1, false, func(sc scene) kmsg.Request { return offsetsOf(sc.g, oc{sc.u, 0, 0}) }},
		{"a partition that is not there", 1, false, func(sc scene) kmsg.Request { return offsetsOf(sc.g, oc{sc.t, 7, 0}, oc{sc.t, -1, 0}) }},
		{"all", 2, false, func(sc scene) kmsg.Request { return offsetsOf(sc.g) }},
		{"stable ones", 7, false, func(sc scene) kmsg.Request { return onlyStable(offsetsOf(sc.g, oc{sc.t, 0, 0})) }},
		{"as the member", 9, false, func(sc scene) kmsg.Request { return offsetsAs(sc.member, sc.gen, offsetsOf(sc.g, oc{sc.t, 0, 0})) }},
		{"as nobody", 9, false, func(sc scene) kmsg.Request { return offsetsAs("nobody", sc.gen, offsetsOf(sc.g, oc{sc.t, 0, 0})) }},
		{"as the member before", 9, false, func(sc scene) kmsg.Request { return offsetsAs(sc.member, sc.gen-1, offsetsOf(sc.g, oc{sc.t, 0, 0})) }},
		{"as the member to be", 9, false, func(sc scene) kmsg.Request { return offsetsAs(sc.member, sc.gen+1, offsetsOf(sc.g)) }},
		{"as no member at an epoch", 9, false, func(sc scene) kmsg.Request { return offsetsAs("", sc.gen, offsetsOf(sc.g, oc{sc.t, 0, 0})) }},
		{"as the member at no epoch", 9, false, func(sc scene) kmsg.Request { return offsetsAs(sc.member, -1, offsetsOf(sc.g, oc{sc.t, 0, 0})) }},
	}, ""},
	{"DescribeGroups", 0, 6, false, []ask{
		{"it", 0, false, func(sc scene) kmsg.Request { return describeOf(sc.g) }},
		{"it and others", 0, false, func(sc scene) kmsg.Request { return describeOf("", sc.g, "nowhere") }},
		{"with operations", 3, false, func(sc scene) kmsg.Request { return withOperations(describeOf(sc.g)) }},
	}, ""},
	{"ListGroups", 0, 5, false, []ask{
		{"all", 0, false, func(sc scene) kmsg.Request { return listGroupsOf(nil, nil) }},
		{"stable", 4, false, func(sc scene) kmsg.Request { return listGroupsOf([]string{"Stable"}, nil) }},
		{"empty", 4, false, func(sc scene) kmsg.Request { return listGroupsOf([]string{"EMPTY"}, nil) }},
		{"rebalancing", 4, false, func(sc scene) kmsg.Request {
			return listGroupsOf([]string{"preparingrebalance", "completingrebalance"}, nil)
		}},
		{"dead", 4, false, func(sc scene) kmsg.Request { return listGroupsOf([]string{"Dead", "nonsense"}, nil) }},
		{"of consumers", 4, false, func(sc scene) kmsg.Request { return listGroupsOf([]string{"Assigning", "Reconciling"}, nil) }},
		{"classic", 5, false, func(sc scene) kmsg.Request { return listGroupsOf(nil, []string{"classic"}) }},
		{"consumer", 5, false, func(sc scene) kmsg.Request { return listGroupsOf(nil, []string{"Consumer"}) }},
		{"unknown type", 5, false, func(sc scene) kmsg.Request { return listGroupsOf(nil, []string{"nonsense", "unknown"}) }},
		{"stable consumer", 5, false, func(sc scene) kmsg.Request { return listGroupsOf([]string{"stable"}, []string{"consumer"}) }},
	}, ""},
	{"DeleteGroups", 0, 3, false, []ask{
		{"it", 0, true, func(sc scene) kmsg.Request { return deleteGroupsOf(sc.g) }},
		{"it and others", 0, true, func(sc scene) kmsg.Request { return deleteGroupsOf("nowhere", sc.g, "") }},
		{"twice", 0, true, func(sc scene) kmsg.Request { return deleteGroupsOf(sc.g, sc.g) }},
	}, ""},
	{"OffsetDelete", 0, 0, true, []ask{
		{"nothing", 0, false, func(sc scene) kmsg.Request { return offsetDeleteOf(sc.g) }},
		{"unknown", 0, false, func(sc scene) kmsg.Request { return offsetDeleteOf(sc.g, oc{topic{name: "nowhere"}, 0, 0}) }},
		{"unknown partitions", 0, false, func(sc scene) kmsg.Request { return offsetDeleteOf(sc.g, oc{sc.t, 7, 0}, oc{sc.u, -1, 0}) }},
		{"of both topics", 0, true, func(sc scene) kmsg.Request { return offsetDeleteOf(sc.g, oc{sc.t, 0, 0}, oc{sc.u, 0, 0}) }},
	}, ""},
	{"ConsumerGroupDescribe", 0, 1, false, []ask{
		{"it", 0, false, func(sc scene) kmsg.Request { return consumerDescribeOf(sc.g) }},
		{"it and others", 0, false, func(sc scene) kmsg.Request { return consumerDescribeOf("", sc.g, "nowhere") }},
		{"with operations", 0, false, func(sc scene) kmsg.Request {
			r := consumerDescribeOf(sc.g)
			r.IncludeAuthorizedOperations = true
			return r
		}},
	}, ""},
	{"ConsumerGroupHeartbeat", 0, 1, false, []ask{
		{"right", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, sc.member, max(sc.gen, 1)) }},
		{"nobody", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, "nobody", 1) }},
		{"an epoch too far", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, sc.member, sc.gen+1) }},
		{"the epoch before", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, sc.member, max(sc.gen-1, 1)) }},
		{"epoch -3", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, sc.member, -3) }},
		{"nobody leaves", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, "nobody", -1) }},
		{"nobody leaves to come back", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, "nobody", -2, instance(sc.instance)) }},
		{"nobody of the instance", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, "nobody", 1, instance(sc.instance)) }},
		{"nobody of the instance leaves", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, "nobody", -1, instance(sc.instance)) }},
		{"another instance", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, sc.member, 1, instance("other")) }},
		{"another instance leaves", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, sc.member, -1, instance("other")) }},
		{"unknown assignor", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, sc.member, max(sc.gen, 1), assignor("none")) }},
		{"leaves", 0, true, func(sc scene) kmsg.Request { return beatOf(sc.g, sc.member, -1) }},
		{"joins", 0, true, func(sc scene) kmsg.Request { return beatOf(sc.g, "new", 0, names("t")) }},
		{"joins as the instance", 0, true, func(sc scene) kmsg.Request { return beatOf(sc.g, "new", 0, names("t"), instance(sc.instance)) }},
		{"the member joins again", 0, true, func(sc scene) kmsg.Request { return beatOf(sc.g, sc.member, 0, names("t")) }},
		{"joins without a subscription", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, "new", 0) }},
		{"joins with an unknown assignor", 0, false, func(sc scene) kmsg.Request { return beatOf(sc.g, "new", 0, names("t"), assignor("none")) }},
		{"joins with a bad expression", 1, false, func(sc scene) kmsg.Request { return beatOf(sc.g, "new", 0, matching("(")) }},
		{"the instance leaves to come back", 0, true, func(sc scene) kmsg.Request { return beatOf(sc.g, sc.member, -2, instance(sc.instance)) }},
	}, ""},
}
