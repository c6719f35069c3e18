package differential

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// shortLimit is the wait for answers that Kafka is known not to give.
const shortLimit = 1500 * time.Millisecond

// describeTopicsOf builds a DescribeTopicPartitions.
func describeTopicsOf(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, names ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit, req.Cursor = limit, cursor
	for _, name := range names {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = name
		req.Topics = append(req.Topics, t)
	}
	return req
}

func cursor(name string, partition int32) *kmsg.DescribeTopicPartitionsRequestCursor {
	c := kmsg.NewDescribeTopicPartitionsRequestCursor()
	c.Topic, c.Partition = name, partition
	return &c
}

// logDirsOf asks for partitions of one topic.
func logDirsOf(t topic, ps ...int32) *kmsg.DescribeLogDirsRequest {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	rt := kmsg.NewDescribeLogDirsRequestTopic()
	rt.Topic, rt.Partitions = t.name, ps
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{rt}
	return req
}

// findOf builds a FindCoordinator for any version.
func findOf(kind int8, keys ...string) *kmsg.FindCoordinatorRequest {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKeys = kind, keys
	if len(keys) > 0 {
		req.CoordinatorKey = keys[0]
	}
	return req
}

var describeScripts = []Script{
	{"DescribeCluster/all-versions", func(s *S) {
		s.each("plain", 0, 2, func(int16) kmsg.Request { return kmsg.NewPtrDescribeClusterRequest() })
		s.each("operations", 0, 2, func(int16) kmsg.Request {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.IncludeClusterAuthorizedOperations = true
			return req
		})
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeFencedBrokers = true
		s.do("fenced too", 2, req)
	}},
	{"DescribeCluster/endpoint-types", func(s *S) {
		for _, kind := range []int8{0, 1, 2, 3, -1} {
			s.each(fmt.Sprintf("type %d", kind), 1, 2, func(int16) kmsg.Request {
				req := kmsg.NewPtrDescribeClusterRequest()
				req.EndpointType = kind
				return req
			})
		}
	}},
	{"DescribeTopicPartitions/by-name", func(s *S) {
		a, b := s.create("a", 3), s.create("b", 1)
		s.do("both", 0, describeTopicsOf(100, nil, a.name, b.name))
		s.do("backwards", 0, describeTopicsOf(100, nil, b.name, a.name))
		s.do("unknown between", 0, describeTopicsOf(100, nil, a.name, s.name("aa"), b.name))
		s.do("twice", 0, describeTopicsOf(100, nil, a.name, a.name))
		for i, name := range badNames {
			s.label = fmt.Sprintf("name %d ", i)
			s.do("bad", 0, describeTopicsOf(100, nil, name))
		}
	}},
	{"DescribeTopicPartitions/paging", func(s *S) {
		a, b, c := s.create("a", 3), s.create("b", 2), s.create("c", 1)
		names := []string{a.name, b.name, c.name}
		for limit := int32(1); limit <= 7; limit++ {
			s.label = fmt.Sprintf("limit %d ", limit)
			var at *kmsg.DescribeTopicPartitionsRequestCursor
			for page := range 8 {
				resp, ok := s.do(fmt.Sprintf("page %d", page), 0, describeTopicsOf(limit, at, names...)).(*kmsg.DescribeTopicPartitionsResponse)
				if !ok || resp.NextCursor == nil {
					break
				}
				at = cursor(resp.NextCursor.Topic, resp.NextCursor.Partition)
			}
		}
	}},
	{"DescribeTopicPartitions/limits", func(s *S) {
		a := s.create("a", 3)
		for _, n := range []int32{0, -1, 1, 2000, 2001, 2147483647} {
			s.do(fmt.Sprintf("limit %d", n), 0, describeTopicsOf(n, nil, a.name))
		}
	}},
	{"DescribeTopicPartitions/cursors", func(s *S) {
		a, b := s.create("a", 3), s.create("b", 2)
		for i, c := range []*kmsg.DescribeTopicPartitionsRequestCursor{
			cursor(a.name, 0), cursor(a.name, 2), cursor(a.name, 3), cursor(a.name, -1), cursor(a.name, 100), cursor(b.name, 1),
			cursor(s.name("aa"), 0), cursor(s.name("zz"), 0), cursor("", 0), cursor("a b", 0),
		} {
			s.do(fmt.Sprintf("cursor %d", i), 0, describeTopicsOf(100, c, a.name, b.name))
		}
	}},
	{"DescribeTopicPartitions/cursor-at-deleted", func(s *S) {
		a, b, c := s.create("a", 2), s.create("b", 2), s.create("c", 1)
		s.drop(b)
		s.do("cursor at b", 0, describeTopicsOf(100, cursor(b.name, 1), a.name, b.name, c.name))
	}},
	{"DescribeTopicPartitions/unknown-with-limit", func(s *S) {
		a := s.create("a", 2)
		s.do("limit 1", 0, describeTopicsOf(1, nil, s.name("0"), a.name, s.name("z")))
		s.do("limit 2", 0, describeTopicsOf(2, nil, s.name("0"), a.name, s.name("z")))
		s.do("only unknown", 0, describeTopicsOf(1, nil, s.name("x"), s.name("y"), s.name("z")))
	}},
	{"DescribeLogDirs/all-versions", func(s *S) {
		t := s.create("t", 2)
		s.put(t, 0, newBatch(recs(3)...))
		s.each("its partitions", 1, 5, func(int16) kmsg.Request { return logDirsOf(t, 0, 1) })
		s.each("all", 1, 5, func(int16) kmsg.Request { return kmsg.NewPtrDescribeLogDirsRequest() })
		s.each("no topics", 1, 5, func(int16) kmsg.Request {
			req := kmsg.NewPtrDescribeLogDirsRequest()
			req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
			return req
		})
	}},
	{"DescribeLogDirs/unknown", func(s *S) {
		t := s.create("t", 1)
		for _, v := range []int16{1, 3, 5} {
			s.do("topic", v, logDirsOf(s.unknownTopic(), 0))
			s.do("partition", v, logDirsOf(t, 5))
			s.do("known and unknown", v, logDirsOf(t, 0, 5))
			s.do("no partitions", v, logDirsOf(t))
			s.do("twice", v, logDirsOf(t, 0, 0))
			s.do("bad name", v, logDirsOf(topic{name: "a b"}, 0))
		}
	}},
	{"FindCoordinator/groups", func(s *S) {
		s.coordinator(s.name("group")) // Kafka makes the topic in the background
		s.each("group", 0, 6, func(int16) kmsg.Request { return findOf(0, s.name("group")) })
		s.each("transaction", 1, 6, func(int16) kmsg.Request { return findOf(1, s.name("txn")) })
	}},
	{"FindCoordinator/odd", func(s *S) {
		s.coordinator(s.name("group")) // as above: the empty key is a group's
		for _, kind := range []int8{-1, 2, 3} {
			s.each(fmt.Sprintf("type %d", kind), 1, 6, func(int16) kmsg.Request { return findOf(kind, "x") })
		}
		s.each("empty key", 0, 6, func(int16) kmsg.Request { return findOf(0, "") })
		s.each("no keys", 4, 6, func(int16) kmsg.Request { return findOf(0) })
	}},
}
