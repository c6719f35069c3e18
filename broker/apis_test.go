package broker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

func TestHandlersAreTheTable(t *testing.T) {
	for _, a := range protocol.APIs {
		h, ok := handlers[a.Key]
		if !ok {
			t.Errorf("%s has no handler", a.Name)
		}
		if (h.answer == nil) == (h.start == nil) {
			t.Errorf("%s needs exactly one of answer and start", a.Name)
		}
	}
	for key := range handlers {
		if protocol.LookupAPI(key) == nil {
			t.Errorf("the handler of key %d is not in protocol.APIs", key)
		}
	}
}

// sample is a valid request of an API and version about topic "t" (id), partition 0.
func sample(key, version int16, id [16]byte) kmsg.Request {
	topic, name := "t", "retention.ms"
	value := "1000"
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		*r = *produceRequest(version, -1, topic, 0, plain("a", "b"))
		r.Topics[0].TopicID = id
	case *kmsg.FetchRequest:
		*r = *fetchRequest(version, topic, 0, 0)
		r.Topics[0].TopicID = id
	case *kmsg.ListOffsetsRequest:
		*r = *listRequest(version, topic, 0, -1)
	case *kmsg.MetadataRequest:
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		r.Topics = append(r.Topics, t)
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKey, r.CoordinatorKeys = "g", []string{"g"}
	case *kmsg.ApiVersionsRequest:
		r.ClientSoftwareName, r.ClientSoftwareVersion = "test", "1"
	case *kmsg.CreateTopicsRequest:
		*r = *createRequest(version, "made", 1, "retention.ms=5")
		r.ValidateOnly = true
	case *kmsg.DeleteTopicsRequest:
		*r = *deleteRequest(version, "missing")
	case *kmsg.DeleteRecordsRequest:
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = topic
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	case *kmsg.OffsetForLeaderEpochRequest:
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = topic
		t.Partitions = append(t.Partitions, kmsg.NewOffsetForLeaderEpochRequestTopicPartition())
		r.Topics = append(r.Topics, t)
	case *kmsg.DescribeConfigsRequest:
		q := kmsg.NewDescribeConfigsRequestResource()
		q.ResourceType, q.ResourceName, q.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{name}
		r.IncludeSynonyms, r.IncludeDocumentation = true, true
		r.Resources = append(r.Resources, q)
	case *kmsg.AlterConfigsRequest:
		q := kmsg.NewAlterConfigsRequestResource()
		q.ResourceType, q.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		k := kmsg.NewAlterConfigsRequestResourceConfig()
		k.Name, k.Value = name, &value
		q.Configs = append(q.Configs, k)
		r.Resources, r.ValidateOnly = append(r.Resources, q), true
	case *kmsg.IncrementalAlterConfigsRequest:
		*r = *alterRequest(version, kmsg.ConfigResourceTypeTopic, topic, kmsg.IncrementalAlterConfigOpSet, name, value)
		r.ValidateOnly = true
	case *kmsg.DescribeLogDirsRequest:
		t := kmsg.NewDescribeLogDirsRequestTopic()
		t.Topic, t.Partitions = topic, []int32{0}
		r.Topics = append(r.Topics, t)
	case *kmsg.CreatePartitionsRequest:
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = topic, 3
		r.Topics, r.ValidateOnly = append(r.Topics, t), true
	case *kmsg.DescribeProducersRequest:
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = topic, []int32{0}
		r.Topics = append(r.Topics, t)
	case *kmsg.DescribeTopicPartitionsRequest:
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = topic
		r.Topics = append(r.Topics, t)
	}
	req.SetVersion(version)
	return req
}

func eachVersion(fn func(a *protocol.API, version int16)) {
	for i := range protocol.APIs {
		for v := protocol.APIs[i].Min; v <= protocol.APIs[i].Max; v++ {
			fn(&protocol.APIs[i], v)
		}
	}
}

// Every API answers in every version; recv checks each answer byte for byte against kmsg.
func TestEveryVersionAnswers(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("t", 1)
	eachVersion(func(a *protocol.API, version int16) {
		c.send(sample(a.Key, version, id))
		resp, err := c.tryRecv()
		if err != nil {
			t.Fatalf("%s v%d: %v", a.Name, version, err)
		}
		if p, ok := resp.(*kmsg.ProduceResponse); ok {
			wantCode(t, onlyProduced(t, p).ErrorCode, protocol.None)
		}
		if f, ok := resp.(*kmsg.FetchResponse); ok {
			if len(onlyFetched(t, f).RecordBatches) == 0 {
				t.Fatalf("Fetch v%d gives nothing", version)
			}
		}
	})
}

