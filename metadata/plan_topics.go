package metadata

import (
	"slices"
)

// createTopics plans a CreateTopicsRequest. The result's order is the request's.
func (c *controller) createTopics(image *Image, r CreateTopicsRequest) ([]Record, []TopicResult) {
	p := topicsPlan{controller: c, image: image, names: map[string]string{}, times: map[string]int{}}
	for _, spec := range r.Topics {
		p.times[spec.Name]++
	}
	results := make([]TopicResult, len(r.Topics))
	for n := range r.Topics {
		results[n] = p.create(&r.Topics[n])
	}
	if r.ValidateOnly {
		return nil, results
	}
	return p.records, results
}

// topicsPlan collects the records of one request.
type topicsPlan struct {
	*controller
	image   *Image
	records []Record
	times   map[string]int    // how often the request names a topic
	names   map[string]string // normalized names that this request creates
}

func (p *topicsPlan) create(spec *TopicSpec) TopicResult {
	result := TopicResult{Name: spec.Name, Partitions: -1, ReplicationFactor: -1}
	if result.Err = p.checkName(spec.Name); result.Err != nil {
		return result
	}
	overrides, err := p.configs(spec.Config)
	if err != nil {
		result.Err = err
		return result
	}
	placement, err := p.placement(spec, recordsPerRequestMax-len(p.records)-1-len(overrides))
	if err != nil {
		result.Err = err
		return result
	}
	result.ID = p.randomID(func(id [16]byte) bool { return p.image.TopicByID(id) != nil })
	result.Partitions, result.ReplicationFactor, result.Config = int32(len(placement)), int16(len(placement[0])), overrides
	p.names[normalize(spec.Name)] = spec.Name
	p.add(spec.Name, result.ID, placement, overrides)
	return result
}

// checkName is the checks on the name alone, in Kafka's order.
func (p *topicsPlan) checkName(name string) *Error {
	if p.times[name] > 1 {
		return errorf(InvalidRequest, "Duplicate topic name.")
	}
	if name == MetadataTopic {
		return errorf(InvalidRequest, "Topic '%s' belongs to the controller.", name)
	}
	if p.image.Topic(name) != nil {
		return errorf(TopicExists, "Topic '%s' already exists.", name)
	}
	if err := ValidateTopicName(name); err != nil {
		return err
	}
	other := p.image.Collision(name)
	if other == "" {
		other = p.names[normalize(name)]
	}
	if other != "" {
		return errorf(InvalidTopic, "Topic '%s' collides with existing topic '%s': they differ only in '.' and '_'.", name, other)
	}
	return nil
}

// configs are the overrides a new topic gets.
func (p *topicsPlan) configs(entries []ConfigEntry) (map[string]string, *Error) {
	if len(entries) == 0 {
		return nil, nil
	}
	overrides := make(map[string]string, len(entries))
	for _, e := range entries {
		if e.Null {
			return nil, errorf(InvalidConfig, "Null value not supported for topic config: %s", e.Name)
		}
		if err := checkLength(e.Name, e.Value); err != nil {
			return nil, err
		}
		overrides[e.Name] = e.Value
	}
	if err := p.rules.ValidateTopic(overrides); err != nil {
		return nil, errorf(InvalidConfig, "%s", err.Error())
	}
	return overrides, nil
}

// placement is the replicas of each partition of a new topic: at least one partition, and at most limit.
func (p *topicsPlan) placement(spec *TopicSpec, limit int) ([][]int32, *Error) {
	if len(spec.Assignment) > 0 {
		return manualPlacement(p.image, spec, limit)
	}
	partitions, rf, err := p.counts(spec)
	if err != nil {
		return nil, err
	}
	if err := checkReplicationFactor(p.image, rf); err != nil {
		return nil, err
	}
	if partitions > limit {
		return nil, excessive()
	}
	where := newPlacer(p.image.Brokers(), p.rand)
	placement := make([][]int32, partitions)
	for n := range placement {
		placement[n] = where.place(rf)
	}
	return placement, nil
}

