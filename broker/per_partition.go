package broker

// perPartition gathers what a request says about partitions, one value for each: topics and partitions in the order in which they were named first.
type perPartition[V any] struct {
	topics []*topicValues[V]
	byName map[string]*topicValues[V]
}

type topicValues[V any] struct {
	name       string
	partitions []partitionValue[V]
	byIndex    map[int32]*V
}

type partitionValue[V any] struct {
	index int32
	value *V
}

// at returns the value of a partition, zero when it was not named before.
func (p *perPartition[V]) at(topic string, index int32) *V {
	if p.byName == nil {
		p.byName = map[string]*topicValues[V]{}
	}
	t := p.byName[topic]
	if t == nil {
		t = &topicValues[V]{name: topic, byIndex: map[int32]*V{}}
		p.byName[topic] = t
		p.topics = append(p.topics, t)
	}
	v := t.byIndex[index]
	if v == nil {
		v = new(V)
		t.byIndex[index] = v
		t.partitions = append(t.partitions, partitionValue[V]{index, v})
	}
	return v
}

// has tells whether a partition was named.
func (p *perPartition[V]) has(topic string, index int32) bool {
	t := p.byName[topic]
	return t != nil && t.byIndex[index] != nil
}