// The same with everything asked ahead of the first answer.
func TestEveryVersionPipelined(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("t", 1)
	c.mustProduce("t", 0, plain("x"))
	sent := 0
	eachVersion(func(a *protocol.API, version int16) { c.send(sample(a.Key, version, id)); sent++ })
	for range sent {
		c.recv()
	}
}

// H1, gotchas 3 and 4: an ApiVersions version from the future is answered in version 0, with code 35 and the range that works.
func TestAPIVersionsFromTheFuture(t *testing.T) {
	n := start(t)
	c := n.dial()
	for _, version := range []int16{6, 99, 32767, -1} {
		f := frame(sample(protocol.KeyAPIVersions, 5, [16]byte{}), 7)
		binary.BigEndian.PutUint16(f[6:], uint16(version))
		c.raw(f)
		body, err := c.readFrame()
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		if err := resp.ReadFrom(body[4:]); err != nil || !bytes.Equal(resp.AppendTo(nil), body[4:]) {
			t.Fatalf("version %d: not a v0 body: %x, %v", version, body, err)
		}
		wantCode(t, resp.ErrorCode, protocol.UnsupportedVersion)
		i := slices.IndexFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == protocol.KeyAPIVersions })
		if i < 0 || resp.ApiKeys[i].MaxVersion != 5 {
			t.Fatalf("version %d: own range is missing: %+v", version, resp.ApiKeys)
		}
	}
	c.send(sample(protocol.KeyAPIVersions, 3, [16]byte{}))
	c.recv() // the connection is still good
}

func TestAPIVersionsAnswer(t *testing.T) {
	n := start(t)
	c := n.dial()
	resp := do[*kmsg.ApiVersionsResponse](c, sample(protocol.KeyAPIVersions, 4, [16]byte{}))
	if len(resp.ApiKeys) != len(protocol.APIs) {
		t.Fatalf("%d APIs are listed, want %d", len(resp.ApiKeys), len(protocol.APIs))
	}
	for i, k := range resp.ApiKeys {
		a := protocol.APIs[i]
		if k.ApiKey != a.Key || k.MinVersion != a.AdvertisedMin || k.MaxVersion != a.Max {
			t.Errorf("%s is listed as %+v", a.Name, k)
		}
	}
	for _, tc := range []struct {
		name, version string
		cluster       *string
		node          int32
		want          protocol.Code
	}{
		{"test", "1.0", nil, -1, protocol.None},
		{"", "1", nil, -1, protocol.InvalidRequest},
		{"te st", "1", nil, -1, protocol.InvalidRequest},
		{"test", "-", nil, -1, protocol.InvalidRequest},
		{"test", "1", ptr(n.b.ClusterID()), 1, protocol.None},
		{"test", "1", ptr(n.b.ClusterID()), -1, protocol.InvalidRequest},
		{"test", "1", nil, 1, protocol.InvalidRequest},
		{"test", "1", ptr("somebody else"), 1, protocol.RebootstrapRequired},
		{"test", "1", ptr(n.b.ClusterID()), 2, protocol.RebootstrapRequired},
	} {
		req := sample(protocol.KeyAPIVersions, 5, [16]byte{}).(*kmsg.ApiVersionsRequest)
		req.ClientSoftwareName, req.ClientSoftwareVersion, req.ClusterID, req.NodeID = tc.name, tc.version, tc.cluster, tc.node
		if got := do[*kmsg.ApiVersionsResponse](c, req); protocol.Code(got.ErrorCode) != tc.want {
			t.Errorf("%+v: %s, want %s", tc, protocol.Code(got.ErrorCode).Name(), tc.want.Name())
		}
	}
}

func ptr[T any](v T) *T { return &v }

