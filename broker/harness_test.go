package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/logtest"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// patience is how long a test waits for something that must happen; nothing is measured by it.
const patience = 30 * time.Second

// openNodes counts the brokers of the running test: goroutines are checked when the last one is closed.
var openNodes atomic.Int32

// node is a broker under test, serving on a port of 127.0.0.1.
type node struct {
	t      testing.TB
	b      *Broker
	fs     vfs.FS
	served chan error
	logs   *logtest.Buffer
	closed bool
}

// testSettings are what every broker under test has: small index files, for those of an in-memory file system are really there.
var testSettings = []string{"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=/data", "log.index.size.max.bytes=16384"}

func testConfig(t testing.TB, settings ...string) *config.Set {
	t.Helper()
	set := config.NewSet()
	for _, kv := range append(append([]string{}, testSettings...), settings...) {
		k, v, _ := strings.Cut(kv, "=")
		if err := set.Override(k, v, config.Flag); err != nil {
			t.Fatal(err)
		}
	}
	return set
}

// start runs a broker on an in-memory file system.
func start(t testing.TB, settings ...string) *node {
	t.Helper()
	return startOn(t, vfs.NewMem(1), settings...)
}

// startOn runs a broker on the given file system until the test ends, or n.close or n.kill.
func startOn(t testing.TB, fsys vfs.FS, settings ...string) *node {
	t.Helper()
	n, err := tryStart(t, fsys, settings...)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return n
}

func tryStart(t testing.TB, fsys vfs.FS, settings ...string) (*node, error) {
	t.Helper()
	return tryStartWith(t, Options{FS: fsys}, settings...)
}

// tryStartWith runs a broker with options beside configuration and logger.
func tryStartWith(t testing.TB, o Options, settings ...string) (*node, error) {
	t.Helper()
	fsys := o.FS
	n := &node{t: t, fs: fsys, served: make(chan error, 1), logs: new(logtest.Buffer)}
	o.Config, o.Logger = testConfig(t, settings...), slog.New(slog.NewTextHandler(n.logs, nil))
	b, err := New(o)
	if err != nil {
		return nil, err
	}
	n.b = b
	openNodes.Add(1)
	go func() { n.served <- b.Serve() }()
	t.Cleanup(func() {
		n.close()
		if t.Failed() {
			t.Logf("broker log:\n%s", n.logs)
		}
	})
	return n, nil
}

// close stops the broker cleanly and checks that nothing of it is left running.
func (n *node) close() {
	n.t.Helper()
	if n.closed {
		return
	}
	n.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.b.Close(ctx); err != nil {
		n.t.Errorf("close: %v", err)
	}
	n.gone()
}

// kill ends the broker with a failing Close allowed: its disk is dead, or was copied before.
func (n *node) kill() {
	n.t.Helper()
	if n.closed {
		return
	}
	n.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = n.b.Close(ctx)
	n.gone()
}

func (n *node) gone() {
	n.t.Helper()
	if err := <-n.served; err != nil {
		n.t.Errorf("serve: %v", err)
	}
	if strings.Contains(n.logs.String(), "BUG") {
		n.t.Errorf("the broker logged a bug:\n%s", n.logs)
	}
	if openNodes.Add(-1) == 0 {
		checkGoroutines(n.t)
	}
}

// checkGoroutines fails when code of the broker still runs though no broker is open.
func checkGoroutines(t testing.TB) {
	t.Helper()
	var left string
	if !holds(func() bool { left = leatGoroutines(); return left == "" }) {
		t.Errorf("goroutines are left behind:\n%s", left)
	}
}

// leatGoroutines is the stacks of goroutines that run code of this module but no test.
func leatGoroutines() string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var left []string
	for _, g := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(g, "github.com/leatmq/leat/") && !strings.Contains(g, "_test.go") && !strings.Contains(g, "testing.(*F)") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

// holds waits until cond is true; false when that takes too long.
func holds(cond func() bool) bool {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}

// eventually fails the test unless cond becomes true.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !holds(cond) {
		t.Fatalf("did not happen: %s", what)
	}
}

func (n *node) addr() string { return n.b.Addrs()[0].String() }

// client is a raw connection that speaks exact versions and may send ahead.
type client struct {
	t    testing.TB
	conn net.Conn
	next int32
	form *kmsg.RequestFormatter
	sent []sentRequest // whose answers have not been read
	buf  []byte
}

type sentRequest struct {
	corr int32
	req  kmsg.Request
}

// dial opens a connection that ends with the test.
func (n *node) dial() *client {
	n.t.Helper()
	return dialTo(n.t, n.addr())
}

func dialTo(t testing.TB, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))}
}

