package differential

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func apiVersionsOf(name, version string) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion, req.NodeID = name, version, -1
	return req
}

var apiVersionsScripts = []Script{
	{"ApiVersions/all-versions", func(s *S) {
		s.each("list", 0, 5, func(int16) kmsg.Request { return apiVersionsOf("diff", "1.0") })
	}},
	{"ApiVersions/too-new", func(s *S) {
		for _, v := range []int16{6, 7, 99, 32767} { // B: v0 body, error 35, connection stays
			s.label = fmt.Sprintf("v%d ", v)
			c := s.connected()
			req := apiVersionsOf("diff", "1")
			req.SetVersion(5)
			b := c.request(req, header{key: 18, version: v, flexible: true})
			s.raw("list", b, req)
			s.do("again", 0, apiVersionsOf("diff", "1"))
		}
	}},
	{"ApiVersions/negative-version", func(s *S) {
		s.raw("list", s.connected().request(kmsg.NewPtrApiVersionsRequest(), header{key: 18, version: -1}), kmsg.NewPtrApiVersionsRequest())
	}},
	{"ApiVersions/software-names", func(s *S) {
		for _, n := range []string{"", " ", "a", "a b", "-a", "a-", "a.b-c", "ä", "a/b", "librdkafka", "0", ".a", "a_b"} {
			s.label = fmt.Sprintf("name %q ", n)
			s.do("list", 3, apiVersionsOf(n, "1.0"))
			s.label = fmt.Sprintf("version %q ", n)
			s.do("list", 4, apiVersionsOf("diff", n))
		}
	}},
	{"ApiVersions/cluster-and-node", func(s *S) {
		ask := func(label string, cluster *string, node int32) {
			req := apiVersionsOf("diff", "1")
			req.ClusterID, req.NodeID = cluster, node
			s.do(label, 5, req)
		}
		ask("right", &s.cluster, s.n.node)
		ask("wrong cluster", ptr("nope"), s.n.node)
		ask("wrong node", &s.cluster, 77)
		ask("both wrong", ptr("nope"), 77)
		ask("cluster only", &s.cluster, -1)
		ask("node only", nil, s.n.node)
		ask("empty cluster", ptr(""), s.n.node)
		ask("node -2", &s.cluster, -2)
	}},
	{"ApiVersions/twice-on-a-connection", func(s *S) {
		s.do("first", 3, apiVersionsOf("diff", "1"))
		s.do("second", 3, apiVersionsOf("other", "2"))
		s.do("metadata", 9, metadataOf())
		s.do("third", 0, apiVersionsOf("", ""))
	}},
}

// apiRange is what a broker serves of an API, with a small valid request of it.
type apiRange struct {
	name     string
	key      int16
	min, max int16
	sample   func(s *S) kmsg.Request
}

var apiRanges = []apiRange{
	{name: "Produce", key: 0, min: 3, max: 13, sample: func(s *S) kmsg.Request {
		return produceOf(1, on(s.unknownTopic(), 0, newBatch(kv("a", "b")).bytes()))
	}},
	{name: "Fetch", key: 1, min: 4, max: 18, sample: func(s *S) kmsg.Request { return fetchOf(from(s.unknownTopic(), 0, 0)) }},
	{name: "ListOffsets", key: 2, min: 1, max: 11, sample: func(s *S) kmsg.Request { return listOf(latest(s.unknownTopic(), 0)) }},
	{name: "Metadata", key: 3, min: 0, max: 13, sample: func(s *S) kmsg.Request { return metadataOf(s.name("nobody\x01")) }},
	{name: "CreateTopics", key: 19, min: 2, max: 7, sample: func(s *S) kmsg.Request { return createOf(ct{name: "no good", partitions: 1, rf: 1}) }},
	{name: "DeleteTopics", key: 20, min: 1, max: 6, sample: func(s *S) kmsg.Request {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TopicNames = []string{s.name("unknown")}
		req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: ptr(s.name("unknown"))}}
		return req
	}},
	{name: "DeleteRecords", key: 21, min: 0, max: 2, sample: func(s *S) kmsg.Request { return deleteRecordsOf(dr{s.unknownTopic(), 0, 0}) }},
	{name: "InitProducerId", key: 22, min: 0, max: 5, sample: func(s *S) kmsg.Request { return initProducerOf(ptr(""), 1000, -1, -1) }},
	{name: "OffsetForLeaderEpoch", key: 23, min: 2, max: 4, sample: func(s *S) kmsg.Request { return epochOf(ep{s.unknownTopic(), 0, -1, 0}) }},
	{name: "DescribeConfigs", key: 32, min: 1, max: 4, sample: func(s *S) kmsg.Request {
		return describeConfigsOf(kmsg.ConfigResourceTypeTopic, s.name("unknown"), "retention.ms")
	}},
	{name: "AlterConfigs", key: 33, min: 0, max: 2, sample: func(s *S) kmsg.Request {
		return replaceOf(kmsg.ConfigResourceTypeTopic, s.name("unknown"), "retention.ms", "1")
	}},
	{name: "DescribeLogDirs", key: 35, min: 1, max: 5, sample: func(s *S) kmsg.Request { return logDirsOf(s.unknownTopic(), 0) }},
	{name: "CreatePartitions", key: 37, min: 0, max: 3, sample: func(s *S) kmsg.Request { return partitionsOf(cp{s.name("unknown"), 2, nil}) }},
	{name: "IncrementalAlterConfigs", key: 44, min: 0, max: 1, sample: func(s *S) kmsg.Request {
		return alterOf(kmsg.ConfigResourceTypeTopic, s.name("unknown"), set("retention.ms", "1"))
	}},
	{name: "DescribeCluster", key: 60, min: 0, max: 2, sample: func(s *S) kmsg.Request { return kmsg.NewPtrDescribeClusterRequest() }},
	{name: "DescribeProducers", key: 61, min: 0, max: 0, sample: func(s *S) kmsg.Request { return producersOf(s.unknownTopic(), 0) }},
	{name: "DescribeTopicPartitions", key: 75, min: 0, max: 0, sample: func(s *S) kmsg.Request { return describeTopicsOf(10, nil, s.name("unknown")) }},
}