// Unknown keys, versions that are not served (Produce 0-2 though it is listed from 0), and frames that are none: the connection ends, others stay.
func TestUnservedRequestsCloseTheConnection(t *testing.T) {
	n := start(t, "socket.request.max.bytes=100000")
	healthy := n.dial()
	id := healthy.create("t", 1)
	header := func(key, version int16) []byte {
		f := binary.BigEndian.AppendUint32(nil, 10)
		f = binary.BigEndian.AppendUint16(f, uint16(key))
		f = binary.BigEndian.AppendUint16(f, uint16(version))
		f = binary.BigEndian.AppendUint32(f, 1)
		return append(f, 0xff, 0xff)
	}
	bad := map[string][]byte{
		"unknown key":         header(999, 0),
		"negative key":        header(-1, 0),
		"group key":           header(11, 5),
		"zero size":           {0, 0, 0, 0},
		"negative size":       {0xff, 0xff, 0xff, 0xff},
		"smallest size":       {0x80, 0, 0, 0},
		"larger than allowed": {0, 1, 0x86, 0xa1},
		"huge":                {0x7f, 0xff, 0xff, 0xff},
		"HTTP":                []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"TLS hello":           {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
		"header cut":          {0, 0, 0, 3, 0, 0, 0},
		"client id cut":       {0, 0, 0, 10, 0, 3, 0, 1, 0, 0, 0, 1, 0, 9},
	}
	for _, a := range protocol.APIs {
		bad[fmt.Sprintf("%s v%d", a.Name, a.Min-1)] = header(a.Key, a.Min-1)
		bad[fmt.Sprintf("%s v%d", a.Name, a.Max+1)] = header(a.Key, a.Max+1)
	}
	delete(bad, "ApiVersions v-1") // answered, see TestAPIVersionsFromTheFuture
	delete(bad, "ApiVersions v6")
	for name, b := range bad {
		c := n.dial()
		c.raw(b)
		if !c.isClosed() {
			t.Errorf("%s: the connection is still open", name)
		}
		c.conn.Close()
		healthy.send(sample(protocol.KeyMetadata, 12, id))
		healthy.recv()
	}
}

// attacker sends frames that may be anything. It opens a new connection when the broker has ended the last one.
type attacker struct {
	t    testing.TB
	addr string
	conn net.Conn
	in   *bufio.Reader
}

const markerID = 0x5ca1ab1e

// try sends a frame and behind it a good request, and reads until that is answered (true) or the connection has ended (false).
func (a *attacker) try(b []byte) (answered bool) {
	a.t.Helper()
	if a.conn == nil {
		conn, err := net.Dial("tcp", a.addr)
		if err != nil {
			a.t.Fatal(err)
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // leaves no port waiting
		a.conn, a.in = conn, bufio.NewReader(conn)
	}
	_ = a.conn.SetDeadline(time.Now().Add(patience))
	_, err := a.conn.Write(append(bytes.Clone(b), frame(sample(protocol.KeyAPIVersions, 0, [16]byte{}), markerID)...))
	for err == nil {
		var head [8]byte
		if _, err = io.ReadFull(a.in, head[:]); err != nil {
			break
		}
		n := int(binary.BigEndian.Uint32(head[:]))
		if n < 4 || n > 64<<20 {
			a.t.Fatalf("%x: an answer of %d bytes", b, n)
		}
		if _, err = a.in.Discard(n - 4); err == nil && binary.BigEndian.Uint32(head[4:]) == markerID {
			return true
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.t.Fatalf("%x: neither an answer nor the end of the connection", b)
	}
	a.close()
	return false
}

func (a *attacker) close() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

// Every prefix of a valid request of each API and version, and every request with its length fields changed: a proper answer or the end of the
// connection, and never anything for the others.
func TestMutatedRequests(t *testing.T) {
	n := start(t)
	healthy := n.dial()
	id := healthy.create("t", 1)
	before := heapBytes()
	var answered, ended int
	hostile := &attacker{t: t, addr: n.addr()}
	defer hostile.close()
	eachVersion(func(a *protocol.API, version int16) {
		for _, m := range mutations(frame(sample(a.Key, version, id), 1), testing.Short() || raceEnabled) {
			if hostile.try(m) {
				answered++
			} else {
				ended++
			}
		}
		healthy.send(sample(protocol.KeyMetadata, 12, id))
		healthy.recv()
	})
	t.Logf("%d answered, %d connections ended", answered, ended)
	runtime.GC()
	if after := heapBytes(); after > before+64<<20 {
		t.Errorf("the heap grew from %d to %d MiB", before>>20, after>>20)
	}
	if got := n.b.servers[0].server.Stats().Panics; got != 0 {
		t.Errorf("%d requests made a handler panic", got)
	}
}

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// mutations of a request frame: prefixes with a size that fits them, and every 1, 2 and 4 byte field with values that are wrong for a length.
func mutations(whole []byte, few bool) [][]byte {
	var all [][]byte
	resized := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		return b
	}
	step := 1
	if few {
		step = 5
	}
	for n := 4; n < len(whole); n += step {
		all = append(all, resized(bytes.Clone(whole[:n])))
	}
	for at := 12; at < len(whole); at += step {
		for _, with := range [][]byte{{0xff}, {0xff, 0xff}, {0x7f, 0xff, 0xff, 0xff}, {0x80, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff, 0x0f}} {
			if at+len(with) > len(whole) {
				continue
			}
			m := bytes.Clone(whole)
			copy(m[at:], with)
			all = append(all, m)
		}
	}
	return all
}
