package fuzz

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/broker"
	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/logtest"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// corruptionPatience is how long a test waits for something that must happen; nothing is measured by it.
const corruptionPatience = 60 * time.Second

// sampleEpochMs is when the sample directory was written, by the broker's clock and by that of the producers.
const sampleEpochMs = 1_750_000_000_000

// sampleNode is a broker that serves a sample directory through its own port.
type sampleNode struct {
	b      *broker.Broker
	now    *atomic.Int64
	logs   *logtest.Buffer
	served chan error
	conn   net.Conn
	form   *kmsg.RequestFormatter
	corr   int32
}

// sampleSettings keep the files small: what is tried is every byte of them.
var sampleSettings = []string{
	"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=/data", "log.index.size.max.bytes=4096", "log.index.interval.bytes=400", "network.loops=1",
	"append.workers=1", "metadata.log.max.record.bytes.between.snapshots=500", "network.driver=net",
}

func sampleConfig(settings ...string) (*config.Set, error) {
	set := config.NewSet()
	for _, kv := range append(slices.Clone(sampleSettings), settings...) {
		k, v, _ := strings.Cut(kv, "=")
		if err := set.Override(k, v, config.Flag); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// startSample starts a broker on the directory; its clock stands at nowMs. The error is a refused start.
func startSample(fsys vfs.FS, nowMs int64, settings ...string) (*sampleNode, error) {
	set, err := sampleConfig(settings...)
	if err != nil {
		return nil, err
	}
	n := &sampleNode{now: new(atomic.Int64), logs: new(logtest.Buffer), served: make(chan error, 1), form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("sample"))}
	n.now.Store(nowMs)
	logger := slog.New(slog.NewTextHandler(n.logs, &slog.HandlerOptions{Level: slog.LevelInfo}))
	n.b, err = broker.New(broker.Options{Config: set, FS: fsys, Logger: logger, Now: n.now.Load})
	if err != nil {
		return n, err
	}
	go func() { n.served <- n.b.Serve() }()
	n.conn, err = net.Dial("tcp", n.b.Addrs()[0].String())
	if err != nil {
		n.close()
	}
	return n, err
}

// close stops the broker and returns what its clean stop said.
func (n *sampleNode) close() error {
	if n.conn != nil {
		n.conn.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), corruptionPatience)
	defer cancel()
	err := n.b.Close(ctx)
	<-n.served
	return err
}