// whole is a complete frame of the API's sample at a version, whatever the version.
func (a apiRange) whole(s *S, version int16) []byte {
	req := a.sample(s)
	req.SetVersion(min(max(version, a.min), a.max))
	return s.connected().request(req, header{key: a.key, version: version, flexible: req.IsFlexible(), clientID: ptr("diff")})
}

func (a apiRange) request(s *S, version int16) kmsg.Request {
	req := a.sample(s)
	req.SetVersion(version)
	return req
}

var framingScripts = append(perAPI(), []Script{
	{"Framing/unknown-keys", func(s *S) {
		for _, key := range []int16{-1, 4, 5, 6, 7, 93, 95, 200, 1000, 32767, -32768} {
			s.label = fmt.Sprintf("key %d ", key)
			s.raw("request", frame(header{key: key}.append(nil, 1)), kmsg.NewPtrApiVersionsRequest())
		}
	}},
	{"Framing/controller-keys", func(s *S) {
		for _, key := range []int16{52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82} {
			s.label = fmt.Sprintf("key %d ", key)
			s.raw("request", frame(header{key: key, flexible: true}.append(nil, 1)), kmsg.NewPtrApiVersionsRequest())
		}
	}},
	{"Framing/sizes", func(s *S) {
		for _, size := range []int32{-1, -2147483648, 0, 1, 7, 104857601, 2147483647} {
			s.label = fmt.Sprintf("size %d ", size)
			b := binary.BigEndian.AppendUint32(nil, uint32(size))
			b = append(b, header{key: 18}.append(nil, 1)...)
			// Sizes 0, 1 and 7 are whole frames here, too short for a header; what follows is never looked at.
			s.raw("request", b, kmsg.NewPtrApiVersionsRequest())
		}
	}},
	{"Framing/eight-byte-header", func(s *S) {
		s.raw("request", frame([]byte{0, 18, 0, 0, 0, 0, 0, 1}), kmsg.NewPtrApiVersionsRequest())
	}},
	{"Framing/client-ids", func(s *S) {
		long := string(make([]byte, 30000))
		for i, id := range []*string{nil, ptr(""), ptr("a"), ptr("a b/ü\x00"), ptr("\xff\xfe"), &long} {
			s.label = fmt.Sprintf("id %d ", i)
			req := metadataOf()
			req.SetVersion(9)
			s.raw("metadata", s.connected().request(req, header{key: 3, version: 9, flexible: true, clientID: id}), req)
			old := metadataOf()
			old.SetVersion(1)
			s.raw("metadata", s.connected().request(old, header{key: 3, version: 1, clientID: id}), old)
		}
	}},
	{"Framing/client-id-length", func(s *S) {
		old := metadataOf()
		old.SetVersion(1)
		for _, n := range []int16{-2, -32768, 100, 32767} {
			s.label = fmt.Sprintf("length %d ", n)
			b := []byte{0, 3, 0, 1, 0, 0, 0, 9}
			b = binary.BigEndian.AppendUint16(b, uint16(n))
			b = append(b, 0, 0, 0, 0)
			s.connected().corr = 9
			s.raw("metadata", frame(b), old)
		}
	}},
	{"Framing/header-tags", func(s *S) {
		for i, tags := range [][]byte{
			{1, 0, 0}, {1, 99, 3, 'a', 'b', 'c'}, {2, 5, 1, 'a', 5, 1, 'b'}, {2, 7, 0, 3, 0}, // fine: unknown, twice, out of order
			{1}, {1, 0}, {1, 0, 200, 1}, {0xff, 0xff, 0xff, 0xff, 0x0f}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f},
		} {
			s.label = fmt.Sprintf("tags %d ", i)
			req := metadataOf()
			req.SetVersion(9)
			s.raw("metadata", s.connected().request(req, header{key: 3, version: 9, flexible: true, tags: tags}), req)
		}
	}},
	{"Framing/body-tags", func(s *S) {
		req := func(f func(*kmsg.MetadataRequest)) kmsg.Request {
			r := metadataOf(s.name("unknown"))
			f(r)
			return r
		}
		s.do("top", 9, req(func(r *kmsg.MetadataRequest) { r.UnknownTags.Set(9, []byte("abc")) }))
		s.do("nested", 9, req(func(r *kmsg.MetadataRequest) { r.Topics[0].UnknownTags.Set(1000, nil) }))
		s.do("many", 12, req(func(r *kmsg.MetadataRequest) {
			for i := range uint32(300) {
				r.UnknownTags.Set(i, []byte{1})
			}
		}))
	}},
	{"Framing/array-lengths", func(s *S) {
		old := kmsg.NewPtrMetadataRequest()
		old.SetVersion(1)
		for _, n := range []int32{-2, -2147483648, 1, 1000000, 2147483647} {
			s.label = fmt.Sprintf("length %d ", n)
			c := s.connected()
			c.corr++
			b := header{key: 3, version: 1}.append(nil, c.corr)
			b = binary.BigEndian.AppendUint32(b, uint32(n))
			if resp := s.raw("metadata", frame(b), kmsg.Request(old)); resp != nil {
				s.note("answered", "yes")
			}
		}
	}},
	{"Framing/compact-lengths", func(s *S) {
		req := kmsg.NewPtrMetadataRequest()
		req.SetVersion(9)
		for i, n := range [][]byte{{2}, {0x80, 0x80, 0x80, 0x80, 0x08}, {0xff, 0xff, 0xff, 0xff, 0x0f}, {0xff, 0xff, 0xff, 0xff, 0xff, 0x0f}, {0xc0, 0x84, 0x3d}} {
			s.label = fmt.Sprintf("length %d ", i)
			c := s.connected()
			c.corr++
			b := header{key: 3, version: 9, flexible: true}.append(nil, c.corr)
			b = append(b, n...)
			b = append(b, 0, 0, 0, 0)
			s.raw("metadata", frame(b), req)
		}
	}},
	{"Framing/invalid-utf8", func(s *S) {
		s.do("metadata", 9, metadataOf("\xff\xfe"))
		s.do("metadata", 1, metadataOf("a\xc3"))
	}},
	{"Framing/pipelined", func(s *S) {
		c := s.connected()
		var all []byte
		req := metadataOf()
		req.SetVersion(8)
		first := c.corr
		for range 5 {
			all = append(all, c.request(req, header{key: 3, version: 8})...)
		}
		c.write(all)
		for i := range int32(5) {
			s.receive(answerLimit, fmt.Sprintf("answer %d", i), req, first+1+i)
		}
	}},
	{"Framing/in-pieces", func(s *S) {
		c := s.connected()
		req := metadataOf(s.name("unknown"))
		req.SetVersion(8)
		b := c.request(req, header{key: 3, version: 8})
		for i := range b {
			c.write(b[i : i+1])
		}
		s.receive(answerLimit, "answer", req, c.corr)
	}},
	{"Framing/good-after-good-then-bad", func(s *S) {
		c := s.connected()
		req := metadataOf()
		req.SetVersion(8)
		b := c.request(req, header{key: 3, version: 8})
		c.write(append(b, frame(header{key: 999}.append(nil, 1))...))
		s.receive(answerLimit, "good", req, c.corr)
		if s.c != nil {
			s.receive(answerLimit, "bad", req, c.corr)
		}
	}},
	{"Framing/unfinished-frame", func(s *S) {
		s.rawWithin(400*time.Millisecond, "half a request", []byte{0, 0, 0, 50, 0, 18, 0, 0}, kmsg.NewPtrApiVersionsRequest())
		s.do("another connection", 9, metadataOf())
	}},
}...)

