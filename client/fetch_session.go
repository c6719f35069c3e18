package client

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// fetchSession is what one broker remembers of a consumer's fetches (KIP-227): only what changed is said again. It is pure: request makes the next
// request, answered or failed says what became of it.
//
//	id 0              no session: the next request names everything and asks for one. A broker that has no room answers with id 0, and is asked the same way again
//	id, epoch 0       the session may be lost, or be unlike sent: the next request names everything and replaces it
//	id, epoch n       the broker knows sent; the next request names what is otherwise now
//
// An epoch counts the requests of a session; after the greatest int32 comes 1.
type fetchSession struct {
	id, epoch int32
	byID      bool                         // it knows topics by id
	sent      map[TopicPartition]fetchSpec // what the broker knows
	spare     map[TopicPartition]fetchSpec // the memory of the next sent
	names     map[[16]byte]string          // of the topics that were named since everything was
}

// fetchSpec is what a fetch says of a partition.
type fetchSpec struct {
	topicID     [16]byte
	offset      int64
	leaderEpoch int32 // of the leader that is asked; -1: not known
	lastEpoch   int32 // of the batch before offset; -1: not known
	maxBytes    int32
}

// fetchWant is a partition that is to be fetched.
type fetchWant struct {
	tp   TopicPartition
	spec fetchSpec
}

// request makes the next fetch of want, which are all partitions that are to be fetched from the broker, in the order of their preference. byID says whether topics are named by id,
// which brokers that have version 13 want; a session never mixes the two.
func (s *fetchSession) request(want []fetchWant, byID bool) *kmsg.FetchRequest {
	if byID != s.byID {
		s.lose()
		s.byID = byID
	}
	if s.names == nil {
		s.names = make(map[[16]byte]string)
	}
	req := kmsg.NewPtrFetchRequest()
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	now := s.spare
	if now == nil {
		now = make(map[TopicPartition]fetchSpec, len(want))
	}
	var topics topicList
	for _, w := range want {
		now[w.tp] = w.spec
		if before, ok := s.sent[w.tp]; !ok || before != w.spec {
			topics.add(&req.Topics, w)
			s.names[w.spec.topicID] = w.tp.Topic
		}
	}
	for tp, before := range s.sent {
		if w, ok := now[tp]; !ok || byID && w.topicID != before.topicID {
			forget(req, tp, before)
		}
	}
	clear(s.sent)
	s.sent, s.spare = now, s.sent
	return req
}

// topicList finds the place of a topic in a request.
type topicList struct{ at map[string]int }

func (l *topicList) add(topics *[]kmsg.FetchRequestTopic, w fetchWant) {
	i, ok := l.at[w.tp.Topic]
	if !ok {
		if l.at == nil {
			l.at = make(map[string]int)
		}
		i = len(*topics)
		l.at[w.tp.Topic] = i
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = w.tp.Topic, w.spec.topicID
		*topics = append(*topics, t)
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = w.tp.Partition, w.spec.offset, w.spec.maxBytes
	p.CurrentLeaderEpoch, p.LastFetchedEpoch = w.spec.leaderEpoch, w.spec.lastEpoch
	(*topics)[i].Partitions = append((*topics)[i].Partitions, p)
}

func forget(req *kmsg.FetchRequest, tp TopicPartition, spec fetchSpec) {
	for i := range req.ForgottenTopics {
		if f := &req.ForgottenTopics[i]; f.Topic == tp.Topic && f.TopicID == spec.topicID {
			f.Partitions = append(f.Partitions, tp.Partition)
			return
		}
	}
	f := kmsg.NewFetchRequestForgottenTopic()
	f.Topic, f.TopicID, f.Partitions = tp.Topic, spec.topicID, []int32{tp.Partition}
	req.ForgottenTopics = append(req.ForgottenTopics, f)
}

// answered takes the answer to the last request. False: the broker does not know the session any more, or not as it is here; nothing was fetched and the next
// request names everything.
func (s *fetchSession) answered(resp *kmsg.FetchResponse) bool {
	switch protocol.Code(resp.ErrorCode) {
	case protocol.None:
	case protocol.FetchSessionIDNotFound:
		s.forgotten()
		return false
	default:
		s.lose()
		return false
	}
	switch {
	case resp.SessionID == 0:
		s.id, s.epoch = 0, 0
		clear(s.sent) // the names are those of the answer
	case s.epoch == 0 || resp.SessionID != s.id:
		s.id, s.epoch = resp.SessionID, 1
	default:
		s.epoch = nextSessionEpoch(s.epoch)
	}
	return true
}

func nextSessionEpoch(epoch int32) int32 {
	if epoch == 1<<31-1 {
		return 1
	}
	return epoch + 1
}

// lose is called when it is not known what the broker made of the last request.
func (s *fetchSession) lose() {
	s.epoch = 0
	clear(s.sent)
	clear(s.names)
}

// forgotten is called when the broker has no session.
func (s *fetchSession) forgotten() {
	s.id = 0
	s.lose()
}

// farewell makes the request that ends the session, or nil when there is none.
func (s *fetchSession) farewell() *kmsg.FetchRequest {
	if s.id == 0 {
		return nil
	}
	req := kmsg.NewPtrFetchRequest()
	req.SessionID, req.SessionEpoch = s.id, -1
	s.forgotten()
	return req
}