// ask sends a request and reads its answer.
func (n *sampleNode) ask(req kmsg.Request) (kmsg.Response, error) {
	n.corr++
	_ = n.conn.SetDeadline(time.Now().Add(corruptionPatience))
	if _, err := n.conn.Write(n.form.AppendRequest(nil, req, n.corr)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(n.conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(n.conn, body); err != nil {
		return nil, err
	}
	body = body[4:]
	if req.IsFlexible() {
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, resp.ReadFrom(body)
}

func (n *sampleNode) createTopic(topic string, configs ...string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, int32(corruptionPatience.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, 1
	for _, kv := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		k, v, _ := strings.Cut(kv, "=")
		c.Name, c.Value = k, &v
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	resp, err := n.ask(req)
	if err != nil {
		return err
	}
	return codeError(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
}

func codeError(code int16) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("the broker answers %s", protocol.Code(code).Name())
}

// produce appends one batch with acks=all.
func (n *sampleNode) produce(topic string, batch []byte) (int64, protocol.Code, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, int32(corruptionPatience.Milliseconds())
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := n.ask(req)
	if err != nil {
		return 0, 0, err
	}
	a := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return a.BaseOffset, protocol.Code(a.ErrorCode), nil
}

// fetch reads partition 0 at an offset, whatever is there at once.
func (n *sampleNode) fetch(topic string, offset int64) (*kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, 1, 1<<30, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = offset, 1<<30, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := n.ask(req)
	if err != nil {
		return nil, err
	}
	r := resp.(*kmsg.FetchResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("an answer for one partition is wanted: %+v", r)
	}
	return &r.Topics[0].Partitions[0], nil
}

// sampleBatch is what is in the log of a sample partition.
type sampleBatch struct {
	base, next int64
	data       []byte
	segment    string // file
	pos        int64
}

// end is the position behind the batch.
func (b *sampleBatch) end() int64 { return b.pos + int64(len(b.data)) }

// sample is a data directory and what is in it.
type sample struct {
	disk    *vfs.Mem
	clean   bool
	nowMs   int64
	files   []string
	content map[string][]byte
	topics  map[string][]sampleBatch
	// promised is, by topic, the offset below which the checkpoint files say that everything was on stable storage.
	promised map[string]int64
}

const (
	sampleDir   = "/data"
	reserveFile = ".reserve"
)

// makeSample writes a directory through a broker: three topics of several segments (plain, compressed, idempotent), metadata with a snapshot, two
// sessions so that the leader epochs have two entries. clean tells how the second session ends: by a stop, or by a cut of the power
// that keeps everything. Between the two, the checkpoints of the first session count.
func makeSample(t testing.TB, clean bool) *sample {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &sample{topics: map[string][]sampleBatch{}, clean: clean, promised: map[string]int64{}}
	var clock atomic.Int64 // of the disk, too, which the broker's goroutines use
	clock.Store(sampleEpochMs)
	disk := vfs.NewMem(7)
	disk.SetNow(func() time.Time { return time.UnixMilli(clock.Load()) })
	topics := []string{"plain", "zip", "once"}
	seq := map[string]int32{}
	for session := range 2 {
		n, err := startSample(disk, clock.Load(), "replica.high.watermark.checkpoint.interval.ms=86400000")
		must(err)
		if session == 0 {
			for _, topic := range topics {
				must(n.createTopic(topic, "segment.ms=60000", "retention.ms=-1"))
			}
		}
		for round := range 2 + session {
			for i := range 6 {
				for k, topic := range topics {
					o := record.Options{}
					switch topic {
					case "zip":
						o.Codec = []record.Codec{record.Zstd, record.LZ4, record.Snappy, record.Gzip}[i%4]
					case "once":
						o.Idempotent, o.ProducerID, o.Epoch, o.BaseSequence = true, 4000+int64(i%2), 0, seq[fmt.Sprint(topic, i%2)]
					}
					b := record.NewBuilder(o)
					for r := range 2 + (i+k)%3 {
						value := fmt.Sprintf("%s/%d/%d/%d/%d ", topic, session, round, i, r)
						b.Append(clock.Load()+int64(r), []byte("key"), []byte(strings.Repeat(value, 4+i)), nil)
						seq[fmt.Sprint(topic, i%2)]++
					}
					_, code, err := n.produce(topic, b.Bytes())
					must(err)
					must(codeError(int16(code)))
				}
				clock.Add(1000)
			}
			n.now.Store(clock.Add(120_000)) // the next append rolls
		}
		s.topics = map[string][]sampleBatch{}
		for _, topic := range topics {
			s.topics[topic] = readSample(t, n, topic)
		}
		if session == 0 {
			must(n.close())
			for topic, list := range s.topics {
				s.promised[topic] = list[len(list)-1].next
			}
			continue
		}
		if clean {
			must(n.close())
			for topic, list := range s.topics {
				s.promised[topic] = list[len(list)-1].next
			}
		}
		s.disk = disk.Crash(vfs.KeepAll)
		if !clean {
			_ = n.close()
		}
	}
	s.nowMs = clock.Load()
	s.content = map[string][]byte{}
	s.load(t, sampleDir)
	s.place(t)
	return s
}

// readSample reads all batches of a topic.
func readSample(t testing.TB, n *sampleNode, topic string) (list []sampleBatch) {
	t.Helper()
	for offset := int64(0); ; {
		p, err := n.fetch(topic, offset)
		if err == nil {
			err = codeError(p.ErrorCode)
		}
		if err != nil {
			t.Fatal(err)
		}
		if offset == p.HighWatermark {
			return list
		}
		if _, err := record.Walk(p.RecordBatches, func(_ int, b record.Batch) error {
			list = append(list, sampleBatch{base: b.BaseOffset(), next: b.NextOffset(), data: bytes.Clone(b)})
			offset = b.NextOffset()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// load keeps the content of every file.
func (s *sample) load(t testing.TB, dir string) {
	t.Helper()
	entries, err := s.disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name)
		if e.IsDir {
			s.load(t, name)
			continue
		}
		if e.Name == reserveFile { // nobody reads it
			continue
		}
		s.files = append(s.files, name)
		s.content[name] = readAll(t, s.disk, name)
	}
}

func readAll(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name, 1<<26)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// place finds each batch in its file.
func (s *sample) place(t testing.TB) {
	t.Helper()
	for topic, list := range s.topics {
		var logs []string
		for _, name := range s.files {
			if filepath.Dir(name) == filepath.Join(sampleDir, topic+"-0") && strings.HasSuffix(name, ".log") {
				logs = append(logs, name)
			}
		}
		slices.SortFunc(logs, cmp.Compare[string])
		if len(logs) < 4 {
			t.Fatalf("%s has %d segments, want several", topic, len(logs))
		}
		for i := range list {
			b := &list[i]
			for _, name := range logs {
				if at := bytes.Index(s.content[name], b.data); at >= 0 {
					b.segment, b.pos = name, int64(at)
				}
			}
			if b.segment == "" {
				t.Fatalf("%s: batch %d is in no file", topic, b.base)
			}
		}
	}
}

// copy returns a fresh copy of the disk.
func (s *sample) copy() *vfs.Mem {
	m := s.disk.Crash(vfs.KeepAll)
	m.SetNow(func() time.Time { return time.UnixMilli(s.nowMs) })
	return m
}

// damage is one thing done to one file.
type damage struct {
	what string
	file string
	do   func(fsys vfs.FS) error
	// At which byte of the file it begins; -1 when it is the whole file.
	pos int64
}

func flipByte(name string, pos int64, mask byte) damage {
	return damage{fmt.Sprintf("flip %#02x", mask), name, func(fsys vfs.FS) error {
		f, err := fsys.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		var b [1]byte
		if _, err := f.ReadAt(b[:], pos); err != nil && err != io.EOF {
			return err
		}
		b[0] ^= mask
		_, err = f.WriteAt(b[:], pos)
		return err
	}, pos}
}

func cutFile(name string, size int64) damage {
	return damage{"cut", name, func(fsys vfs.FS) error {
		f, err := fsys.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Truncate(size)
	}, size}
}

func removeFile(name string) damage {
	return damage{"missing", name, func(fsys vfs.FS) error { return fsys.Remove(name) }, -1}
}

func overwrite(what, name string, pos int64, data []byte) damage {
	return damage{what, name, func(fsys vfs.FS) error {
		f, err := fsys.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt(data, pos)
		return err
	}, pos}
}
