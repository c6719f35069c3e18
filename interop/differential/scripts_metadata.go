package differential

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func byID(ids ...[16]byte) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	for _, id := range ids {
		t := kmsg.NewMetadataRequestTopic()
		t.TopicID = id
		req.Topics = append(req.Topics, t)
	}
	return req
}

// badNames are illegal as topic names; longName is the longest legal one.
var (
	badNames = []string{"", ".", "..", "a b", "a/b", "a:b", "ü", "a\x00", "a,b", "a\n", strings.Repeat("x", 250)}
	longName = func(s *S) string { return s.name(strings.Repeat("x", 249-len(s.name("")))) }
)

var metadataScripts = []Script{
	{"Metadata/all-topics", func(s *S) {
		s.create("a", 1)
		s.create("b", 3)
		s.each("null list", 1, 13, func(int16) kmsg.Request { return kmsg.NewPtrMetadataRequest() })
		s.each("empty list is all", 0, 0, func(int16) kmsg.Request { return metadataOf() })
	}},
	{"Metadata/no-topics", func(s *S) {
		s.each("empty list", 1, 13, func(int16) kmsg.Request { return metadataOf() })
	}},
	{"Metadata/by-name", func(s *S) {
		a := s.create("a", 2)
		b := s.create("b", 1)
		s.each("both", 0, 13, func(int16) kmsg.Request { return metadataOf(a.name, b.name) })
	}},
	{"Metadata/unknown-not-created", func(s *S) {
		s.each("unknown", 4, 13, func(int16) kmsg.Request { return metadataOf(s.name("unknown")) })
		s.do("still unknown", 9, metadataOf(s.name("unknown")))
	}},
	{"Metadata/created-on-demand", func(s *S) {
		for v := int16(0); v <= 13; v++ {
			s.label = fmt.Sprintf("auto %d ", v)
			name := s.name(fmt.Sprintf("auto%d", v))
			req := metadataOf(name)
			req.AllowAutoTopicCreation = true
			s.do("first", v, req)
			s.until("creation", func() bool {
				r := s.quiet(9, metadataOf(name)).(*kmsg.MetadataResponse)
				return r.Topics[0].ErrorCode == 0 && len(r.Topics[0].Partitions) > 0 && r.Topics[0].Partitions[0].ErrorCode == 0
			})
			again := metadataOf(name)
			again.AllowAutoTopicCreation = true
			s.do("later", v, again)
		}
	}},
	{"Metadata/created-on-demand-mixed", func(s *S) {
		a := s.create("a", 2)
		req := metadataOf(a.name, s.name("new"), "bad name", s.name("new"))
		req.AllowAutoTopicCreation = true
		s.do("known, new, bad, new again", 9, req)
		s.until("creation", func() bool {
			return s.quiet(9, metadataOf(s.name("new"))).(*kmsg.MetadataResponse).Topics[0].ErrorCode == 0
		})
		s.do("later", 9, metadataOf(a.name, s.name("new")))
	}},
	{"Metadata/created-on-demand-colliding", func(s *S) {
		s.create("a.b", 1)
		req := metadataOf(s.name("a_b"))
		req.AllowAutoTopicCreation = true
		s.do("ask", 9, req)
		s.do("again", 9, metadataOf(s.name("a_b")))
	}},
	{"Metadata/invalid-names", func(s *S) {
		for i, name := range badNames {
			s.label = fmt.Sprintf("name %d ", i)
			for _, v := range []int16{1, 4, 9, 12, 13} {
				s.do("ask", v, metadataOf(name))
			}
			req := metadataOf(name)
			req.AllowAutoTopicCreation = true
			s.do("ask to create", 9, req)
		}
	}},
	{"Metadata/longest-name", func(s *S) {
		s.do("ask", 9, metadataOf(longName(s)))
	}},
	{"Metadata/by-id", func(s *S) {
		a := s.create("a", 1)
		b := s.create("b", 2)
		for _, v := range []int16{10, 11, 12, 13} {
			s.do("known", v, byID(a.id, b.id))
			s.do("unknown", v, byID(unknownID))
			s.do("known and unknown", v, byID(a.id, unknownID))
			s.do("twice", v, byID(a.id, a.id))
			s.do("zero", v, byID([16]byte{}))
		}
	}},
	{"Metadata/id-and-name", func(s *S) {
		a := s.create("a", 1)
		b := s.create("b", 1)
		for _, v := range []int16{10, 12, 13} {
			mixed := byID(a.id)
			mixed.Topics = append(mixed.Topics, kmsg.MetadataRequestTopic{Topic: &b.name})
			s.do("ids and names", v, mixed)
			both := byID(a.id)
			both.Topics[0].Topic = &b.name
			s.do("id with another's name", v, both)
			lost := byID(unknownID)
			lost.Topics[0].Topic = &b.name
			s.do("unknown id with a name", v, lost)
		}
	}},
	{"Metadata/deleted-id", func(s *S) {
		a := s.create("a", 1)
		s.drop(a)
		s.do("by id", 12, byID(a.id))
		s.do("by name", 12, metadataOf(a.name))
		s.create("a", 1)
		s.do("old id", 12, byID(a.id))
		s.do("by name", 12, metadataOf(a.name))
	}},
	{"Metadata/name-twice", func(s *S) {
		a := s.create("a", 1)
		s.do("twice", 1, metadataOf(a.name, a.name))
		s.do("twice", 12, metadataOf(a.name, a.name))
		s.do("unknown twice", 12, metadataOf(s.name("u"), s.name("u")))
	}},
	{"Metadata/authorized-operations", func(s *S) {
		a := s.create("a", 1)
		s.each("all flags", 8, 13, func(int16) kmsg.Request {
			req := metadataOf(a.name, s.name("unknown"))
			req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
			return req
		})
	}},
	{"Metadata/null-name", func(s *S) {
		for _, v := range []int16{9, 10, 12} {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{kmsg.NewMetadataRequestTopic()}
			s.do("null", v, req)
		}
	}},
}
