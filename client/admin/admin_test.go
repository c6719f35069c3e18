package admin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// broker is a broker that answers as a test wants.
type broker struct {
	t      *testing.T
	host   string
	port   int32
	newest map[int16]int16 // of the APIs it has
	answer func(req kmsg.Request) kmsg.Response
}

func newBroker(t *testing.T, newest map[int16]int16, answer func(req kmsg.Request) kmsg.Response) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	b := &broker{t, host, int32(n), newest, answer}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { b.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return b
}

func (b *broker) addr() string { return addrOf(b.host, b.port) }

func (b *broker) serve(c net.Conn) {
	defer c.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, frame); err != nil {
			return
		}
		h, body, err := protocol.ParseHeader(frame)
		if err != nil {
			b.t.Error(err)
			return
		}
		req := kmsg.RequestForKey(h.Key)
		req.SetVersion(h.Version)
		if err := req.ReadFrom(body); err != nil {
			b.t.Error(err)
			return
		}
		resp := b.reply(req)
		if resp == nil {
			return // it hangs up
		}
		resp.SetVersion(h.Version)
		_, _ = c.Write(protocol.AppendResponse(nil, h.CorrelationID, resp))
	}
}

func (b *broker) reply(req kmsg.Request) kmsg.Response {
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := kmsg.NewPtrApiVersionsResponse()
		for k, v := range b.newest {
			a := kmsg.NewApiVersionsResponseApiKey()
			a.ApiKey, a.MaxVersion = k, v
			resp.ApiKeys = append(resp.ApiKeys, a)
		}
		return resp
	case *kmsg.FindCoordinatorRequest:
		if resp := b.answer(req); resp != nil {
			return resp
		}
		resp := kmsg.NewPtrFindCoordinatorResponse()
		resp.NodeID, resp.Host, resp.Port = 7, b.host, b.port
		for _, k := range r.CoordinatorKeys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.NodeID, c.Host, c.Port = k, 7, b.host, b.port
			resp.Coordinators = append(resp.Coordinators, c)
		}
		return resp
	case *kmsg.MetadataRequest:
		if resp := b.answer(req); resp != nil {
			return resp
		}
		return b.metadata(r)
	}
	return b.answer(req)
}