// frame is the bytes of a request, size included.
func frame(req kmsg.Request, corr int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, corr)
}

// send writes a request without waiting for its answer.
func (c *client) send(req kmsg.Request) {
	c.t.Helper()
	c.next++
	c.raw(c.form.AppendRequest(nil, req, c.next))
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		return
	}
	c.sent = append(c.sent, sentRequest{c.next, req})
}

func (c *client) raw(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// recv reads the answer to the oldest request that waits for one.
func (c *client) recv() kmsg.Response {
	c.t.Helper()
	resp, err := c.tryRecv()
	if err != nil {
		c.t.Fatalf("answer to %T v%d: %v", c.sent[0].req, c.sent[0].req.GetVersion(), err)
	}
	return resp
}

func (c *client) tryRecv() (kmsg.Response, error) {
	body, err := c.readFrame()
	if err != nil {
		return nil, err
	}
	s := c.sent[0]
	resp, err := parseResponse(s.req, s.corr, body)
	if err != nil {
		return nil, err
	}
	c.sent = c.sent[1:]
	return resp, nil
}

func (c *client) readFrame() ([]byte, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	n := int32(size[0])<<24 | int32(size[1])<<16 | int32(size[2])<<8 | int32(size[3])
	if n < 4 || n > 256<<20 {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	if cap(c.buf) < int(n) {
		c.buf = make([]byte, n)
	}
	body := c.buf[:n]
	_, err := io.ReadFull(c.conn, body)
	return bytes.Clone(body), err
}

// parseResponse reads an answer strictly: header, body, and nothing behind it; written again it must give the same bytes.
func parseResponse(req kmsg.Request, corr int32, b []byte) (kmsg.Response, error) {
	got := int32(b[0])<<24 | int32(b[1])<<16 | int32(b[2])<<8 | int32(b[3])
	if got != corr {
		return nil, fmt.Errorf("correlation id %d, want %d", got, corr)
	}
	b = b[4:]
	if req.IsFlexible() && req.Key() != protocol.KeyAPIVersions {
		if len(b) == 0 || b[0] != 0 {
			return nil, errors.New("the response header has no empty tag section")
		}
		b = b[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("the body cannot be read: %w", err)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, b) {
		return nil, fmt.Errorf("the body is not what it says:\n got %x\nback %x", b, again)
	}
	return resp, nil
}

// do sends a request and reads its answer.
func do[R kmsg.Response](c *client, req kmsg.Request) R {
	c.t.Helper()
	c.send(req)
	return next[R](c)
}

// next reads the next answer, which must be an R.
func next[R kmsg.Response](c *client) R {
	c.t.Helper()
	resp := c.recv()
	r, ok := resp.(R)
	if !ok {
		c.t.Fatalf("answer is a %T", resp)
	}
	return r
}

// isClosed reports whether the broker closes the connection instead of answering.
func (c *client) isClosed() bool {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	_, err := c.conn.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatal("the connection is neither used nor closed")
	}
	return err != nil
}

func (c *client) wantClosed() {
	c.t.Helper()
	if !c.isClosed() {
		c.t.Fatal("the broker answered instead of closing the connection")
	}
}

func wantCode(t testing.TB, got int16, want protocol.Code) {
	t.Helper()
	if protocol.Code(got) != want {
		t.Fatalf("code %s, want %s", protocol.Code(got).Name(), want.Name())
	}
}

// Topics.

// create makes a topic and returns its id.
func (c *client) create(topic string, partitions int32, configs ...string) [16]byte {
	c.t.Helper()
	resp := do[*kmsg.CreateTopicsResponse](c, createRequest(7, topic, partitions, configs...))
	wantCode(c.t, resp.Topics[0].ErrorCode, protocol.None)
	return resp.Topics[0].TopicID
}

func createRequest(version int16, topic string, partitions int32, configs ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = version
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	for _, kv := range configs {
		k, v, _ := strings.Cut(kv, "=")
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = k, &v
		t.Configs = append(t.Configs, cfg)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func deleteRequest(version int16, topic string) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = version
	req.TopicNames = []string{topic}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	return req
}

func (c *client) delete(topic string) {
	c.t.Helper()
	wantCode(c.t, do[*kmsg.DeleteTopicsResponse](c, deleteRequest(6, topic)).Topics[0].ErrorCode, protocol.None)
}

// Batches.

// batch makes a batch of one record per value, with the value as its key as well.
func batch(o record.Options, values ...string) []byte {
	b := record.NewBuilder(o)
	for _, v := range values {
		b.Append(nowMs(), []byte(v), []byte(v), nil)
	}
	return b.Bytes()
}

func plain(values ...string) []byte { return batch(record.Options{}, values...) }

func nowMs() int64 { return time.Now().UnixMilli() }

// sequenced is an idempotent producer's batch.
func sequenced(pid int64, epoch int16, seq int32, values ...string) []byte {
	return batch(record.Options{Idempotent: true, ProducerID: pid, Epoch: epoch, BaseSequence: seq}, values...)
}

// Produce.

func produceRequest(version, acks int16, topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, int32(patience.Milliseconds())
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

type produced = kmsg.ProduceResponseTopicPartition

// produce sends one batch with acks -1 at v9 and returns its partition's answer.
func (c *client) produce(topic string, partition int32, records []byte) produced {
	c.t.Helper()
	return c.produceAt(9, -1, topic, partition, records)
}

func (c *client) produceAt(version, acks int16, topic string, partition int32, records []byte) produced {
	c.t.Helper()
	return onlyProduced(c.t, do[*kmsg.ProduceResponse](c, produceRequest(version, acks, topic, partition, records)))
}

func onlyProduced(t testing.TB, resp *kmsg.ProduceResponse) produced {
	t.Helper()
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("an answer for one partition is wanted: %+v", resp)
	}
	return resp.Topics[0].Partitions[0]
}

// mustProduce produces and returns the base offset.
func (c *client) mustProduce(topic string, partition int32, records []byte) int64 {
	c.t.Helper()
	p := c.produce(topic, partition, records)
	if p.ErrorCode != 0 {
		c.t.Fatalf("produce: %s: %v", protocol.Code(p.ErrorCode).Name(), text(p.ErrorMessage))
	}
	return p.BaseOffset
}

func text(s *string) string {
	if s == nil {
		return "<null>"
	}
	return *s
}

// Fetch.

type fetched = kmsg.FetchResponseTopicPartition

// fetchRequest asks one partition by name (v12) for whatever there is at once.
func fetchRequest(version int16, topic string, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = version, 0, 1, 1<<30
	req.SessionEpoch = -1
	addFetch(req, topic, [16]byte{}, partition, offset)
	return req
}

func addFetch(req *kmsg.FetchRequest, topic string, id [16]byte, partition int32, offset int64) *kmsg.FetchRequestTopicPartition {
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = partition, offset, 1<<30, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return &req.Topics[len(req.Topics)-1].Partitions[0]
}

func onlyFetched(t testing.TB, resp *kmsg.FetchResponse) fetched {
	t.Helper()
	wantCode(t, resp.ErrorCode, protocol.None)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("an answer for one partition is wanted: %+v", resp)
	}
	return resp.Topics[0].Partitions[0]
}

func (c *client) fetch(topic string, partition int32, offset int64) fetched {
	c.t.Helper()
	return onlyFetched(c.t, do[*kmsg.FetchResponse](c, fetchRequest(12, topic, partition, offset)))
}

// values returns the records of whole batches as "offset:value".
func values(t testing.TB, records []byte) []string {
	t.Helper()
	var all []string
	for len(records) > 0 {
		b, rest, err := record.Frame(records)
		if err != nil {
			t.Fatalf("fetched records: %v", err)
		}
		if err := b.Check(); err != nil {
			t.Fatalf("fetched batch: %v", err)
		}
		if err := b.Records(func(r *record.Record) error {
			all = append(all, fmt.Sprintf("%d:%s", b.BaseOffset()+int64(r.OffsetDelta), r.Value))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		records = rest
	}
	return all
}

// readAll fetches a partition from the start to the high watermark.
func (c *client) readAll(topic string, partition int32) []string {
	c.t.Helper()
	var all []string
	for offset := int64(0); ; {
		p := c.fetch(topic, partition, offset)
		wantCode(c.t, p.ErrorCode, protocol.None)
		got := values(c.t, p.RecordBatches)
		all = append(all, got...)
		if len(got) == 0 {
			if offset != p.HighWatermark {
				c.t.Fatalf("nothing at %d though the high watermark is %d", offset, p.HighWatermark)
			}
			return all
		}
		if _, err := fmt.Sscanf(got[len(got)-1], "%d:", &offset); err != nil {
			c.t.Fatal(err)
		}
		offset++
	}
}

func wantValues(t testing.TB, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("records %v, want %v", got, want)
	}
}

// restart stops the broker cleanly and starts another on the same files.
func (n *node) restart(settings ...string) *node {
	n.t.Helper()
	n.close()
	return startOn(n.t, n.fs, settings...)
}

// startFaulty runs a broker on an in-memory file system whose operations can be made to fail or wait.
func startFaulty(t testing.TB, settings ...string) (*node, *vfs.Fault) {
	t.Helper()
	f := vfs.NewFault(vfs.NewMem(1))
	return startOn(t, f, settings...), f
}
