package protocol

// ProduceRequest is a Produce request that stays in its frame: Parse checks its form once, and Partitions walks over it. Nothing is copied or
// allocated; every slice aliases the body and is good until the frame is gone.
type ProduceRequest struct {
	Version            int16
	TransactionalID    []byte
	HasTransactionalID bool
	Acks               int16
	TimeoutMs          int32
	TopicCount         int
	PartitionCount     int // over all topics
	RecordBytes        int // over all partitions

	topics []byte // from behind the length of the topic array
}

// Parse reads a body of version 3 to 13. Afterwards the whole request is known to be well formed. Errors are *MalformedError.
func (p *ProduceRequest) Parse(version int16, body []byte) error {
	if version < 3 || version > 13 {
		panic("BUG: no such version of Produce")
	}
	*p = ProduceRequest{Version: version}
	r := reader{b: body}
	id, null := r.str(p.flexible())
	p.TransactionalID, p.HasTransactionalID = id, !null
	p.Acks = r.int16()
	p.TimeoutMs = r.int32()
	p.TopicCount = max(r.arrayLen(p.flexible()), 0)
	p.topics = r.b
	it := ProducePartitions{version: version, r: r, topics: p.TopicCount}
	for it.Next() {
		p.PartitionCount++
		p.RecordBytes += len(it.Records)
	}
	if p.flexible() {
		it.r.skipTags()
	}
	if it.r.bad {
		return malformedBody(Header{Key: KeyProduce, Version: version})
	}
	return nil
}

func (p *ProduceRequest) flexible() bool { return p.Version >= 9 }

// Partitions walks over all partitions of all topics, in order of the request. A topic without partitions does not show.
func (p *ProduceRequest) Partitions() ProducePartitions {
	return ProducePartitions{version: p.Version, r: reader{b: p.topics}, topics: p.TopicCount}
}

// ProducePartitions is a walk; see ProduceRequest.Partitions. After each Next that returns true its fields describe one partition.
type ProducePartitions struct {
	Topic       []byte   // name; up to version 12
	TopicID     [16]byte // from version 13
	NewTopic    bool     // the first partition of a topic
	Partition   int32
	Records     []byte // capacity is length: appending does not write into the frame
	RecordsNull bool

	version    int16
	r          reader
	topics     int // not yet begun
	partitions int // of this topic, not yet seen
	inTopic    bool
}

// Next moves to the next partition; false at the end.
func (it *ProducePartitions) Next() bool {
	flexible := it.version >= 9
	it.NewTopic = false
	for it.partitions == 0 {
		if it.inTopic && flexible {
			it.r.skipTags()
		}
		it.inTopic = false
		if it.topics == 0 || it.r.bad {
			return false
		}
		it.topics--
		it.beginTopic(flexible)
	}
	it.partitions--
	it.Partition = it.r.int32()
	it.Records, it.RecordsNull = it.r.bytes(flexible)
	if flexible {
		it.r.skipTags()
	}
	return !it.r.bad
}

func (it *ProducePartitions) beginTopic(flexible bool) {
	if it.version >= 13 {
		copy(it.TopicID[:], it.r.span(16))
	} else {
		var null bool
		if it.Topic, null = it.r.str(flexible); null {
			it.r.fail()
		}
	}
	it.partitions = max(it.r.arrayLen(flexible), 0)
	if it.r.bad {
		it.partitions = 0
	}
	it.inTopic, it.NewTopic = true, true
}
