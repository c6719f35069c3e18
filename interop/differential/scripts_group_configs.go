package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	groupResource = kmsg.ConfigResourceTypeGroupConfig
	sessionKey    = "consumer.session.timeout.ms"
	heartbeatKey  = "consumer.heartbeat.interval.ms"
	assignmentKey = "consumer.assignment.interval.ms"
)

// groupSees waits until a group's key has a value, then records the description of all keys of consumer groups.
func (s *S) groupSees(group, key, value string) {
	s.until(key+" = "+value, func() bool {
		resp := s.quiet(4, describeConfigsOf(groupResource, group, key)).(*kmsg.DescribeConfigsResponse)
		c := resp.Resources[0].Configs
		return len(c) == 1 && c[0].Value != nil && *c[0].Value == value
	})
	s.do("described", 4, synonyms(describeConfigsOf(groupResource, group, sessionKey, heartbeatKey, assignmentKey)))
}

// resources records which resources of types have configs, of those of this run.
func (s *S) resources(label string, kinds ...int8) {
	resp := s.quiet(1, listResourcesOf(kinds...)).(*kmsg.ListConfigResourcesResponse)
	own := []string{errorName(resp.ErrorCode)}
	for _, r := range resp.ConfigResources {
		if strings.HasPrefix(r.Name, s.n.prefix) {
			own = append(own, fmt.Sprintf("%d:%s", r.Type, strings.TrimPrefix(r.Name, s.n.prefix)))
		}
	}
	slices.Sort(own)
	s.note(label, strings.Join(own, " "))
}

// awaitListed waits until a resource is listed, or no more: Kafka's list follows its descriptions a moment later.
func (s *S) awaitListed(kind int8, name string, listed bool) {
	s.until(fmt.Sprintf("%s is listed: %v", name, listed), func() bool {
		resp := s.quiet(1, listResourcesOf(kind)).(*kmsg.ListConfigResourcesResponse)
		return slices.ContainsFunc(resp.ConfigResources, func(r kmsg.ListConfigResourcesResponseConfigResource) bool { return r.Name == name }) == listed
	})
}

func listResourcesOf(kinds ...int8) *kmsg.ListConfigResourcesRequest {
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = kinds
	return req
}

