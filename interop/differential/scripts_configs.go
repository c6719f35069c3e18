package differential

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topicResource  = kmsg.ConfigResourceTypeTopic
	brokerResource = kmsg.ConfigResourceTypeBroker
)

// replaceOf builds an AlterConfigs (the old one that replaces everything) for one resource.
func replaceOf(kind kmsg.ConfigResourceType, name string, kvs ...string) *kmsg.AlterConfigsRequest {
	req := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for i := 0; i < len(kvs); i += 2 {
		r.Configs = append(r.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: kvs[i], Value: &kvs[i+1]})
	}
	req.Resources = append(req.Resources, r)
	return req
}

// sees waits until a key has a value, then records the description of keys.
func (s *S) sees(t topic, key, value string, keys ...string) {
	s.until(key+" = "+value, func() bool { return s.config(t, key) == value })
	s.do("described", 4, synonyms(describeConfigsOf(topicResource, t.name, append([]string{key}, keys...)...)))
}

func synonyms(req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsRequest {
	req.IncludeSynonyms = true
	return req
}

func documented(req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsRequest {
	req.IncludeDocumentation = true
	return req
}

var configScripts = []Script{
	{"DescribeConfigs/topic-all-keys", func(s *S) {
		t := s.create("t", 1)
		s.each("all", 1, 4, func(int16) kmsg.Request { return describeConfigsOf(topicResource, t.name) })
	}},
	{"DescribeConfigs/topic-synonyms", func(s *S) {
		t := s.create("t", 1, "retention.ms", "5000", "cleanup.policy", "compact")
		s.each("all", 1, 4, func(int16) kmsg.Request { return synonyms(describeConfigsOf(topicResource, t.name)) })
	}},
	{"DescribeConfigs/topic-documentation", func(s *S) {
		t := s.create("t", 1)
		s.each("some", 3, 4, func(int16) kmsg.Request {
			return documented(describeConfigsOf(topicResource, t.name, "retention.ms", "cleanup.policy"))
		})
	}},
	{"DescribeConfigs/topic-some-keys", func(s *S) {
		t := s.create("t", 1, "retention.ms", "5000")
		s.each("two", 1, 4, func(int16) kmsg.Request {
			return describeConfigsOf(topicResource, t.name, "retention.ms", "segment.bytes")
		})
		s.each("one unknown", 1, 4, func(int16) kmsg.Request {
			return describeConfigsOf(topicResource, t.name, "retention.ms", "no.such.key")
		})
		s.do("twice", 4, describeConfigsOf(topicResource, t.name, "retention.ms", "retention.ms"))
		none := describeConfigsOf(topicResource, t.name)
		none.Resources[0].ConfigNames = []string{}
		s.each("empty list", 1, 4, func(int16) kmsg.Request { return none })
	}},
	{"DescribeConfigs/unknown-topic", func(s *S) {
		s.each("unknown", 1, 4, func(int16) kmsg.Request { return describeConfigsOf(topicResource, s.name("unknown")) })
		for i, name := range badNames {
			s.label = fmt.Sprintf("name %d ", i)
			s.do("describe", 4, describeConfigsOf(topicResource, name))
		}
	}},
	{"DescribeConfigs/resource-types", func(s *S) {
		for _, kind := range []int8{0, 1, 3, 5, 9, -1, 127} {
			s.do(fmt.Sprintf("type %d", kind), 4, describeConfigsOf(kmsg.ConfigResourceType(kind), "x", "retention.ms"))
		}
	}},
	{"DescribeConfigs/broker-names", func(s *S) {
		for _, name := range []string{"99", "-1", "x", "1.5", " 1"} {
			s.do(fmt.Sprintf("broker %q", name), 4, describeConfigsOf(brokerResource, name, "log.retention.ms"))
		}
	}},
	{"DescribeConfigs/broker-keys", func(s *S) {
		id := fmt.Sprint(s.n.node)
		s.each("this broker", 1, 4, func(int16) kmsg.Request {
			return synonyms(describeConfigsOf(brokerResource, id, "log.retention.ms", "log.segment.bytes", "message.max.bytes", "num.partitions", "auto.create.topics.enable", "compression.type", "log.cleanup.policy", "min.insync.replicas", "node.id", "no.such.key"))
		})
		s.each("cluster default", 1, 4, func(int16) kmsg.Request {
			return synonyms(describeConfigsOf(brokerResource, "", "log.retention.ms", "num.partitions", "no.such.key"))
		})
		s.do("cluster default, all", 4, describeConfigsOf(brokerResource, ""))
	}},
	{"DescribeConfigs/several", func(s *S) {
		t, u := s.create("t", 1), s.create("u", 1)
		req := describeConfigsOf(topicResource, t.name, "retention.ms")
		req.Resources = append(req.Resources, describeConfigsOf(topicResource, u.name, "segment.ms").Resources[0],
			describeConfigsOf(topicResource, s.name("unknown"), "segment.ms").Resources[0],
			describeConfigsOf(topicResource, t.name, "segment.bytes").Resources[0])
		s.do("two, unknown, one again", 4, req)
		s.do("nothing", 4, kmsg.NewPtrDescribeConfigsRequest())
	}},
	{"IncrementalAlterConfigs/set-and-delete", func(s *S) {
		for v := int16(0); v <= 1; v++ {
			s.label = fmt.Sprintf("in v%d: ", v)
			t := s.create(fmt.Sprintf("t%d", v), 1)
			s.do("set", v, alterOf(topicResource, t.name, set("retention.ms", "12345"), set("max.message.bytes", "2000")))
			s.sees(t, "retention.ms", "12345", "max.message.bytes")
			s.do("set again", v, alterOf(topicResource, t.name, set("retention.ms", "12346")))
			s.sees(t, "retention.ms", "12346", "max.message.bytes")
			s.do("delete", v, alterOf(topicResource, t.name, op{"retention.ms", 1, nil}))
			s.sees(t, "retention.ms", "604800000", "max.message.bytes")
			s.do("delete again", v, alterOf(topicResource, t.name, op{"retention.ms", 1, nil}))
			s.do("delete with value", v, alterOf(topicResource, t.name, op{"max.message.bytes", 1, ptr("x")}))
			s.sees(t, "max.message.bytes", "1048588")
		}
	}},
	{"IncrementalAlterConfigs/append-and-subtract", func(s *S) {
		t := s.create("t", 1)
		s.do("append", 1, alterOf(topicResource, t.name, op{"cleanup.policy", 2, ptr("compact")}))
		s.sees(t, "cleanup.policy", "delete,compact")
		s.do("append again", 1, alterOf(topicResource, t.name, op{"cleanup.policy", 2, ptr("compact")}))
		s.do("subtract", 1, alterOf(topicResource, t.name, op{"cleanup.policy", 3, ptr("delete")}))
		s.sees(t, "cleanup.policy", "compact")
		s.do("subtract absent", 1, alterOf(topicResource, t.name, op{"cleanup.policy", 3, ptr("delete")}))
		s.do("subtract all", 1, alterOf(topicResource, t.name, op{"cleanup.policy", 3, ptr("compact")}))
		s.do("append bad", 1, alterOf(topicResource, t.name, op{"cleanup.policy", 2, ptr("nonsense")}))
		s.do("append two", 1, alterOf(topicResource, t.name, op{"cleanup.policy", 2, ptr("delete,compact")}))
		s.do("append to a number", 1, alterOf(topicResource, t.name, op{"retention.ms", 2, ptr("1")}))
		s.do("subtract from a number", 1, alterOf(topicResource, t.name, op{"retention.ms", 3, ptr("1")}))
	}},
	{"IncrementalAlterConfigs/bad-operations", func(s *S) {
		t := s.create("t", 1)
		for _, o := range []int8{4, -1, 127} {
			s.do(fmt.Sprintf("operation %d", o), 1, alterOf(topicResource, t.name, op{"retention.ms", o, ptr("1")}))
		}
		for o := range int8(4) {
			s.do(fmt.Sprintf("operation %d with null", o), 1, alterOf(topicResource, t.name, op{"retention.ms", o, nil}))
			s.do(fmt.Sprintf("operation %d on a list with null", o), 1, alterOf(topicResource, t.name, op{"cleanup.policy", o, nil}))
			s.do(fmt.Sprintf("operation %d on unknown", o), 1, alterOf(topicResource, t.name, op{"no.such.key", o, ptr("1")}))
			s.do(fmt.Sprintf("operation %d on empty key", o), 1, alterOf(topicResource, t.name, op{"", o, ptr("1")}))
		}
	}},
	{"IncrementalAlterConfigs/bad-values", func(s *S) {
		t := s.create("t", 1)
		for _, c := range [][2]string{{"retention.ms", "x"}, {"retention.ms", "-2"}, {"segment.bytes", "10"}, {"cleanup.policy", "x"}, {"compression.type", "x"}, {"preallocate", "maybe"}, {"min.cleanable.dirty.ratio", "2"}, {"max.message.bytes", "9999999999"}, {"retention.ms", ""}} {
			s.do(fmt.Sprintf("%s=%s", c[0], c[1]), 1, alterOf(topicResource, t.name, set(c[0], c[1])))
		}
		s.do("good and bad", 1, alterOf(topicResource, t.name, set("retention.ms", "55"), set("segment.bytes", "1")))
		s.do("nothing changed", 4, describeConfigsOf(topicResource, t.name, "retention.ms"))
	}},
	{"IncrementalAlterConfigs/unknown-resources", func(s *S) {
		s.each("unknown topic", 0, 1, func(int16) kmsg.Request {
			return alterOf(topicResource, s.name("unknown"), set("retention.ms", "1"))
		})
		for i, name := range badNames {
			s.label = fmt.Sprintf("name %d ", i)
			s.do("alter", 1, alterOf(topicResource, name, set("retention.ms", "1")))
		}
		s.label = ""
		for _, kind := range []int8{0, 1, 3, 5, 9, -1} {
			s.do(fmt.Sprintf("type %d", kind), 1, alterOf(kmsg.ConfigResourceType(kind), "x", set("retention.ms", "1")))
		}
		for _, name := range []string{"99", "x", "-1"} {
			s.do(fmt.Sprintf("broker %q", name), 1, alterOf(brokerResource, name, set("log.cleaner.threads", "1")))
		}
	}},
	{"IncrementalAlterConfigs/duplicates", func(s *S) {
		t := s.create("t", 1)
		s.do("key twice", 1, alterOf(topicResource, t.name, set("retention.ms", "1"), set("retention.ms", "2")))
		two := alterOf(topicResource, t.name, set("retention.ms", "1"))
		two.Resources = append(two.Resources, alterOf(topicResource, t.name, set("segment.ms", "1000000")).Resources[0])
		s.do("resource twice", 1, two)
		s.do("no keys", 1, alterOf(topicResource, t.name))
		s.do("nothing", 1, kmsg.NewPtrIncrementalAlterConfigsRequest())
	}},
	{"IncrementalAlterConfigs/validate-only", func(s *S) {
		t := s.create("t", 1)
		req := alterOf(topicResource, t.name, set("retention.ms", "777"))
		req.ValidateOnly = true
		s.do("good", 1, req)
		bad := alterOf(topicResource, t.name, set("retention.ms", "x"))
		bad.ValidateOnly = true
		s.do("bad", 1, bad)
		s.do("unchanged", 4, describeConfigsOf(topicResource, t.name, "retention.ms"))
	}},
	{"IncrementalAlterConfigs/several", func(s *S) {
		t, u := s.create("t", 1), s.create("u", 1)
		req := alterOf(topicResource, t.name, set("retention.ms", "4000"))
		req.Resources = append(req.Resources, alterOf(topicResource, s.name("unknown"), set("retention.ms", "1")).Resources[0],
			alterOf(topicResource, u.name, set("segment.bytes", "x")).Resources[0])
		s.do("good, unknown, bad", 1, req)
		s.sees(t, "retention.ms", "4000")
	}},
	{"IncrementalAlterConfigs/broker-bad-values", func(s *S) {
		id := fmt.Sprint(s.n.node)
		for _, c := range [][2]string{{"log.retention.ms", "x"}, {"message.max.bytes", "-5"}, {"no.such.key.at.all", "1"}, {"node.id", "7"}, {"log.cleanup.policy", "nonsense"}} {
			s.do(fmt.Sprintf("%s=%s here", c[0], c[1]), 1, alterOf(brokerResource, id, set(c[0], c[1])))
			if c[0] != "no.such.key.at.all" && c[0] != "node.id" { // those stick to the cluster on Kafka
				s.do(fmt.Sprintf("%s=%s by default", c[0], c[1]), 1, alterOf(brokerResource, "", set(c[0], c[1])))
			}
		}
	}},
	{"IncrementalAlterConfigs/takes-effect", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(val("no key")))
		s.setConfig(t, "cleanup.policy", "compact")
		s.do("no key", 9, produceOf(-1, on(t, 0, newBatch(val("no key")).bytes())))
		s.setConfig(t, "cleanup.policy", "delete")
		s.do("no key", 9, produceOf(-1, on(t, 0, newBatch(val("no key")).bytes())))
		s.setConfig(t, "compression.type", "gzip")
		s.do("plain", 9, produceOf(-1, on(t, 0, newBatch(recs(2)...).bytes())))
		s.look(t, 0)
	}},
	{"AlterConfigs/replaces", func(s *S) {
		for v := int16(0); v <= 2; v++ {
			s.label = fmt.Sprintf("in v%d: ", v)
			t := s.create(fmt.Sprintf("t%d", v), 1, "segment.bytes", "3000000")
			s.do("replace", v, replaceOf(topicResource, t.name, "retention.ms", "9999"))
			s.sees(t, "retention.ms", "9999", "segment.bytes")
			s.do("with nothing", v, replaceOf(topicResource, t.name))
			s.sees(t, "retention.ms", "604800000", "segment.bytes")
		}
	}},
	{"AlterConfigs/errors", func(s *S) {
		t := s.create("t", 1)
		s.each("unknown topic", 0, 2, func(int16) kmsg.Request { return replaceOf(topicResource, s.name("unknown"), "retention.ms", "1") })
		s.each("bad value", 0, 2, func(int16) kmsg.Request { return replaceOf(topicResource, t.name, "retention.ms", "x") })
		s.each("unknown key", 0, 2, func(int16) kmsg.Request { return replaceOf(topicResource, t.name, "no.such.key", "x") })
		s.do("empty key", 2, replaceOf(topicResource, t.name, "", "x"))
		s.do("key twice", 2, replaceOf(topicResource, t.name, "retention.ms", "1", "retention.ms", "2"))
		null := replaceOf(topicResource, t.name, "retention.ms", "1")
		null.Resources[0].Configs[0].Value = nil
		s.do("null value", 2, null)
		for _, kind := range []int8{0, 1, 3, 5, -1} {
			s.do(fmt.Sprintf("type %d", kind), 2, replaceOf(kmsg.ConfigResourceType(kind), "x", "retention.ms", "1"))
		}
		s.do("nothing", 2, kmsg.NewPtrAlterConfigsRequest())
	}},
	{"AlterConfigs/validate-only", func(s *S) {
		t := s.create("t", 1, "segment.bytes", "3000000")
		req := replaceOf(topicResource, t.name, "retention.ms", "1")
		req.ValidateOnly = true
		s.do("good", 2, req)
		s.do("unchanged", 4, describeConfigsOf(topicResource, t.name, "retention.ms", "segment.bytes"))
	}},
	{"AlterConfigs/duplicate-resource", func(s *S) {
		t := s.create("t", 1)
		req := replaceOf(topicResource, t.name, "retention.ms", "1")
		req.Resources = append(req.Resources, req.Resources[0])
		s.doWithin(shortLimit, "twice", 2, req)
	}},
}
