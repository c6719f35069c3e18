//go:build linux

package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// frameOf is the bytes of a request, its size first, and where its correlation id is.
func frameOf(req kmsg.Request) (frame []byte, corrAt int) {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 0), 8
}

// call sends one request over a connection of its own and reads the answer.
func call(addr string, req kmsg.Request) (kmsg.Response, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	frame, _ := frameOf(req)
	if _, err := conn.Write(frame); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	return parse(req, answer)
}

// parse reads an answer without its size.
func parse(req kmsg.Request, answer []byte) (kmsg.Response, error) {
	body := answer[4:]
	if req.IsFlexible() {
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, resp.ReadFrom(body)
}

func createTopic(addr, topic string, partitions int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	req.Topics = append(req.Topics, t)
	resp, err := call(addr, req)
	if err != nil {
		return err
	}
	if code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		return fmt.Errorf("topic %s cannot be created: code %d", topic, code)
	}
	return nil
}

func mustCreate(b testing.TB, addr, topic string, partitions int32) {
	b.Helper()
	if err := createTopic(addr, topic, partitions); err != nil {
		b.Fatal(err)
	}
}

// produceRequest is version 12 with acks=all.
func produceRequest(topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 12, -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// produceAnswer says where things are in the answer to a produceRequest, which always has the same length.
type produceAnswer struct{ size, codeAt, offsetAt int }

func newProduceAnswer(topic string) produceAnswer {
	req := produceRequest(topic, 0, nil)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	resp.Version = req.Version
	t := kmsg.NewProduceResponseTopic()
	t.Topic = topic
	p := kmsg.NewProduceResponseTopicPartition()
	p.ErrorCode, p.BaseOffset = 0x1122, 0x1122334455667788
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	b := resp.AppendTo(make([]byte, answerHead+1)) // size, correlation id, tags
	offsetAt := bytes.Index(b, []byte{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88})
	return produceAnswer{size: len(b), codeAt: offsetAt - 2, offsetAt: offsetAt}
}

// fetchRequest is version 12 for one partition, without a session.
func fetchRequest(topic string, partition int32, offset int64, maxBytes int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, 500, 1, maxBytes, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = partition, offset, maxBytes, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// offsetInFetch finds the fetch offset in the frame of a fetchRequest.
func offsetInFetch(topic string, partition, maxBytes int32) (frame []byte, corrAt, offsetAt int) {
	frame, corrAt = frameOf(fetchRequest(topic, partition, 0x1122334455667788, maxBytes))
	return frame, corrAt, bytes.Index(frame, []byte{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88})
}
