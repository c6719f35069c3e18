package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// fakeAnswer answers a request to the broker at addr. nil is no answer.
type fakeAnswer func(addr string, req kmsg.Request) kmsg.Response

// fakeCluster is brokers without a network, in a bubble of fake time: connections are pipes, answers what the test says. Its methods may be used while it serves.
type fakeCluster struct {
	t  testing.TB
	mu struct {
		sync.Mutex
		answers map[int16]fakeAnswer
		brokers map[int32]string   // HOST:PORT
		topics  map[string][]int32 // leaders by partition
		epochs  map[string]int32   // of leaders, by topic-partition
		down    map[string]bool    // addresses that cannot be reached
		open    map[net.Conn]string
		asked   []string // "NAME vVERSION ADDR"
		dials   []string
	}
	serving sync.WaitGroup
}

// newFakeCluster has brokers 1..n at bN:9092. It answers ApiVersions and Metadata.
func newFakeCluster(t testing.TB, n int) *fakeCluster {
	f := &fakeCluster{t: t}
	f.mu.answers, f.mu.brokers, f.mu.topics = map[int16]fakeAnswer{}, map[int32]string{}, map[string][]int32{}
	f.mu.epochs, f.mu.down, f.mu.open = map[string]int32{}, map[string]bool{}, map[net.Conn]string{}
	for i := 1; i <= n; i++ {
		f.mu.brokers[int32(i)] = fmt.Sprintf("b%d:9092", i)
	}
	f.on(18, func(string, kmsg.Request) kmsg.Response { return protocol.APIVersions(3, nil, 0) })
	f.on(3, func(_ string, req kmsg.Request) kmsg.Response { return f.metadata(req.(*kmsg.MetadataRequest)) })
	return f
}

// on says how requests of a key are answered.
func (f *fakeCluster) on(key int16, a fakeAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.answers[key] = a
}

// topic has partitions with these leaders from now on.
func (f *fakeCluster) topic(name string, leaders ...int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.topics[name] = leaders
	for p := range leaders {
		f.mu.epochs[fmt.Sprint(name, "-", p)]++
	}
}

func (f *fakeCluster) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	for id, addr := range f.mu.brokers {
		b := kmsg.NewMetadataResponseBroker()
		host, _, _ := strings.Cut(addr, ":")
		b.NodeID, b.Host, b.Port = id, host, 9092
		resp.Brokers = append(resp.Brokers, b)
	}
	names := []string{}
	for _, t := range req.Topics {
		names = append(names, *t.Topic)
	}
	if req.Topics == nil {
		for name := range f.mu.topics {
			names = append(names, name)
		}
	}
	for _, name := range names {
		resp.Topics = append(resp.Topics, f.metadataOf(name))
	}
	return resp
}

func (f *fakeCluster) metadataOf(name string) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic = &name
	copy(t.TopicID[:], name+"..")
	leaders, ok := f.mu.topics[name]
	if !ok {
		t.ErrorCode = int16(protocol.UnknownTopicOrPartition)
	}
	for i, leader := range leaders {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), leader, f.mu.epochs[fmt.Sprint(name, "-", i)]
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

// down makes a broker unreachable, or reachable again. Open connections to it are cut.
func (f *fakeCluster) down(addr string, down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.down[addr] = down
	for c, to := range f.mu.open {
		if down && to == addr {
			c.Close()
		}
	}
}

// requests are those with a name, as "NAME vVERSION ADDR".
func (f *fakeCluster) requests(name string) (got []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.mu.asked {
		if strings.HasPrefix(r, name+" ") {
			got = append(got, r)
		}
	}
	return got
}

// dials are the addresses that were dialled.
func (f *fakeCluster) dials() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.mu.dials...)
}

func (f *fakeCluster) dial(_ context.Context, _, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.dials = append(f.mu.dials, addr)
	if f.mu.down[addr] {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	f.mu.open[there] = addr
	f.serving.Go(func() { f.serve(there, addr) })
	return here, nil
}

func (f *fakeCluster) serve(c net.Conn, addr string) {
	answers := make(chan []byte, 100)
	f.serving.Go(func() {
		for b := range answers {
			_, _ = c.Write(b)
		}
		c.Close()
	})
	defer close(answers)
	for {
		req, id, err := readRequest(c)
		if err != nil {
			f.mu.Lock()
			delete(f.mu.open, c)
			f.mu.Unlock()
			return
		}
		f.mu.Lock()
		f.mu.asked = append(f.mu.asked, fmt.Sprintf("%s v%d %s", kmsg.NameForKey(req.Key()), req.GetVersion(), addr))
		answer := f.mu.answers[req.Key()]
		f.mu.Unlock()
		if answer == nil {
			f.t.Errorf("%s is asked for %s", addr, kmsg.NameForKey(req.Key()))
			return
		}
		if resp := answer(addr, req); resp != nil {
			answers <- protocol.AppendResponse(nil, id, resp)
		}
	}
}

func readRequest(c net.Conn) (kmsg.Request, int32, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, 0, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, frame); err != nil {
		return nil, 0, err
	}
	h, body, err := protocol.ParseHeader(frame)
	if err != nil {
		return nil, 0, err
	}
	req, err := protocol.Decode(h, body)
	return req, h.CorrelationID, err
}

// client is a client of the cluster, which begins at b1.
func (f *fakeCluster) client(change ...func(*Config)) *Client {
	f.t.Helper()
	config := Config{BootstrapServers: []string{"b1:9092"}, Dial: f.dial}
	for _, c := range change {
		c(&config)
	}
	c, err := newClient(config, func() float64 { return 0 })
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		c.Close()
		f.serving.Wait()
	})
	return c
}

// clientGoroutines are the goroutines that run code of this module, but for the tests' own.
func clientGoroutines() string {
	b := make([]byte, 1<<20)
	var left []string
	for g := range strings.SplitSeq(string(b[:runtime.Stack(b, true)]), "\n\n") {
		if strings.Contains(g, "leat/") && !strings.Contains(g, "testing.tRunner") && !strings.Contains(g, "clientGoroutines") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

// within is a context of that long.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
