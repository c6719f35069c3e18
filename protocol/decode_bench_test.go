package protocol

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func fetchBody(partitions int) []byte {
	k := kmsg.NewPtrFetchRequest()
	k.Version = 17
	topic := kmsg.NewFetchRequestTopic()
	for i := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = int32(i)
		topic.Partitions = append(topic.Partitions, p)
	}
	k.Topics = append(k.Topics, topic)
	return k.AppendTo(nil)
}

func BenchmarkDecodeFetch(b *testing.B) {
	for _, n := range []int{1, 30, 100, 1000} {
		body := fetchBody(n)
		h := Header{Key: KeyFetch, Version: 17}
		b.Run(fmt.Sprintf("%d/new", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(h, body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%d/reused", n), func(b *testing.B) {
			b.ReportAllocs()
			req := kmsg.NewPtrFetchRequest()
			for b.Loop() {
				if err := DecodeInto(h, body, req); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%d/measure", n), func(b *testing.B) {
			l := layoutOf(KeyFetch)
			for b.Loop() {
				l.measure(17, body, 1<<30)
			}
		})
	}
}

func BenchmarkDecodeProduceKmsg100(b *testing.B) {
	k := kmsg.NewPtrProduceRequest()
	k.Version = 12
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "topic"
	for i := range 100 {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), make([]byte, 16384)
		topic.Partitions = append(topic.Partitions, p)
	}
	k.Topics = append(k.Topics, topic)
	body := k.AppendTo(nil)
	req := kmsg.NewPtrProduceRequest()
	req.Version = 12
	b.ReportAllocs()
	for b.Loop() {
		if req.ReadFrom(body) != nil {
			b.Fatal("not read")
		}
	}
}
