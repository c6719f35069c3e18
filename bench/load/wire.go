package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/record"
)

// clientID is the name of the generator's connections.
const clientID = "leat-bench"

// Versions that the generator speaks: the last ones with topic names, in compact encoding. Kafka has had them since 2.7.
const (
	produceVersion = 9
	fetchVersion   = 12
)

const (
	answerHead = 8 // size and correlation id
	corrAt     = 8 // of the correlation id in a request's frame
	marker64   = 0x1122334455667788
	marker32   = 0x11223344
)

var (
	marker64Bytes = binary.BigEndian.AppendUint64(nil, marker64)
	marker32Bytes = binary.BigEndian.AppendUint32(nil, marker32)
)

// find is the only place of a marker in a frame.
func find(frame, marker []byte) int {
	at := bytes.Index(frame, marker)
	if at < 0 || bytes.LastIndex(frame, marker) != at {
		panic("BUG: a marker is not once in a frame")
	}
	return at
}

// frameOf is the bytes of a request, its size first.
func frameOf(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, 0)
}

// parse reads an answer, its size first.
func parse(req kmsg.Request, answer []byte) (kmsg.Response, error) {
	body := answer[answerHead:]
	if req.IsFlexible() && req.Key() != 18 { // ApiVersions answers with the old header
		if len(body) == 0 {
			return nil, fmt.Errorf("an answer of %d bytes", len(answer))
		}
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, resp.ReadFrom(body)
}

// newBatch makes a batch of n records with random values of size bytes. stampAt is where the value of its first record begins.
func newBatch(n, size int, seed uint64) (batch record.Batch, stampAt int) {
	r := rand.NewChaCha8([32]byte(binary.BigEndian.AppendUint64(make([]byte, 24, 32), seed)))
	b := record.NewBuilder(record.Options{})
	value := make([]byte, size)
	now := time.Now().UnixMilli()
	for i := range n {
		r.Read(value)
		if i == 0 && size >= 8 {
			copy(value, marker64Bytes)
		}
		b.Append(now, nil, value, nil)
	}
	batch = b.Bytes()
	if size >= 8 {
		stampAt = bytes.Index(batch, marker64Bytes)
		r.Read(batch[stampAt : stampAt+8])
		batch.UpdateCRC()
	}
	return batch, stampAt
}

func produceRequest(topic string, partition int32, acks int16, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = produceVersion, acks, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// produceFrame is the frame of a produce request and where the partition and the batch are in it.
func produceFrame(topic string, acks int16, batch []byte) (frame []byte, partitionAt, batchAt int) {
	empty := frameOf(produceRequest(topic, marker32, acks, nil)) // no marker may be in a batch
	frame = frameOf(produceRequest(topic, marker32, acks, batch))
	partitionAt = find(empty, marker32Bytes)
	return frame, partitionAt, bytes.Index(frame, batch)
}

// produceAnswer says where things are in the answer to a produceRequest that succeeded.
type produceAnswer struct{ size, partitionAt, codeAt, offsetAt int }

func newProduceAnswer(topic string) produceAnswer {
	req := produceRequest(topic, 0, -1, nil)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	resp.Version = req.Version
	t := kmsg.NewProduceResponseTopic()
	t.Topic = topic
	p := kmsg.NewProduceResponseTopicPartition()
	p.BaseOffset = marker64
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	b := resp.AppendTo(make([]byte, answerHead+1)) // one byte of tags ends the header
	at := find(b, marker64Bytes)
	return produceAnswer{size: len(b), partitionAt: at - 6, codeAt: at - 2, offsetAt: at}
}

// offset reads an answer and returns the base offset.
func (a *produceAnswer) offset(answer []byte, topic string, partition int32) (int64, error) {
	if len(answer) == a.size && int32(binary.BigEndian.Uint32(answer[a.partitionAt:])) == partition && binary.BigEndian.Uint16(answer[a.codeAt:]) == 0 {
		return int64(binary.BigEndian.Uint64(answer[a.offsetAt:])), nil
	}
	resp, err := parse(produceRequest(topic, partition, -1, nil), answer)
	if err != nil {
		return 0, fmt.Errorf("an answer to produce cannot be read: %w", err)
	}
	r := resp.(*kmsg.ProduceResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 || r.Topics[0].Partitions[0].Partition != partition {
		return 0, fmt.Errorf("the answer to produce is not for %s-%d", topic, partition)
	}
	p := &r.Topics[0].Partitions[0]
	return p.BaseOffset, rpc.ErrorOf(p.ErrorCode, nil, fmt.Sprintf("produce to %s-%d", topic, partition))
}

func fetchRequest(topic string, partition int32, offset int64, maxBytes int32, maxWait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = fetchVersion, int32(maxWait.Milliseconds()), 1, maxBytes, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = partition, offset, maxBytes, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// fetchFrame is the frame of a fetch request and where partition and offset are in it.
func fetchFrame(topic string, maxBytes int32, maxWait time.Duration) (frame []byte, partitionAt, offsetAt int) {
	frame = frameOf(fetchRequest(topic, marker32+1, marker64, maxBytes, maxWait))
	return frame, find(frame, binary.BigEndian.AppendUint32(nil, marker32+1)), find(frame, marker64Bytes)
}

// fetchHead is how many bytes of an answer to a fetch of one partition tell everything but the records.
func fetchHead(topic string) int {
	return 20 + uvarintLen(len(topic)+1) + len(topic) + 1 + 4 + 2 + 3*8 + 1 + 4 + 5
}

func uvarintLen(n int) int { return len(binary.AppendUvarint(nil, uint64(n))) }

// fetchAnswer is what the head of an answer says.
type fetchAnswer struct {
	partition     int32
	highWatermark int64
	recordsAt     int // in the answer
	recordsLen    int
}

// parseFetchHead reads the head of an answer to a fetch of one partition: throttle 4, code 2, session 4, topics, name, partitions, then index 4, code 2,
// three offsets of 8, aborted transactions (none), preferred replica 4, length of the records.
func parseFetchHead(head []byte, topic string) (a fetchAnswer, err error) {
	if len(head) < 20 {
		return a, fmt.Errorf("an answer to fetch of %d bytes", len(head))
	}
	if err := rpc.ErrorOf(int16(binary.BigEndian.Uint16(head[13:])), nil, "fetch of "+topic); err != nil {
		return a, err
	}
	at := 20 + uvarintLen(len(topic)+1) + len(topic)
	if head[19] != 2 || len(head) < at+1+4+2+24+1+4+1 || string(head[at-len(topic):at]) != topic || head[at] != 2 {
		return a, fmt.Errorf("the answer to fetch is not for one partition of %s", topic)
	}
	b := head[at+1:]
	a.partition = int32(binary.BigEndian.Uint32(b))
	if err := rpc.ErrorOf(int16(binary.BigEndian.Uint16(b[4:])), nil, "fetch of "+topic); err != nil {
		return a, err
	}
	a.highWatermark = int64(binary.BigEndian.Uint64(b[6:]))
	if b[30] > 1 {
		return a, fmt.Errorf("the answer to fetch has aborted transactions")
	}
	n, k := binary.Uvarint(b[35:])
	if k <= 0 {
		return a, fmt.Errorf("the answer to fetch has no length of records")
	}
	a.recordsAt, a.recordsLen = at+1+35+k, max(int(n)-1, 0)
	return a, nil
}