// metadata leads partitions 0 and 1 of every topic; partition 2 has no leader. There is no topic "missing".
func (b *broker) metadata(req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	m := kmsg.NewMetadataResponseBroker()
	m.NodeID, m.Host, m.Port = 7, b.host, b.port
	resp.Brokers = append(resp.Brokers, m)
	for i := range req.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = req.Topics[i].Topic
		if *t.Topic == "missing" {
			t.ErrorCode = int16(protocol.UnknownTopicOrPartition)
		}
		for n := range int32(3) {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader = n, 7
			if n == 2 {
				p.Leader = -1
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func testClient(t *testing.T, addrs ...string) *Client {
	t.Helper()
	c := newClient(addrs, rpc.Options{Timeout: 30 * time.Second})
	t.Cleanup(c.Close)
	return c
}

func never(req kmsg.Request) kmsg.Response { return nil }

// The newest and the oldest versions of everything that a group is asked with.
var (
	newestAPIs = map[int16]int16{1: 18, 2: 11, 3: 13, 8: 10, 9: 10, 10: 6, 15: 6, 16: 5, 42: 3, 69: 1}
	oldestAPIs = map[int16]int16{1: 4, 2: 1, 3: 1, 8: 2, 9: 2, 10: 0, 15: 0, 16: 0, 42: 0}
)

func TestBootstrapGoesOnToTheNext(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	b := newBroker(t, newestAPIs, never)
	c := testClient(t, gone.Addr().String(), b.addr())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	brokers, err := c.Brokers(ctx)
	if err != nil || len(brokers) != 1 || brokers[0] != (Broker{ID: 7, Addr: b.addr()}) || c.Addr() != b.addr() {
		t.Errorf("%v, %v, %s", brokers, err, c.Addr())
	}
	if c.Told(b.addr()) || !c.Told("elsewhere:1") {
		t.Error("which addresses the cluster told is not known")
	}
	_, err = testClient(t, gone.Addr().String(), gone.Addr().String()).Brokers(ctx)
	if strings.Count(fmt.Sprint(err), "cannot be reached") != 2 {
		t.Error(err)
	}
}

// A coordinator that loads, or is somewhere else by now, is asked for again; one that is refused for good is not.
func TestCoordinatorIsAskedForAgain(t *testing.T) {
	for _, newest := range []map[int16]int16{newestAPIs, oldestAPIs} {
		codes := []protocol.Code{protocol.CoordinatorNotAvailable, protocol.None, protocol.None, protocol.None}
		deletes := []protocol.Code{protocol.NotCoordinator, protocol.CoordinatorLoadInProgress, protocol.NonEmptyGroup}
		b := newBroker(t, newest, func(req kmsg.Request) kmsg.Response {
			switch r := req.(type) {
			case *kmsg.FindCoordinatorRequest:
				code := codes[0]
				if codes = codes[1:]; code == protocol.None {
					return nil
				}
				resp := kmsg.NewPtrFindCoordinatorResponse()
				resp.ErrorCode = int16(code)
				for _, k := range r.CoordinatorKeys {
					c := kmsg.NewFindCoordinatorResponseCoordinator()
					c.Key, c.ErrorCode = k, int16(code)
					resp.Coordinators = append(resp.Coordinators, c)
				}
				return resp
			case *kmsg.DeleteGroupsRequest:
				resp := kmsg.NewPtrDeleteGroupsResponse()
				g := kmsg.NewDeleteGroupsResponseGroup()
				g.Group, g.ErrorCode = r.Groups[0], int16(deletes[0])
				deletes = deletes[1:]
				resp.Groups = append(resp.Groups, g)
				return resp
			}
			return nil
		})
		if err := testClient(t, b.addr()).DeleteGroup(t.Context(), "g"); rpc.Code(err) != protocol.NonEmptyGroup || len(codes)+len(deletes) != 0 {
			t.Errorf("%v; %d and %d answers are left", err, len(codes), len(deletes))
		}
	}
}

// A group that is not classic is looked for among the consumer groups, and keeps the story that came with the refusal.
func TestDescribeConsumerGroup(t *testing.T) {
	for _, version := range []int16{5, 6} {
		newest := map[int16]int16{3: 13, 10: 6, 15: version, 69: 1}
		b := newBroker(t, newest, func(req kmsg.Request) kmsg.Response {
			switch r := req.(type) {
			case *kmsg.DescribeGroupsRequest:
				resp := kmsg.NewPtrDescribeGroupsResponse()
				g := kmsg.NewDescribeGroupsResponseGroup()
				g.Group, g.State = r.Groups[0], "Dead"
				if r.Version == 6 {
					g.ErrorCode = int16(protocol.GroupIDNotFound)
				}
				if r.UnknownTags.Len() == 1 && g.Group == "new" {
					g.UnknownTags.Set(StoryTag, []byte(`{"state":"Assigning","sinceMs":3,"events":[{"atMs":1,"what":"teleported","more":true}]}`))
				}
				resp.Groups = append(resp.Groups, g)
				return resp
			case *kmsg.ConsumerGroupDescribeRequest:
				resp := kmsg.NewPtrConsumerGroupDescribeResponse()
				g := kmsg.NewConsumerGroupDescribeResponseGroup()
				if g.Group = r.Groups[0]; g.Group == "new" {
					g.State, g.Epoch, g.AssignorName = "Assigning", 4, "uniform"
					m := kmsg.NewConsumerGroupDescribeResponseGroupMember()
					m.MemberID, m.ClientHost, m.MemberEpoch = "m", "/10.0.0.1", 3
					m.Assignment.TopicPartitions = []kmsg.AssignmentTopicPartition{{Topic: "t", Partitions: []int32{2, 0}}}
					g.Members = append(g.Members, m)
				} else {
					g.ErrorCode = int16(protocol.GroupIDNotFound)
				}
				resp.Groups = append(resp.Groups, g)
				return resp
			}
			return nil
		})
		c := testClient(t, b.addr())
		g, err := c.DescribeGroup(t.Context(), "new", true)
		if err != nil {
			t.Fatal(err)
		}
		m := g.Members[0]
		if g.Type != "consumer" || g.Epoch != 4 || m.Host != "10.0.0.1" || fmt.Sprint(m.Assignment) != "[t-0 t-2]" || !g.Active() {
			t.Errorf("%+v", g)
		}
		s, err := ReadStory(g.Story)
		if err != nil || s.State != "Assigning" || s.Events[0].What != "teleported" {
			t.Errorf("%+v, %v", s, err)
		}
		if g, err = c.DescribeGroup(t.Context(), "new", false); err != nil || g.Story != nil {
			t.Errorf("a story that nobody asked for: %s, %v", g.Story, err)
		}
		if _, err := c.DescribeGroup(t.Context(), "none", true); !errors.Is(err, ErrNoGroup) {
			t.Errorf("version %d: a group that is not there: %v", version, err)
		}
	}
	if _, err := ReadStory([]byte("{")); err == nil {
		t.Error("half a story was read")
	}
}

// What a member says that is no assignment of consumers stays what it is, and harms nobody.
func TestOpaqueAssignment(t *testing.T) {
	good := kmsg.NewConsumerMemberAssignment()
	good.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: []int32{1}}}
	for _, tc := range []struct {
		protocolType string
		assignment   []byte
		opaque       bool
		has          string
	}{
		{"consumer", good.AppendTo(nil), false, "[t-1]"},
		{"consumer", nil, false, "[]"},
		{"connect", good.AppendTo(nil), true, "[]"},
		{"consumer", []byte("\x00\x00\x7f\xff\xff\xff\x00"), true, "[]"},
	} {
		m := kmsg.NewDescribeGroupsResponseGroupMember()
		m.MemberAssignment = tc.assignment
		if got := classicMember(&m, tc.protocolType); got.AssignmentOpaque != tc.opaque || fmt.Sprint(got.Assignment) != tc.has {
			t.Errorf("%s %x: %+v", tc.protocolType, tc.assignment, got)
		}
	}
}

// Offsets are told for each partition, and what is wrong with the others.
func TestOffsets(t *testing.T) {
	for _, newest := range []map[int16]int16{newestAPIs, oldestAPIs} {
		b := newBroker(t, newest, func(req kmsg.Request) kmsg.Response {
			r, ok := req.(*kmsg.ListOffsetsRequest)
			if !ok {
				return nil
			}
			resp := kmsg.NewPtrListOffsetsResponse()
			for _, t := range r.Topics {
				rt := kmsg.NewListOffsetsResponseTopic()
				rt.Topic = t.Topic
				for _, p := range t.Partitions {
					rp := kmsg.NewListOffsetsResponseTopicPartition()
					rp.Partition, rp.Offset, rp.OldStyleOffsets = p.Partition, 40, []int64{40}
					if p.Partition == 1 {
						rp.ErrorCode, rp.Offset = int16(protocol.NotLeaderOrFollower), -1
					}
					rt.Partitions = append(rt.Partitions, rp)
				}
				rp := kmsg.NewListOffsetsResponseTopicPartition() // nobody asked
				rp.Partition = 77
				rt.Partitions = append(rt.Partitions, rp)
				resp.Topics = append(resp.Topics, rt)
			}
			return resp
		})
		ps := []Partition{{"t", 0}, {"t", 1}, {"t", 2}, {"t", 9}, {"missing", 0}}
		all, err := testClient(t, b.addr()).Offsets(t.Context(), ps, Latest)
		if err != nil || len(all) != len(ps) {
			t.Fatalf("%v, %v", all, err)
		}
		for i, want := range []protocol.Code{protocol.None, protocol.NotLeaderOrFollower, protocol.LeaderNotAvailable, protocol.UnknownTopicOrPartition, protocol.UnknownTopicOrPartition} {
			if o := all[ps[i]]; rpc.Code(o.Err) != want || want == protocol.None && (o.Offset != 40 || o.Err != nil) {
				t.Errorf("%s: %+v, want %s", ps[i], o, want)
			}
		}
	}
}

func batchOf(base int64, o record.Options, timestamps ...int64) record.Batch {
	b := record.NewBuilder(o)
	for _, ms := range timestamps {
		b.Append(ms, nil, []byte("v"), nil)
	}
	made := slices.Clone(b.Bytes())
	record.Batch(made).SetBaseOffset(base)
	return made
}

func TestFirstTime(t *testing.T) {
	appended := batchOf(0, record.Options{}, 5, 6)
	appended.SetTimestampType(record.LogAppendTime)
	appended.SetMaxTimestamp(99)
	control := batchOf(20, record.Options{}, 1)
	control[22] |= 1 << 5
	for name, tc := range map[string]struct {
		batches []record.Batch
		at      int64
		ms      int64
		next    int64
	}{
		"the first":              {[]record.Batch{batchOf(0, record.Options{}, 5, 6, 7)}, 0, 5, 3},
		"within a batch":         {[]record.Batch{batchOf(10, record.Options{Codec: record.LZ4}, 5, 6, 7)}, 12, 7, 13},
		"in the next batch":      {[]record.Batch{batchOf(0, record.Options{}, 5), batchOf(10, record.Options{}, 8)}, 3, 8, 11},
		"by the time of the log": {[]record.Batch{appended}, 1, 99, 2},
		"a control batch":        {[]record.Batch{control}, 20, timeUnknown, 21},
		"nothing":                {nil, 4, timeUnknown, 4},
		"behind all":             {[]record.Batch{batchOf(0, record.Options{}, 5)}, 4, timeUnknown, 1},
	} {
		if ms, next := firstTime(slices.Concat(tc.batches...), tc.at); ms != tc.ms || next != tc.next {
			t.Errorf("%s: %d, then %d; want %d, then %d", name, ms, next, tc.ms, tc.next)
		}
	}
	whole := batchOf(0, record.Options{Codec: record.Zstd}, 1, 2, 3)
	for cut := range whole {
		_, _ = firstTime(whole[:cut], 0)
		broken := slices.Clone(whole)
		broken[cut] ^= 0xff
		_, _ = firstTime(broken, 0)
	}
}

// The look for a record goes over what has none, up to a limit, and on from the log start when the offset is gone.
func TestTimes(t *testing.T) {
	log := map[int64]record.Batch{30: batchOf(32, record.Options{}, 1234)}
	var fetches atomic.Int32
	b := newBroker(t, newestAPIs, func(req kmsg.Request) kmsg.Response {
		r, ok := req.(*kmsg.FetchRequest)
		if !ok {
			return nil
		}
		if r.Version != fetchNamed {
			t.Errorf("fetch in version %d", r.Version)
		}
		fetches.Add(1)
		resp := kmsg.NewPtrFetchResponse()
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic = r.Topics[0].Topic
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.Partition = r.Topics[0].Partitions[0].Partition
		switch at := r.Topics[0].Partitions[0].FetchOffset; {
		case at < 30:
			rp.ErrorCode, rp.LogStartOffset = int16(protocol.OffsetOutOfRange), 30
		case rt.Topic == "hollow":
			empty := batchOf(at, record.Options{}, 1)
			rp.RecordBatches = record.AppendEmpty(nil, empty)
		case rt.Topic == "failing":
			rp.ErrorCode = int16(protocol.KafkaStorageError)
		default:
			rp.RecordBatches = log[at]
		}
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp
	})
	c := testClient(t, b.addr())
	times, err := c.Times(t.Context(), map[Partition]int64{{"t", 0}: 3, {"t", 2}: 5, {"missing", 0}: 1})
	if err != nil || len(times) != 1 || times[Partition{"t", 0}] != 1234 || fetches.Load() != 2 {
		t.Errorf("%v, %v, %d fetches", times, err, fetches.Load())
	}
	for _, topic := range []string{"hollow", "failing"} {
		fetches.Store(0)
		times, err = c.Times(t.Context(), map[Partition]int64{{topic, 0}: 30})
		if err != nil || len(times) != 0 || fetches.Load() > peekHops {
			t.Errorf("%s: %v, %v, %d fetches", topic, times, err, fetches.Load())
		}
	}
}

// Committed offsets in both forms; what is not committed (-1) is left out, an error is one.
func TestReadCommitted(t *testing.T) {
	old, grouped := kmsg.NewPtrOffsetFetchResponse(), kmsg.NewPtrOffsetFetchResponse()
	a := kmsg.NewOffsetFetchResponseTopic()
	g := kmsg.NewOffsetFetchResponseGroup()
	b := kmsg.NewOffsetFetchResponseGroupTopic()
	a.Topic, b.Topic = "t", "t"
	for p, offset := range []int64{5, -1} {
		x, y := kmsg.NewOffsetFetchResponseTopicPartition(), kmsg.NewOffsetFetchResponseGroupTopicPartition()
		x.Partition, x.Offset = int32(p), offset
		y.Partition, y.Offset = int32(p), offset
		a.Partitions, b.Partitions = append(a.Partitions, x), append(b.Partitions, y)
	}
	g.Topics = append(g.Topics, b)
	old.Topics, grouped.Groups = append(old.Topics, a), append(grouped.Groups, g)
	for _, resp := range []*kmsg.OffsetFetchResponse{old, grouped} {
		if all, err := readCommitted(resp, "g"); err != nil || len(all) != 1 || all[Partition{"t", 0}] != 5 {
			t.Errorf("%v, %v", all, err)
		}
	}
	old.ErrorCode, grouped.Groups[0].ErrorCode = int16(protocol.GroupAuthorizationFailed), int16(protocol.GroupAuthorizationFailed)
	for _, resp := range []*kmsg.OffsetFetchResponse{old, grouped} {
		if _, err := readCommitted(resp, "g"); rpc.Code(err) != protocol.GroupAuthorizationFailed {
			t.Error(err)
		}
	}
}

// What is refused in part is told for each partition; when all is refused for now it is tried again.
func TestCommitOffsets(t *testing.T) {
	answers := [][2]protocol.Code{{protocol.CoordinatorLoadInProgress, protocol.CoordinatorLoadInProgress}, {protocol.None, protocol.UnknownTopicOrPartition}}
	b := newBroker(t, newestAPIs, func(req kmsg.Request) kmsg.Response {
		r, ok := req.(*kmsg.OffsetCommitRequest)
		if !ok {
			return nil
		}
		if r.Version != offsetCommitNamed || r.Generation != -1 || r.Group != "g" {
			t.Errorf("%+v", r)
		}
		resp := kmsg.NewPtrOffsetCommitResponse()
		for _, topic := range r.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic = topic.Topic
			for _, p := range topic.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, int16(answers[0][p.Partition])
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		answers = answers[1:]
		return resp
	})
	refused, err := testClient(t, b.addr()).CommitOffsets(t.Context(), "g", map[Partition]int64{{"t", 0}: 1, {"t", 1}: 2})
	if err != nil || len(refused) != 1 || rpc.Code(refused[Partition{"t", 1}]) != protocol.UnknownTopicOrPartition || len(answers) != 0 {
		t.Errorf("%v, %v", refused, err)
	}
}

// An attempt without an answer is not told as the refusals of the one before: it may have set the offsets.
func TestCommitOffsetsWithoutAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked, gone := 0, make(chan struct{})
	b := newBroker(t, newestAPIs, func(req kmsg.Request) kmsg.Response {
		if _, ok := req.(*kmsg.OffsetCommitRequest); !ok {
			return nil
		}
		if asked++; asked == 2 {
			cancel()
			<-gone
		}
		resp := kmsg.NewPtrOffsetCommitResponse()
		rt := kmsg.NewOffsetCommitResponseTopic()
		rp := kmsg.NewOffsetCommitResponseTopicPartition()
		rt.Topic, rp.ErrorCode = "t", int16(protocol.CoordinatorLoadInProgress)
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp
	})
	refused, err := testClient(t, b.addr()).CommitOffsets(ctx, "g", map[Partition]int64{{"t", 0}: 1})
	close(gone)
	if !errors.Is(err, context.Canceled) || refused != nil {
		t.Errorf("%v, %v", refused, err)
	}
}