// perAPI makes the scripts that every API gets: versions outside its range, requests cut short, bytes behind a request.
func perAPI() []Script {
	var out []Script
	for _, a := range apiRanges {
		out = append(out,
			Script{"Framing/versions/" + a.name, func(s *S) {
				for _, v := range []int16{-1, a.min - 1, a.max + 1, a.max + 50} {
					if v < 0 && v != -1 {
						continue
					}
					s.raw(fmt.Sprintf("v%d", v), a.whole(s, v), a.request(s, a.min))
				}
			}},
			Script{"Framing/cut-short/" + a.name, func(s *S) {
				for v := a.min; v <= a.max; v++ {
					whole := a.whole(s, v)[4:]
					for _, cut := range []int{1, 2, len(whole) / 3, len(whole) / 2} {
						if len(whole)-cut < 14 { // leave the header whole
							continue
						}
						c := s.connected()
						b := append([]byte(nil), whole[:len(whole)-cut]...)
						binary.BigEndian.PutUint32(b[4:], uint32(c.corr))
						s.raw(fmt.Sprintf("v%d less %d", v, cut), frame(b), a.request(s, v))
					}
				}
			}},
			Script{"Framing/bytes-behind/" + a.name, func(s *S) {
				for v := a.min; v <= a.max; v++ {
					whole := a.whole(s, v)[4:]
					s.raw(fmt.Sprintf("v%d", v), frame(append(whole, 1, 2, 3)), a.request(s, v))
				}
			}},
		)
	}
	return out
}