var groupConfigScripts = []Script{
	{"DescribeConfigs/group-keys", func(s *S) {
		g := s.name("nobody")
		s.each("of consumer groups", 1, 4, func(int16) kmsg.Request {
			return synonyms(describeConfigsOf(groupResource, g, sessionKey, heartbeatKey, assignmentKey, "no.such.key"))
		})
		s.each("documented", 3, 4, func(int16) kmsg.Request { return documented(describeConfigsOf(groupResource, g, sessionKey)) })
		s.do("all", 4, describeConfigsOf(groupResource, g))
		s.each("no name", 1, 4, func(int16) kmsg.Request { return describeConfigsOf(groupResource, "", sessionKey) })
		s.do("a name like none", 4, describeConfigsOf(groupResource, "a b/\u00e4", sessionKey))
		two := describeConfigsOf(groupResource, g, sessionKey)
		two.Resources = append(two.Resources, describeConfigsOf(groupResource, g, heartbeatKey).Resources[0], describeConfigsOf(groupResource, s.name("other"), "").Resources[0])
		s.do("again, and another", 4, two)
	}},
	{"DescribeConfigs/group-keys-of-the-broker", func(s *S) {
		s.each("limits", 1, 4, func(int16) kmsg.Request {
			var keys []string
			for _, k := range []string{"session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"} {
				keys = append(keys, "group.consumer."+k, "group.consumer.min."+k, "group.consumer.max."+k)
			}
			return synonyms(describeConfigsOf(brokerResource, fmt.Sprint(s.n.node), keys...))
		})
	}},
	{"IncrementalAlterConfigs/group-set-and-delete", func(s *S) {
		for v := int16(0); v <= 1; v++ {
			s.label = fmt.Sprintf("in v%d: ", v)
			g := s.name(fmt.Sprintf("g%d", v))
			s.do("set", v, alterOf(groupResource, g, set(sessionKey, "50000"), set(heartbeatKey, " 6000 ")))
			s.groupSees(g, sessionKey, "50000")
			s.do("set again", v, alterOf(groupResource, g, set(sessionKey, "55000"), set(assignmentKey, "0")))
			s.groupSees(g, sessionKey, "55000")
			s.do("delete", v, alterOf(groupResource, g, op{sessionKey, 1, nil}))
			s.groupSees(g, sessionKey, "45000")
			s.do("delete again", v, alterOf(groupResource, g, op{sessionKey, 1, nil}))
			s.do("delete with value", v, alterOf(groupResource, g, op{heartbeatKey, 1, ptr("x")}))
			s.groupSees(g, heartbeatKey, "5000")
		}
	}},
	{"IncrementalAlterConfigs/group-values", func(s *S) {
		g := s.name("g")
		for _, row := range [][]string{
			{sessionKey, "999", "1000", "45000", "60000", "60001", "0", "-1", "abc", "", " 50000 ", "2147483648", "+50000", "50000.0"},
			{heartbeatKey, "499", "500", "5000", "15000", "15001", "0", "-1", "abc", "", " 6000 "},
			{assignmentKey, "0", "15000", "15001", "-1", "abc", "", " 6000 "},
		} {
			for _, v := range row[1:] {
				req := alterOf(groupResource, g, set(row[0], v))
				req.ValidateOnly = true
				s.do(fmt.Sprintf("%s=%s", row[0], v), 1, req)
			}
		}
		s.do("good and bad", 1, alterOf(groupResource, g, set(sessionKey, "50000"), set(heartbeatKey, "1")))
		s.do("nothing changed", 4, describeConfigsOf(groupResource, g, sessionKey, heartbeatKey))
		s.resources("nothing is listed", 32)
	}},
	{"IncrementalAlterConfigs/group-bad", func(s *S) {
		g := s.name("g")
		s.each("no name", 0, 1, func(int16) kmsg.Request { return alterOf(groupResource, "", set(sessionKey, "50000")) })
		s.do("unknown key", 1, alterOf(groupResource, g, set("no.such.key", "1")))
		s.do("delete of an unknown key", 1, alterOf(groupResource, g, op{"no.such.key", 1, nil}))
		s.do("empty key", 1, alterOf(groupResource, g, set("", "1")))
		s.do("a broker's key", 1, alterOf(groupResource, g, set("group."+sessionKey, "50000")))
		s.do("a topic's key", 1, alterOf(groupResource, g, set("retention.ms", "50000")))
		for o := range int8(4) {
			s.do(fmt.Sprintf("operation %d with null", o), 1, alterOf(groupResource, g, op{sessionKey, o, nil}))
		}
		for _, o := range []int8{2, 3, 4, -1} {
			s.do(fmt.Sprintf("operation %d", o), 1, alterOf(groupResource, g, op{sessionKey, o, ptr("50000")}))
		}
		s.do("key twice", 1, alterOf(groupResource, g, set(sessionKey, "50000"), set(sessionKey, "51000")))
		s.do("no keys", 1, alterOf(groupResource, g))
		two := alterOf(groupResource, g, set(sessionKey, "50000"))
		two.Resources = append(two.Resources, alterOf(groupResource, g, set(heartbeatKey, "6000")).Resources[0])
		s.do("resource twice", 1, two)
		for _, kind := range []int8{31, 33, 64} {
			s.do(fmt.Sprintf("type %d", kind), 1, alterOf(kmsg.ConfigResourceType(kind), g, set(sessionKey, "50000")))
		}
	}},
	{"IncrementalAlterConfigs/group-keys-of-others", func(s *S) {
		for _, k := range []string{"share.session.timeout.ms", "streams.session.timeout.ms"} {
			g := s.name("g" + k[:6])
			s.do("set "+k, 1, alterOf(groupResource, g, set(k, "50000")))
			s.do("set "+k+" out of its limits", 1, alterOf(groupResource, g, set(k, "1")))
		}
	}},
	{"IncrementalAlterConfigs/group-several", func(s *S) {
		g, h, t := s.name("g"), s.name("h"), s.create("t", 1)
		req := alterOf(groupResource, g, set(sessionKey, "50000"))
		req.Resources = append(req.Resources, alterOf(topicResource, g, set("retention.ms", "1")).Resources[0],
			alterOf(groupResource, h, set(sessionKey, "1")).Resources[0], alterOf(topicResource, t.name, set("retention.ms", "77777")).Resources[0])
		s.do("good, unknown topic, bad, good", 1, req)
		s.groupSees(g, sessionKey, "50000")
		s.awaitListed(32, g, true)
		s.awaitListed(2, t.name, true)
		s.resources("listed", 32, 2)
	}},
	{"AlterConfigs/group-replaces", func(s *S) {
		for v := int16(0); v <= 2; v++ {
			s.label = fmt.Sprintf("in v%d: ", v)
			g := s.name(fmt.Sprintf("g%d", v))
			s.do("set", v, replaceOf(groupResource, g, sessionKey, "50000", assignmentKey, "500"))
			s.groupSees(g, sessionKey, "50000")
			s.do("replace", v, replaceOf(groupResource, g, heartbeatKey, "7000"))
			s.groupSees(g, heartbeatKey, "7000")
			s.do("bad", v, replaceOf(groupResource, g, heartbeatKey, "7"))
			s.do("unknown", v, replaceOf(groupResource, g, "no.such.key", "7"))
			s.do("no name", v, replaceOf(groupResource, "", heartbeatKey, "7000"))
			s.do("with nothing", v, replaceOf(groupResource, g))
			s.groupSees(g, heartbeatKey, "5000")
		}
		s.label = ""
		only := replaceOf(groupResource, s.name("only"), sessionKey, "50000")
		only.ValidateOnly = true
		s.do("validate only", 2, only)
		s.do("unchanged", 4, describeConfigsOf(groupResource, s.name("only"), sessionKey))
	}},
	{"ListConfigResources/own", func(s *S) {
		g, t := s.name("g"), s.create("t", 1)
		s.do("set", 1, alterOf(groupResource, g, set(sessionKey, "50000")))
		s.groupSees(g, sessionKey, "50000")
		s.awaitListed(32, g, true)
		s.awaitListed(2, t.name, true)
		s.resources("everything")
		s.resources("groups", 32)
		s.resources("groups twice, topics", 32, 32, 2)
		s.resources("topics", 2)
		s.do("delete", 1, alterOf(groupResource, g, op{sessionKey, 1, nil}))
		s.groupSees(g, sessionKey, "45000")
		s.awaitListed(32, g, false)
		s.resources("after the deletion")
		s.drop(t)
		s.awaitListed(2, t.name, false)
		s.resources("without the topic")
	}},
	{"ListConfigResources/types", func(s *S) {
		s.do("client metrics", 0, listResourcesOf())
		for _, kind := range []int8{4, 16, 0, 1, 7, 64, -1} {
			s.do(fmt.Sprintf("type %d", kind), 1, listResourcesOf(kind))
		}
		s.do("known and unknown", 1, listResourcesOf(4, 7))
		s.do("loggers", 1, listResourcesOf(8))
	}},
	{"ConsumerGroupHeartbeat/group-configs", func(s *S) {
		g, t := s.groupOn("g", "t", 2)
		s.beat("a joins", g, "a", 0, subscribed(t))
		told := func(ms int32) {
			s.until(fmt.Sprintf("members are told %d ms", ms), func() bool {
				return s.quiet(1, beatOf(g, "a", 2)).(*kmsg.ConsumerGroupHeartbeatResponse).HeartbeatIntervalMillis == ms
			})
			s.beat("beats", g, "a", 2)
		}
		s.do("set", 1, alterOf(groupResource, g, set(heartbeatKey, "7000")))
		told(7000)
		s.beat("a leaves", g, "a", -1)
		s.do("deleted", 2, deleteGroupsOf(g))
		s.do("what is left", 4, describeConfigsOf(groupResource, g, heartbeatKey))
		s.beat("a joins the next group", g, "a", 0, subscribed(t))
		s.do("unset", 1, alterOf(groupResource, g, op{heartbeatKey, 1, nil}))
		told(5000)
	}},
}
