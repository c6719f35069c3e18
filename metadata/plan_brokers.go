package metadata

import (
	"slices"
)

// DefaultFeatures are the feature levels a new cluster finalises: Kafka's metadata.version of 4.4, which clients show. Levels
// that switch client protocols (transaction.version and its like) are finalised by those who implement them.
func DefaultFeatures() map[string]int16 { return map[string]int16{"metadata.version": 33} }

// bootstrap is the first records of a new cluster.
func bootstrap(features map[string]int16) []Record {
	records := []Record{NoOp{}} // a log that has begun is never empty, whatever the features
	for _, name := range sortedNames(features) {
		records = append(records, FeatureLevel{Name: name, Level: features[name]})
	}
	return records
}

// registerBroker plans a registration. The same incarnation may register again, to change what it said. Who comes back after
// a restart leads what it led before, in a new leader epoch; partitions without a leader get one.
func (c *controller) registerBroker(image *Image, r Registration) ([]Record, *Error) {
	if r.ID < 0 {
		return nil, errorf(InvalidRequest, "Broker id %d is negative.", r.ID)
	}
	if r.Incarnation == ([16]byte{}) {
		return nil, errorf(InvalidRequest, "A registration needs an incarnation id.")
	}
	records := []Record{BrokerRegistration{ID: r.ID, Epoch: -1, Incarnation: r.Incarnation, Rack: r.Rack,
		Listeners: slices.Clone(r.Listeners), Fenced: r.Fenced}}
	if r.Fenced {
		return records, nil
	}
	return append(records, c.electLeaderless(image, r.ID)...), nil
}

// fenceBroker plans that a broker may not lead any more: it leaves every ISR, and what it led gets other leaders.
func (c *controller) fenceBroker(image *Image, id int32) ([]Record, *Error) {
	b := image.Broker(id)
	if b == nil {
		return nil, errorf(BrokerIDNotRegistered, "Broker %d is not registered.", id)
	}
	if b.Fenced {
		return nil, nil
	}
	records := []Record{BrokerChange{ID: id, Epoch: b.Epoch, Fenced: true}}
	alive := func(other int32) bool { return other != id && isAlive(image, other) }
	inISR := func(p *Partition) bool { return slices.Contains(p.ISR, id) }
	c.eachPartition(image, alive, inISR, func(t *Topic, n int32, e election) {
		if change, ok := e.fence(&t.Partitions[n], id); ok {
			change.TopicID, change.Partition = t.ID, n
			records = append(records, change)
		}
	})
	return records, nil
}

// unfenceBroker plans that a broker may lead again.
func (c *controller) unfenceBroker(image *Image, id int32) ([]Record, *Error) {
	b := image.Broker(id)
	if b == nil {
		return nil, errorf(BrokerIDNotRegistered, "Broker %d is not registered.", id)
	}
	if !b.Fenced {
		return nil, nil
	}
	records := []Record{BrokerChange{ID: id, Epoch: b.Epoch}}
	return append(records, c.electLeaderless(image, id)...), nil
}

// electLeaderless finds leaders for partitions without one, now that a broker has come back.
func (c *controller) electLeaderless(image *Image, back int32) []Record {
	var records []Record
	alive := func(id int32) bool { return id == back || isAlive(image, id) }
	leaderless := func(p *Partition) bool { return p.Leader == -1 }
	c.eachPartition(image, alive, leaderless, func(t *Topic, n int32, e election) {
		if change, ok := e.unfence(&t.Partitions[n]); ok {
			change.TopicID, change.Partition = t.ID, n
			records = append(records, change)
		}
	})
	return records
}

func isAlive(image *Image, id int32) bool {
	b := image.Broker(id)
	return b != nil && !b.Fenced
}

// eachPartition visits the partitions that concern the caller, in order, with the election rules of their topic.
func (c *controller) eachPartition(image *Image, alive func(int32) bool, concerns func(*Partition) bool, visit func(t *Topic, n int32, e election)) {
	for _, t := range image.Topics() {
		e := election{alive: alive}
		for n := range t.Partitions {
			if !concerns(&t.Partitions[n]) {
				continue
			}
			if e.minISR == 0 {
				e.minISR, e.unclean = c.electionRules(t)
			}
			own := e
			own.minISR = min(e.minISR, len(t.Partitions[n].Replicas)) // clipped, as Kafka does
			visit(t, int32(n), own)
		}
	}
}

// electionRules are min.insync.replicas and unclean.leader.election.enable of a topic. Overrides that became invalid with a
// new version must not stop an election.
func (c *controller) electionRules(t *Topic) (minISR int, unclean bool) {
	cfg, err := c.rules.Topic(t.Config)
	if err != nil {
		return 1, false
	}
	return max(cfg.MinInsyncReplicas, 1), cfg.UncleanLeaderElection
}

// allocateProducerIDs plans the next block of producer ids for a broker.
func (c *controller) allocateProducerIDs(image *Image, broker int32) ([]Record, ProducerIDBlock, *Error) {
	first := image.NextProducerID()
	if first > maxProducerID-ProducerIDBlockSize {
		return nil, ProducerIDBlock{}, errorf(KindUnknown, "Producer ids are used up.")
	}
	epoch := int64(-1)
	if b := image.Broker(broker); b != nil {
		epoch = b.Epoch
	}
	block := ProducerIDBlock{First: first, Count: ProducerIDBlockSize}
	return []Record{ProducerIDs{Broker: broker, BrokerEpoch: epoch, Next: first + ProducerIDBlockSize}}, block, nil
}

const maxProducerID = 1<<63 - 1
