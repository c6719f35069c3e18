package broker

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/protocol"
)

// DescribeLogDirs (35), versions 1-5: the log directories, their space, and the partitions in them (null topics: all). An offline directory
// answers KAFKA_STORAGE_ERROR. Paths are absolute, as Kafka's are: who asks need not know where the broker was started.

func handleDescribeLogDirs(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	wanted := logFilter(req)
	for _, dir := range b.engine.Dirs() {
		d := kmsg.NewDescribeLogDirsResponseDir()
		d.Dir, d.TotalBytes, d.UsableBytes = dir.Path, dir.Usage.Total, dir.Usage.Free
		if path, err := filepath.Abs(dir.Path); err == nil {
			d.Dir = path
		}
		if dir.Err != nil {
			d.ErrorCode, d.TotalBytes, d.UsableBytes = int16(protocol.KafkaStorageError), -1, -1
		} else {
			d.Topics = describeLogs(dir.Logs, wanted)
		}
		resp.Dirs = append(resp.Dirs, d)
	}
	return resp
}

// logFilter tells which partitions a request asks for; the metadata log is nobody's topic and never shown.
func logFilter(req *kmsg.DescribeLogDirsRequest) func(engine.TopicPartition) bool {
	if req.Topics == nil {
		return func(tp engine.TopicPartition) bool { return tp.Topic != metadataTopic }
	}
	var asked perPartition[struct{}]
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			asked.at(t.Topic, p)
		}
	}
	return func(tp engine.TopicPartition) bool {
		return tp.Topic != metadataTopic && asked.has(tp.Topic, tp.Partition)
	}
}

func describeLogs(logs []*engine.Log, wanted func(engine.TopicPartition) bool) []kmsg.DescribeLogDirsResponseDirTopic {
	logs = slices.DeleteFunc(slices.Clone(logs), func(l *engine.Log) bool { return !wanted(l.TP()) })
	slices.SortFunc(logs, func(x, y *engine.Log) int {
		if c := strings.Compare(x.TP().Topic, y.TP().Topic); c != 0 {
			return c
		}
		return int(x.TP().Partition) - int(y.TP().Partition)
	})
	var topics []kmsg.DescribeLogDirsResponseDirTopic
	for _, l := range logs {
		tp := l.TP()
		if n := len(topics); n == 0 || topics[n-1].Topic != tp.Topic {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = tp.Topic
			topics = append(topics, t)
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = tp.Partition, l.Size()
		t := &topics[len(topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return topics
}