// counts are the number of partitions and replicas, defaults filled in.
func (p *topicsPlan) counts(spec *TopicSpec) (partitions, rf int, err *Error) {
	switch {
	case spec.ReplicationFactor == 0 || spec.ReplicationFactor < DefaultCount:
		return 0, 0, errorf(InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case spec.Partitions == 0 || spec.Partitions < DefaultCount:
		return 0, 0, errorf(InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	partitions, rf = int(spec.Partitions), int(spec.ReplicationFactor)
	if partitions != DefaultCount && rf != DefaultCount {
		return partitions, rf, nil
	}
	broker, cause := p.rules.Broker()
	if cause != nil {
		return 0, 0, errorf(KindUnknown, "The broker's configuration is not valid: %v", cause)
	}
	if partitions == DefaultCount {
		partitions = int(broker.NumPartitions)
	}
	if rf == DefaultCount {
		rf = int(broker.DefaultReplicationFactor)
	}
	return partitions, rf, nil
}

// checkReplicationFactor says whether the brokers that are there can hold so many replicas.
func checkReplicationFactor(image *Image, rf int) *Error {
	unfenced := 0
	for _, b := range image.brokers {
		if !b.Fenced {
			unfenced++
		}
	}
	if rf > len(image.brokers) {
		return errorf(InvalidReplicationFactor, "Unable to replicate the partition %d time(s): The target replication factor of %d cannot be "+
			"reached because only %d broker(s) are registered.", rf, rf, len(image.brokers))
	}
	if unfenced == 0 {
		return errorf(InvalidReplicationFactor, "Unable to replicate the partition %d time(s): All brokers are currently fenced.", rf)
	}
	return nil
}

// manualPlacement checks an assignment and puts it in order of partition.
func manualPlacement(image *Image, spec *TopicSpec, limit int) ([][]int32, *Error) {
	if spec.ReplicationFactor != DefaultCount {
		return nil, errorf(InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if spec.Partitions != DefaultCount {
		return nil, errorf(InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	if len(spec.Assignment) > limit {
		return nil, excessive()
	}
	placement := make([][]int32, len(spec.Assignment))
	rf := len(spec.Assignment[0].Replicas)
	for _, a := range spec.Assignment {
		if a.Partition < 0 || int(a.Partition) >= len(placement) {
			return nil, errorf(InvalidAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		if placement[a.Partition] != nil {
			return nil, errorf(InvalidAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		if err := checkReplicas(image, a.Replicas, rf); err != nil {
			return nil, err
		}
		placement[a.Partition] = slices.Clone(a.Replicas)
	}
	return placement, nil
}

// checkReplicas checks one manually placed partition; rf is how many replicas its sisters have.
func checkReplicas(image *Image, replicas []int32, rf int) *Error {
	if len(replicas) == 0 {
		return errorf(InvalidAssignment, "The manual partition assignment includes an empty replica list.")
	}
	unfenced := false
	for n, id := range replicas {
		b := image.Broker(id)
		if b == nil {
			return errorf(InvalidAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
		if slices.Contains(replicas[:n], id) {
			return errorf(InvalidAssignment, "The manual partition assignment includes the broker %d more than once.", id)
		}
		unfenced = unfenced || !b.Fenced
	}
	if len(replicas) != rf {
		return errorf(InvalidAssignment, "The manual partition assignment includes a partition with %d replica(s), but this is not "+
			"consistent with previous partitions, which have %d replica(s).", len(replicas), rf)
	}
	if !unfenced {
		return errorf(InvalidAssignment, "All brokers specified in the manual partition assignment are fenced.")
	}
	return nil
}

// add notes the records of a new topic.
func (p *topicsPlan) add(name string, id [16]byte, placement [][]int32, overrides map[string]string) {
	p.records = append(p.records, TopicRecord{Name: name, ID: id, Internal: IsInternal(name)})
	for n, replicas := range placement {
		p.records = append(p.records, newPartition(p.image, id, int32(n), replicas))
	}
	for _, key := range sortedNames(overrides) {
		p.records = append(p.records, ConfigRecord{Resource: TopicResource, Name: name, Key: key, Value: overrides[key]})
	}
}

// newPartition is a partition that begins its life: every unfenced replica is in sync, for there is nothing to have.
func newPartition(image *Image, id [16]byte, n int32, replicas []int32) PartitionRecord {
	r := PartitionRecord{TopicID: id, Partition: n, Replicas: replicas, Leader: -1}
	for _, broker := range replicas {
		if !image.Broker(broker).Fenced {
			r.ISR = append(r.ISR, broker)
		}
	}
	if len(r.ISR) > 0 {
		r.Leader = r.ISR[0]
	}
	return r
}

// deleteTopics plans the removal of topics, each for itself.
func (c *controller) deleteTopics(image *Image, topics []TopicRef) ([]Record, []TopicResult) {
	if b, err := c.rules.Broker(); err == nil && !b.DeleteTopics {
		return nil, refuseAll(topics, errorf(TopicDeletionDisabled, "Topic deletion is disabled (delete.topic.enable)."))
	}
	if len(topics) > recordsPerRequestMax {
		return nil, refuseAll(topics, excessive())
	}
	var records []Record
	results := make([]TopicResult, len(topics))
	times := map[[16]byte]int{}
	for n, ref := range topics {
		results[n] = resolve(image, ref)
		if results[n].ID != ([16]byte{}) {
			times[results[n].ID]++
		}
	}
	for n := range results {
		switch r := &results[n]; {
		case r.Err != nil:
		case times[r.ID] > 1:
			r.Err = errorf(InvalidRequest, "The topic is named more than once.")
		default:
			records = append(records, RemoveTopic{ID: r.ID})
		}
	}
	return records, results
}

func refuseAll(topics []TopicRef, err *Error) []TopicResult {
	results := make([]TopicResult, len(topics))
	for n, ref := range topics {
		results[n] = TopicResult{Name: ref.Name, ID: ref.ID, Err: err}
	}
	return results
}

// resolve finds the topic of a reference.
func resolve(image *Image, ref TopicRef) TopicResult {
	r := TopicResult{Name: ref.Name, ID: ref.ID}
	byID := ref.ID != [16]byte{}
	var t *Topic
	switch {
	case byID && ref.Name != "":
		r.Err = errorf(InvalidRequest, "You may not specify both topic name and topic id.")
		return r
	case byID:
		t = image.TopicByID(ref.ID)
	default:
		t = image.Topic(ref.Name)
	}
	switch {
	case t != nil:
		r.Name, r.ID, r.Partitions = t.Name, t.ID, int32(len(t.Partitions))
	case byID && ref.ID == MetadataTopicID || ref.Name == MetadataTopic:
		r.Err = errorf(TopicAuthorizationFailed, "Topic '%s' belongs to the controller.", MetadataTopic)
	case byID:
		r.Err = errorf(UnknownTopicID, "This server does not host this topic ID.")
	default:
		r.Err = errorf(UnknownTopic, "This server does not host this topic-partition.")
	}
	return r
}
