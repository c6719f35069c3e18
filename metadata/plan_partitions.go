package metadata

import "slices"

// createPartitions plans a CreatePartitionsRequest. The result's order is the request's.
func (c *controller) createPartitions(image *Image, r CreatePartitionsRequest) ([]Record, []TopicResult) {
	var records []Record
	results := make([]TopicResult, len(r.Topics))
	times := make(map[string]int, len(r.Topics))
	for n := range r.Topics {
		times[r.Topics[n].Topic]++
	}
	for n := range r.Topics {
		spec := &r.Topics[n]
		results[n] = TopicResult{Name: spec.Topic}
		if times[spec.Topic] > 1 {
			results[n].Err = errorf(InvalidRequest, "Duplicate topic name.")
			continue
		}
		more, err := c.grow(image, spec, recordsPerRequestMax-len(records))
		if err != nil {
			results[n].Err = err
			continue
		}
		records = append(records, more...)
		results[n].ID, results[n].Partitions = image.Topic(spec.Topic).ID, spec.Count
	}
	if r.ValidateOnly {
		return nil, results
	}
	return records, results
}

// grow is the records that give one topic spec.Count partitions, at most limit of them.
func (c *controller) grow(image *Image, spec *PartitionsSpec, limit int) ([]Record, *Error) {
	t := image.Topic(spec.Topic)
	if t == nil {
		return nil, errorf(UnknownTopic, "This server does not host this topic-partition.")
	}
	have := int32(len(t.Partitions))
	switch {
	case spec.Count == have:
		return nil, errorf(InvalidPartitions, "Topic already has %d partition(s).", have)
	case spec.Count < have:
		return nil, errorf(InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", t.Name, have, spec.Count)
	case int(spec.Count-have) > limit:
		return nil, excessive()
	}
	placement, err := c.placeMore(image, t, spec)
	if err != nil {
		return nil, err
	}
	records := make([]Record, len(placement))
	for n, replicas := range placement {
		records[n] = newPartition(image, t.ID, have+int32(n), replicas)
	}
	return records, nil
}

// placeMore is the replicas of the partitions that the topic lacks.
func (c *controller) placeMore(image *Image, t *Topic, spec *PartitionsSpec) ([][]int32, *Error) {
	more, rf := int(spec.Count)-len(t.Partitions), len(t.Partitions[0].Replicas)
	if spec.Assignment == nil {
		if err := checkReplicationFactor(image, rf); err != nil {
			return nil, err
		}
		where := newPlacer(image.Brokers(), c.rand)
		placement := make([][]int32, more)
		for n := range placement {
			placement[n] = where.place(rf)
		}
		return placement, nil
	}
	if len(spec.Assignment) != more {
		return nil, errorf(InvalidAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more, len(spec.Assignment))
	}
	placement := make([][]int32, more)
	for n, replicas := range spec.Assignment {
		if err := checkReplicas(image, replicas, rf); err != nil {
			return nil, err
		}
		placement[n] = slices.Clone(replicas)
	}
	return placement, nil
}
