package coordinator

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/record"
)

// A million committed offsets, as a large cluster has them in all, in one partition: from the bytes of the log to the first answer.
// In batches of one client's commit, 10 partitions. The log is in memory.
func BenchmarkLoadOffsets(b *testing.B) {
	const groups, partitions, perCommit = 1000, 1000, 10
	log := new(chunks)
	for first := 0; first < partitions; first += perCommit {
		for g := range groups {
			log.commit(fmt.Sprintf("group-%d", g), first, perCommit)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		r := New(Options[*group.Shard]{Topic: "t", Now: func() int64 { return 1 }, MaxBatchBytes: func(int32) int { return 1 << 20 }, New: newOffsets})
		r.Start(0, 1, func() Log { return log })
		r.loads.Wait()
		answer := make(chan *kmsg.OffsetFetchResponseGroup, 1)
		ask := kmsg.NewOffsetFetchRequestGroup()
		ask.Group = "group-7"
		r.Do(0, Input[*group.Shard]{
			Run: func(s *group.Shard, now int64, out *machine.Out) {
				s.Fetch(now, &ask, group.NewBudget(1<<20), fetched(answer), out)
			},
			Refuse: func(err error) { b.Error(err); close(answer) },
		})
		if a := <-answer; a == nil || len(a.Topics) != 1 || len(a.Topics[0].Partitions) != partitions {
			b.Fatalf("the group has %+v", a)
		}
		r.Close()
	}
	b.ReportMetric(float64(groups*partitions), "records/op")
	b.ReportMetric(float64(log.bytes)/1e6, "MB/op")
}

type fetched chan *kmsg.OffsetFetchResponseGroup

func (f fetched) Answer(body any) { f <- body.(*kmsg.OffsetFetchResponseGroup) }

func newOffsets(int32) *group.Shard {
	return group.New(group.Options{
		Config: func() *group.Config {
			return &group.Config{OffsetsRetentionMs: 1 << 40, OffsetsCheckIntervalMs: 600_000}
		},
		ConsumerConfig: func(string) *group.ConsumerConfig { return new(group.ConsumerConfig) },
		Topics:         func() group.ConsumerTopics { return oneTopic{} },
		NewID:          func() string { return "id" },
	})
}

// oneTopic is a cluster with the topic a-topic.
type oneTopic struct{}

func (oneTopic) TopicID(name string) ([16]byte, bool) { return [16]byte{1}, name == "a-topic" }
func (oneTopic) TopicName(id [16]byte) (string, bool) { return "a-topic", id == [16]byte{1} }
func (oneTopic) Topic(string) ([16]byte, int32, bool) { return [16]byte{1}, 1000, true }
func (oneTopic) Each(visit func(string))              { visit("a-topic") }
func (oneTopic) Version() int64                       { return 1 }

// chunks is a Log that is read in pieces of readBytes, each of whole batches.
type chunks struct {
	list  [][]byte
	first []int64 // offset of each
	end   int64
	bytes int
	batch *record.Builder
}

// commit adds the batch of an OffsetCommit.
func (l *chunks) commit(group string, first, partitions int) {
	if l.batch == nil {
		l.batch = record.NewBuilder(record.Options{})
	}
	l.batch.Reset(record.Options{})
	for p := first; p < first+partitions; p++ {
		v := kmsg.OffsetCommitValue{Version: 4, Offset: 1234, LeaderEpoch: 1, CommitTimestamp: 1, TopicID: [16]byte{1}}
		key := kmsg.OffsetCommitKey{Version: 1, Group: group, Topic: "a-topic", Partition: int32(p)}
		l.batch.Append(1, key.AppendTo(nil), v.AppendTo(nil), nil)
	}
	b := record.Batch(l.batch.Build(nil))
	b.SetBaseOffset(l.end)
	if n := len(l.list); n == 0 || len(l.list[n-1])+len(b) > readBytes {
		l.list, l.first = append(l.list, nil), append(l.first, l.end)
	}
	n := len(l.list) - 1
	l.list[n] = append(l.list[n], b...)
	l.end += int64(partitions)
	l.bytes += len(b)
}

func (l *chunks) Bounds() (int64, int64) { return 0, l.end }

func (l *chunks) Read(offset int64) ([]byte, error) {
	for i, first := range l.first {
		if first == offset {
			return l.list[i], nil
		}
	}
	return nil, fmt.Errorf("no batch begins at %d", offset)
}

func (*chunks) AwaitCommitted(int64, func()) bool { return false }
func (*chunks) Append([]byte, func(error))        { panic("BUG: nothing is to be written") }
