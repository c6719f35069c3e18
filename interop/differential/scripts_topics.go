package differential

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// validate turns a CreateTopics into one that changes nothing.
func validate(req *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsRequest {
	req.ValidateOnly = true
	return req
}

// creates is a script that tries each topic in an old and the newest version, validating first.
func creates(id string, topics func(s *S) []ct) Script {
	return Script{"CreateTopics/" + id, func(s *S) {
		for i, c := range topics(s) {
			s.label = fmt.Sprintf("case %d ", i)
			s.do("validate", 4, validate(createOf(c)))
			s.do("validate", 7, validate(createOf(c)))
			s.do("create", 7, createOf(c))
		}
	}}
}

// withConfig is creates for one topic config and several values.
func withConfig(key string, values ...string) Script {
	return creates("config/"+key, func(s *S) []ct {
		var out []ct
		for i, v := range values {
			out = append(out, ct{name: s.name(fmt.Sprintf("t%d", i)), partitions: 1, rf: 1, configs: []string{key, v}})
		}
		return out
	})
}

var createTopicsScripts = []Script{
	{"CreateTopics/all-versions", func(s *S) {
		for v := int16(2); v <= 7; v++ {
			name := s.name(fmt.Sprintf("t%d", v))
			s.do("create", v, createOf(ct{name: name, partitions: 2, rf: 1}))
			s.do("again", v, createOf(ct{name: name, partitions: 2, rf: 1}))
			s.do("validate again", v, validate(createOf(ct{name: name, partitions: 2, rf: 1})))
			s.do("validate new", v, validate(createOf(ct{name: s.name("other"), partitions: 3, rf: 1})))
		}
		s.listed("what is there")
	}},
	{"CreateTopics/configs-in-answer", func(s *S) {
		s.do("create", 5, createOf(ct{name: s.name("a"), partitions: 1, rf: 1, configs: []string{"retention.ms", "1000", "cleanup.policy", "compact,delete", "segment.bytes", "2000000"}}))
		s.do("create", 7, createOf(ct{name: s.name("b"), partitions: 1, rf: 1, configs: []string{"max.message.bytes", "12345"}}))
	}},
	creates("names", func(s *S) []ct {
		var out []ct
		for _, name := range badNames {
			out = append(out, ct{name: name, partitions: 1, rf: 1})
		}
		return append(out, ct{name: longName(s), partitions: 1, rf: 1}, ct{name: "__cluster_metadata", partitions: 1, rf: 1})
	}),
	{"CreateTopics/colliding-names", func(s *S) {
		s.create("a.b", 1)
		s.do("underscore", 7, createOf(ct{name: s.name("a_b"), partitions: 1, rf: 1}))
		s.do("both at once", 7, createOf(ct{name: s.name("c.d"), partitions: 1, rf: 1}, ct{name: s.name("c_d"), partitions: 1, rf: 1}))
	}},
	creates("partitions", func(s *S) []ct {
		var out []ct
		for i, n := range []int32{-1, 0, -2, 1, 100} {
			out = append(out, ct{name: s.name(fmt.Sprintf("t%d", i)), partitions: n, rf: 1})
		}
		return out
	}),
	creates("replication-factor", func(s *S) []ct {
		var out []ct
		for i, n := range []int16{-1, 0, -2, 2, 32767} {
			out = append(out, ct{name: s.name(fmt.Sprintf("t%d", i)), partitions: 1, rf: n})
		}
		return append(out, ct{name: s.name("zero"), partitions: 0, rf: 0}, ct{name: s.name("defaults"), partitions: -1, rf: -1})
	}),
	{"CreateTopics/defaults-in-old-versions", func(s *S) {
		s.do("create", 2, createOf(ct{name: s.name("a"), partitions: -1, rf: -1}))
		s.do("create", 3, createOf(ct{name: s.name("b"), partitions: -1, rf: 1}))
	}},
	creates("assignment", func(s *S) []ct {
		n := s.n.node
		var out []ct
		for i, a := range [][][]int32{
			{{n}}, {{n}, {n}}, {{99}}, {{n, n}}, {{n, 99}}, {{}}, {{n}, {}}, {{-1}},
		} {
			out = append(out, ct{name: s.name(fmt.Sprintf("t%d", i)), partitions: -1, rf: -1, assignment: a})
		}
		return append(out,
			ct{name: s.name("count"), partitions: 1, rf: -1, assignment: [][]int32{{n}}},
			ct{name: s.name("factor"), partitions: -1, rf: 1, assignment: [][]int32{{n}}},
			ct{name: s.name("both"), partitions: 1, rf: 1, assignment: [][]int32{{n}}},
		)
	}),
	{"CreateTopics/assignment-with-holes", func(s *S) {
		req := createOf(ct{name: s.name("a"), partitions: -1, rf: -1, assignment: [][]int32{{s.n.node}, {s.n.node}}})
		req.Topics[0].ReplicaAssignment[1].Partition = 2
		s.do("hole", 7, req)
		req.Topics[0].ReplicaAssignment[1].Partition = 0
		s.do("partition twice", 7, req)
		req.Topics[0].ReplicaAssignment[1].Partition = -1
		s.do("negative partition", 7, req)
	}},
	{"CreateTopics/duplicates", func(s *S) {
		a := ct{name: s.name("a"), partitions: 1, rf: 1}
		s.do("twice", 4, createOf(a, a))
		s.do("twice and another", 7, createOf(a, ct{name: s.name("b"), partitions: 1, rf: 1}, a))
		s.listed("what is there")
	}},
	{"CreateTopics/some-good", func(s *S) {
		s.do("create", 7, createOf(
			ct{name: s.name("good"), partitions: 1, rf: 1}, ct{name: "b a d", partitions: 1, rf: 1},
			ct{name: s.name("zero"), partitions: 0, rf: 1}, ct{name: s.name("config"), partitions: 1, rf: 1, configs: []string{"no.such.key", "1"}}))
		s.listed("what is there")
	}},
	{"CreateTopics/nothing", func(s *S) {
		s.each("no topics", 2, 7, func(int16) kmsg.Request { return createOf() })
	}},
	{"CreateTopics/timeout", func(s *S) {
		for i, ms := range []int32{-1, 2147483647} {
			req := createOf(ct{name: s.name(fmt.Sprint("t", i)), partitions: 1, rf: 1})
			req.TimeoutMillis = ms
			s.do(fmt.Sprintf("timeout %d", ms), 7, req)
		}
	}},
	{"CreateTopics/config/null-value", func(s *S) {
		req := createOf(ct{name: s.name("a"), partitions: 1, rf: 1, configs: []string{"retention.ms", ""}})
		req.Topics[0].Configs[0].Value = nil
		s.do("create", 4, req)
		s.do("create", 7, req)
	}},
	{"CreateTopics/config/twice", func(s *S) {
		s.do("create", 7, createOf(ct{name: s.name("a"), partitions: 1, rf: 1, configs: []string{"retention.ms", "1", "retention.ms", "2"}}))
	}},
	{"CreateTopics/ready-when-answered", func(s *S) {
		s.do("create", 7, createOf(ct{name: s.name("a"), partitions: 1, rf: 1}))
		t := topic{name: s.name("a")}
		s.awaitLeaders(t, 1) // Kafka's partitions come up a moment after the answer
		s.do("produce", 9, produceOf(-1, on(t, 0, newBatch(kv("a", "b")).bytes())))
	}},
	creates("config/unknown", func(s *S) []ct {
		var out []ct
		for i, key := range []string{"no.such.key", "", "Retention.ms", "log.retention.ms", "message.format.version", "message.downconversion.enable", "broker.id"} {
			out = append(out, ct{name: s.name(fmt.Sprintf("t%d", i)), partitions: 1, rf: 1, configs: []string{key, "1"}})
		}
		return out
	}),
	withConfig("cleanup.policy", "delete", "compact", "compact,delete", "delete,compact", "", "none", "delete,none", " delete ", "DELETE", "delete,delete"),
	withConfig("retention.ms", "-1", "0", "1", "-2", "", "x", "1.5", "9223372036854775807", "9223372036854775808", " 5 "),
	withConfig("retention.bytes", "-1", "0", "-2", "10", "x"),
	withConfig("segment.bytes", "1048576", "1048575", "14", "0", "2147483647", "2147483648", "x"),
	withConfig("segment.ms", "1", "0", "-1", "604800000"),
	withConfig("segment.jitter.ms", "0", "-1", "5"),
	withConfig("segment.index.bytes", "4", "3", "0", "1024", "10485760"),
	withConfig("index.interval.bytes", "0", "-1", "4096"),
	withConfig("max.message.bytes", "0", "-1", "1", "2147483647"),
	withConfig("message.timestamp.type", "CreateTime", "LogAppendTime", "createtime", "", "x"),
	withConfig("message.timestamp.before.max.ms", "0", "-1", "5"),
	withConfig("message.timestamp.after.max.ms", "0", "-1", "5"),
	withConfig("compression.type", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd", "none", "GZIP", ""),
	withConfig("compression.gzip.level", "1", "9", "-1", "0", "10"),
	withConfig("compression.lz4.level", "1", "17", "0", "18"),
	withConfig("compression.zstd.level", "-131072", "22", "0", "23", "-131073"),
	withConfig("min.insync.replicas", "1", "2", "0", "-1", "100"),
	withConfig("min.cleanable.dirty.ratio", "0", "1", "0.5", "1.1", "-0.1", "x", "NaN"),
	withConfig("min.compaction.lag.ms", "0", "-1", "5"),
	withConfig("max.compaction.lag.ms", "0", "1", "-1"),
	withConfig("delete.retention.ms", "0", "-1", "5"),
	withConfig("file.delete.delay.ms", "0", "-1", "5"),
	withConfig("flush.messages", "0", "1", "-1"),
	withConfig("flush.ms", "0", "1", "-1"),
	withConfig("preallocate", "true", "false", "TRUE", "yes", ""),
	withConfig("unclean.leader.election.enable", "true", "false", "1"),
	withConfig("remote.storage.enable", "false", "true", "x"),
	withConfig("local.retention.ms", "-2", "-1", "5", "-3"),
	creates("config/pairs", func(s *S) []ct {
		pairs := [][]string{
			{"min.compaction.lag.ms", "10", "max.compaction.lag.ms", "5"},
			{"segment.ms", "5", "segment.jitter.ms", "10"},
			{"retention.ms", "5", "local.retention.ms", "10"},
			{"cleanup.policy", "compact", "retention.ms", "5"},
			{"segment.bytes", "1048576", "max.message.bytes", "5000000"},
		}
		var out []ct
		for i, p := range pairs {
			out = append(out, ct{name: s.name(fmt.Sprintf("t%d", i)), partitions: 1, rf: 1, configs: p})
		}
		return out
	}),
}

// cp is one topic of a CreatePartitions.
type cp struct {
	name       string
	count      int32
	assignment [][]int32
}

func partitionsOf(cs ...cp) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10000
	for _, c := range cs {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = c.name, c.count
		for _, replicas := range c.assignment {
			t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func deleteOf(names ...string) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10000
	req.TopicNames = names
	for _, name := range names {
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
	}
	return req
}

func deleteByID(ids ...[16]byte) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10000
	for _, id := range ids {
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{TopicID: id})
	}
	return req
}

var topicAdminScripts = []Script{
	{"DeleteTopics/all-versions", func(s *S) {
		for v := int16(1); v <= 6; v++ {
			t := s.create(fmt.Sprintf("t%d", v), 1)
			s.do("delete", v, deleteOf(t.name))
			s.do("again", v, deleteOf(t.name))
		}
		s.listed("what is left")
	}},
	{"DeleteTopics/unknown-and-invalid", func(s *S) {
		s.each("unknown", 1, 6, func(int16) kmsg.Request { return deleteOf(s.name("unknown")) })
		for i, name := range badNames {
			s.label = fmt.Sprintf("name %d ", i)
			s.do("delete", 4, deleteOf(name))
			s.do("delete", 6, deleteOf(name))
		}
	}},
	{"DeleteTopics/several", func(s *S) {
		a, b := s.create("a", 1), s.create("b", 2)
		s.do("two and unknown", 5, deleteOf(a.name, s.name("unknown"), b.name))
		s.listed("what is left")
	}},
	{"DeleteTopics/by-id", func(s *S) {
		a := s.create("a", 1)
		s.do("unknown", 6, deleteByID(unknownID))
		s.do("zero", 6, deleteByID([16]byte{}))
		s.do("known", 6, deleteByID(a.id))
		s.do("again", 6, deleteByID(a.id))
	}},
	{"DeleteTopics/id-and-name", func(s *S) {
		a, b := s.create("a", 1), s.create("b", 1)
		both := deleteByID(a.id)
		both.Topics[0].Topic = &a.name
		s.do("id with its name", 6, both)
		both.Topics[0].Topic = &b.name
		s.do("id with another name", 6, both)
		mixed := deleteByID(a.id)
		mixed.Topics = append(mixed.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &b.name})
		s.do("one by id, one by name", 6, mixed)
	}},
	{"DeleteTopics/duplicates", func(s *S) {
		a, b, c := s.create("a", 1), s.create("b", 1), s.create("c", 1)
		s.do("name twice", 5, deleteOf(a.name, a.name))
		s.do("name twice", 6, deleteOf(a.name, b.name, a.name))
		s.do("id twice", 6, deleteByID(c.id, c.id))
		same := deleteByID(c.id)
		same.Topics = append(same.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &c.name})
		s.do("id and name of one topic", 6, same)
		s.listed("what is left")
	}},
	{"DeleteTopics/nothing", func(s *S) {
		s.each("no topics", 1, 6, func(int16) kmsg.Request { return deleteOf() })
	}},
	{"CreatePartitions/all-versions", func(s *S) {
		t := s.create("t", 1)
		for v := int16(0); v <= 3; v++ {
			req := partitionsOf(cp{t.name, int32(v) + 2, nil})
			req.ValidateOnly = true
			s.do("validate", v, req)
			s.do("grow", v, partitionsOf(cp{t.name, int32(v) + 2, nil}))
		}
		s.awaitLeaders(t, 5)
		s.do("what is there", 9, metadataOf(t.name))
	}},
	{"CreatePartitions/counts", func(s *S) {
		t := s.create("t", 3)
		for _, n := range []int32{3, 2, 1, 0, -1, -2147483648} {
			s.do(fmt.Sprintf("count %d", n), 0, partitionsOf(cp{t.name, n, nil}))
			s.do(fmt.Sprintf("count %d", n), 3, partitionsOf(cp{t.name, n, nil}))
		}
	}},
	{"CreatePartitions/unknown", func(s *S) {
		s.each("unknown", 0, 3, func(int16) kmsg.Request { return partitionsOf(cp{s.name("unknown"), 3, nil}) })
		for i, name := range badNames {
			s.label = fmt.Sprintf("name %d ", i)
			s.do("grow", 3, partitionsOf(cp{name, 3, nil}))
		}
	}},
	{"CreatePartitions/assignments", func(s *S) {
		t := s.create("t", 1)
		n := s.n.node
		for i, a := range [][][]int32{{{99}}, {{}}, {{n, n}}, {{n, 99}}, {{n}, {n}}, {}, {{n}}} {
			s.label = fmt.Sprintf("case %d ", i)
			req := partitionsOf(cp{t.name, 2, a})
			if len(a) == 0 {
				req.Topics[0].Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
			}
			req.ValidateOnly = true
			s.do("validate", 2, req)
		}
		s.label = ""
		s.do("grow", 2, partitionsOf(cp{t.name, 2, [][]int32{{n}}}))
	}},
	{"CreatePartitions/duplicates", func(s *S) {
		t, u := s.create("t", 1), s.create("u", 1)
		s.do("twice", 3, partitionsOf(cp{t.name, 2, nil}, cp{u.name, 2, nil}, cp{t.name, 3, nil}))
		s.awaitLeaders(u, 1)
		s.do("unknown twice", 3, partitionsOf(cp{s.name("x"), 2, nil}, cp{s.name("x"), 2, nil}))
	}},
	{"CreatePartitions/nothing", func(s *S) {
		s.each("no topics", 0, 3, func(int16) kmsg.Request { return partitionsOf() })
	}},
	{"CreatePartitions/produce-to-the-new-one", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(1)...))
		s.do("grow", 3, partitionsOf(cp{t.name, 3, nil}))
		s.awaitLeaders(t, 3)
		s.do("produce", 13, produceOf(-1, on(t, 2, newBatch(recs(2)...).bytes())))
		s.look(t, 2)
		s.look(t, 0)
	}},
	{"DeleteRecords/all-versions", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(10)...))
		for v := int16(0); v <= 2; v++ {
			s.do("forward", v, deleteRecordsOf(dr{t, 0, int64(v)*2 + 2}))
			s.do("the same again", v, deleteRecordsOf(dr{t, 0, int64(v)*2 + 2}))
			s.do("backward", v, deleteRecordsOf(dr{t, 0, 1}))
		}
		s.do("to the end", 2, deleteRecordsOf(dr{t, 0, -1}))
		s.do("to the end again", 2, deleteRecordsOf(dr{t, 0, -1}))
		s.do("earliest", 4, listOf(at(t, 0, -2)))
		s.do("read", 12, fetchOf(from(t, 0, 10)))
	}},
	{"DeleteRecords/out-of-range", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(3)...))
		for _, o := range []int64{4, 1000, -2, -100, 9223372036854775807} {
			s.each(fmt.Sprintf("offset %d", o), 0, 2, func(int16) kmsg.Request { return deleteRecordsOf(dr{t, 0, o}) })
		}
		s.do("exactly the end", 2, deleteRecordsOf(dr{t, 0, 3}))
	}},
	{"DeleteRecords/unknown", func(s *S) {
		t := s.create("t", 1)
		s.each("topic", 0, 2, func(int16) kmsg.Request { return deleteRecordsOf(dr{s.unknownTopic(), 0, 0}) })
		s.each("partition", 0, 2, func(int16) kmsg.Request { return deleteRecordsOf(dr{t, 3, 0}, dr{t, 0, 0}, dr{t, -1, 0}) })
		s.do("bad name", 2, deleteRecordsOf(dr{topic{name: "a b"}, 0, 0}))
	}},
	{"DeleteRecords/policies", func(s *S) {
		for i, policy := range []string{"delete", "compact", "compact,delete"} {
			t := s.create(fmt.Sprintf("t%d", i), 1, "cleanup.policy", policy)
			s.put(t, 0, newBatch(recs(3)...))
			s.do(policy, 2, deleteRecordsOf(dr{t, 0, 2}))
		}
	}},
	{"DeleteRecords/duplicates", func(s *S) {
		t, u := s.create("t", 2), s.create("u", 1)
		for p := range int32(2) {
			s.put(t, p, newBatch(recs(5)...))
		}
		s.do("partition twice", 2, deleteRecordsOf(dr{t, 0, 1}, dr{t, 0, 3}))
		s.do("topic twice", 2, deleteRecordsOf(dr{t, 0, 4}, dr{u, 0, 0}, dr{t, 1, 1}))
	}},
	{"DeleteRecords/nothing", func(s *S) {
		s.each("no topics", 0, 2, func(int16) kmsg.Request { return deleteRecordsOf() })
	}},
	{"DeleteRecords/then-produce", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(3)...))
		s.cut(t, 0, -1)
		s.do("produce", 9, produceOf(-1, on(t, 0, newBatch(recs(2)...).bytes())))
		s.do("read", 12, fetchOf(from(t, 0, 3)))
	}},
}
