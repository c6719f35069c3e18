package differential

import "github.com/twmb/franz-go/pkg/kmsg"

// pd is the data for one partition of a Produce.
type pd struct {
	t topic
	p int32
	b []byte
}

func on(t topic, p int32, b []byte) pd { return pd{t, p, b} }

// produceOf builds a Produce; neighbours of one topic share its entry.
func produceOf(acks int16, ds ...pd) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10000
	for i, d := range ds {
		if i == 0 || ds[i-1].t != d.t {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = d.t.name, d.t.id
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = d.p, d.b
		last := &req.Topics[len(req.Topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	return req
}

// fp is one partition of a Fetch.
type fp struct {
	t         topic
	p         int32
	offset    int64
	max       int32
	epoch     int32
	lastEpoch int32
	logStart  int64
}

func from(t topic, p int32, offset int64) fp {
	return fp{t: t, p: p, offset: offset, max: 1 << 20, epoch: -1, lastEpoch: -1, logStart: -1}
}

func (f fp) limit(max int32) fp            { f.max = max; return f }
func (f fp) epochs(current, last int32) fp { f.epoch, f.lastEpoch = current, last; return f }

// fetchOf builds a Fetch outside of sessions that does not wait.
func fetchOf(fs ...fp) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 0, 1, 50<<20, -1
	for i, f := range fs {
		if i == 0 || fs[i-1].t != f.t {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = f.t.name, f.t.id
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = f.p, f.offset, f.max
		p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset = f.epoch, f.lastEpoch, f.logStart
		last := &req.Topics[len(req.Topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	return req
}

// session puts a Fetch into a session and names partitions to forget.
func session(req *kmsg.FetchRequest, id, epoch int32, forget ...fp) *kmsg.FetchRequest {
	req.SessionID, req.SessionEpoch = id, epoch
	for _, f := range forget {
		t := kmsg.NewFetchRequestForgottenTopic()
		t.Topic, t.TopicID, t.Partitions = f.t.name, f.t.id, []int32{f.p}
		req.ForgottenTopics = append(req.ForgottenTopics, t)
	}
	return req
}

func waiting(req *kmsg.FetchRequest, waitMs, minBytes int32) *kmsg.FetchRequest {
	req.MaxWaitMillis, req.MinBytes = waitMs, minBytes
	return req
}

func sized(req *kmsg.FetchRequest, maxBytes int32) *kmsg.FetchRequest {
	req.MaxBytes = maxBytes
	return req
}

func committed(req *kmsg.FetchRequest) *kmsg.FetchRequest {
	req.IsolationLevel = 1
	return req
}

// lp is one partition of a ListOffsets.
type lp struct {
	t     topic
	p     int32
	ts    int64
	epoch int32
}

func latest(t topic, p int32) lp       { return lp{t, p, -1, -1} }
func at(t topic, p int32, ts int64) lp { return lp{t, p, ts, -1} }
func (l lp) inEpoch(e int32) lp        { l.epoch = e; return l }
func listOf(ls ...lp) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.TimeoutMillis = -1, 5000
	for i, l := range ls {
		if i == 0 || ls[i-1].t != l.t {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = l.t.name
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = l.p, l.ts, l.epoch
		last := &req.Topics[len(req.Topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	return req
}

// dr is one partition of a DeleteRecords.
type dr struct {
	t      topic
	p      int32
	offset int64
}

func deleteRecordsOf(ds ...dr) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10000
	for i, d := range ds {
		if i == 0 || ds[i-1].t != d.t {
			t := kmsg.NewDeleteRecordsRequestTopic()
			t.Topic = d.t.name
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = d.p, d.offset
		last := &req.Topics[len(req.Topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	return req
}

// metadataOf asks for topics by name without creating them.
func metadataOf(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return req
}

// ct describes a topic of a CreateTopics.
type ct struct {
	name       string
	partitions int32
	rf         int16
	assignment [][]int32 // index: partition
	configs    []string  // key, value...
}

func createOf(ts ...ct) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	for _, c := range ts {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = c.name, c.partitions, c.rf
		for p, replicas := range c.assignment {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(p), replicas
			t.ReplicaAssignment = append(t.ReplicaAssignment, a)
		}
		for i := 0; i < len(c.configs); i += 2 {
			t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: c.configs[i], Value: &c.configs[i+1]})
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// describeConfigsOf asks for configs of one resource; no keys: all of them.
func describeConfigsOf(kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	return req
}

// op is one change of an IncrementalAlterConfigs; a nil value is null.
type op struct {
	key   string
	op    int8
	value *string
}

func set(key, value string) op { return op{key, 0, &value} }

func alterOf(kind kmsg.ConfigResourceType, name string, ops ...op) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, o := range ops {
		r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: o.key, Op: kmsg.IncrementalAlterConfigOp(o.op), Value: o.value})
	}
	req.Resources = append(req.Resources, r)
	return req
}
