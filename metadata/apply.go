package metadata

import (
	"fmt"
	"maps"
	"slices"
)

// Apply replays records, which were written at the image's offset and the ones after it in the given leader epoch. It returns
// the next image and what changed; the receiver stays as it is. An error means that the records don't fit the image: a log
// that was written for another history.
func (i *Image) Apply(epoch int32, records []Record) (*Image, *Delta, error) {
	e := newEditor(i)
	for _, r := range records {
		if err := e.apply(r); err != nil {
			return nil, nil, fmt.Errorf("record at offset %d: %w", e.next.offset, err)
		}
	}
	e.next.epoch = max(e.next.epoch, epoch)
	image, delta := e.finish()
	return image, delta, nil
}

// editor makes the next image: it copies what changes, once, and notes what changed. Used for one commit as well as for the
// replay of a whole log, where everything is copied at most once.
type editor struct {
	next *Image // under construction

	topics     shardsEditor[string, *Topic]
	byID       shardsEditor[[16]byte, *Topic]
	normalized shardsEditor[string, string]
	groups     shardsEditor[string, map[string]string]
	drafts     map[[16]byte]*draft
	order      []*draft // drafts in order of first change
	removed    [][16]byte

	brokers      map[int32]bool  // changed
	configs      map[string]bool // changed
	groupConfigs map[string]bool // changed
	features     bool
	ownsBrokers  bool
	ownsConfigs  bool
	ownsFeatures bool
}

// draft is a topic that this editor has changed.
type draft struct {
	prev           *Topic // nil = created here
	topic          *Topic // ours to change
	ownsPartitions bool
	ownsConfig     bool
	partitions     []int32 // changed, with duplicates
	config         bool
	removed        bool
}

func newEditor(prev *Image) *editor {
	next := &Image{offset: prev.offset, epoch: prev.epoch, brokers: prev.brokers, configs: prev.configs,
		features: prev.features, producerID: prev.producerID, partitions: prev.partitions}
	return &editor{next: next, topics: prev.topics.edit(), byID: prev.byID.edit(), normalized: prev.normalized.edit(), groups: prev.groups.edit(),
		drafts: map[[16]byte]*draft{}}
}

// apply replays one record and moves the offset.
func (e *editor) apply(r Record) error {
	if err := e.change(r); err != nil {
		return err
	}
	e.next.offset++
	return nil
}

func (e *editor) change(r Record) error {
	switch r := r.(type) {
	case NoOp:
		return nil
	case FeatureLevel:
		return e.feature(r)
	case BrokerRegistration:
		return e.register(r)
	case BrokerChange:
		return e.changeBroker(r)
	case TopicRecord:
		return e.createTopic(r)
	case PartitionRecord:
		return e.createPartition(r)
	case PartitionChange:
		return e.changePartition(r)
	case RemoveTopic:
		return e.removeTopic(r)
	case ConfigRecord:
		return e.config(r)
	case ProducerIDs:
		return e.producerIDs(r)
	}
	return fmt.Errorf("a %T has no place in a log", r)
}

func (e *editor) feature(r FeatureLevel) error {
	if !e.ownsFeatures {
		e.next.features, e.ownsFeatures = cloneMap(e.next.features), true
	}
	e.features = true
	if r.Level == 0 {
		delete(e.next.features, r.Name)
	} else {
		e.next.features[r.Name] = r.Level
	}
	return nil
}

// setBroker replaces a broker's registration.
func (e *editor) setBroker(b *BrokerInfo) {
	if !e.ownsBrokers {
		e.next.brokers, e.ownsBrokers = cloneMap(e.next.brokers), true
		e.brokers = map[int32]bool{}
	}
	e.next.brokers[b.ID] = b
	e.brokers[b.ID] = true
}

func (e *editor) register(r BrokerRegistration) error {
	if r.ID < 0 {
		return fmt.Errorf("broker id %d", r.ID)
	}
	if r.Epoch < 0 {
		r.Epoch = e.next.offset
	}
	prev := e.next.brokers[r.ID]
	e.setBroker(&BrokerInfo{ID: r.ID, Epoch: r.Epoch, Incarnation: r.Incarnation, Rack: r.Rack, Listeners: r.Listeners, Fenced: r.Fenced})
	if prev != nil && prev.Incarnation != r.Incarnation {
		e.bumpLedBy(r.ID)
	}
	return nil
}

// bumpLedBy makes the leader epoch of every partition that the broker leads grow.
func (e *editor) bumpLedBy(broker int32) {
	var led []*Topic
	e.topics.each(func(_ string, t *Topic) bool {
		if slices.ContainsFunc(t.Partitions, func(p Partition) bool { return p.Leader == broker }) {
			led = append(led, t)
		}
		return true
	})
	slices.SortFunc(led, func(a, b *Topic) int { return slices.Compare(a.ID[:], b.ID[:]) })
	for _, t := range led {
		d := e.draft(t.ID)
		for n := range d.topic.Partitions {
			if d.topic.Partitions[n].Leader == broker {
				p := d.partition(int32(n))
				p.LeaderEpoch++
				p.PartitionEpoch++
			}
		}
	}
}

func (e *editor) changeBroker(r BrokerChange) error {
	prev := e.next.brokers[r.ID]
	if prev == nil || prev.Epoch != r.Epoch {
		return fmt.Errorf("broker %d is not registered with epoch %d", r.ID, r.Epoch)
	}
	b := *prev
	b.Fenced = r.Fenced
	e.setBroker(&b)
	return nil
}

// draft returns the editor's own copy of a topic; nil when there is no such topic.
func (e *editor) draft(id [16]byte) *draft {
	if d := e.drafts[id]; d != nil {
		if d.removed {
			return nil
		}
		return d
	}
	prev, ok := e.byID.get(id)
	if !ok {
		return nil
	}
	own := *prev
	return e.addDraft(&draft{prev: prev, topic: &own})
}

func (e *editor) addDraft(d *draft) *draft {
	e.drafts[d.topic.ID] = d
	e.order = append(e.order, d)
	e.topics.put(d.topic.Name, d.topic)
	e.byID.put(d.topic.ID, d.topic)
	return d
}

func (d *draft) ownPartitions() {
	if !d.ownsPartitions {
		d.topic.Partitions, d.ownsPartitions = slices.Clone(d.topic.Partitions), true
	}
}

// partition returns partition n to be changed; it must exist.
func (d *draft) partition(n int32) *Partition {
	d.ownPartitions()
	d.partitions = append(d.partitions, n)
	return &d.topic.Partitions[n]
}

func (e *editor) createTopic(r TopicRecord) error {
	if msg := nameProblem(r.Name); msg != "" {
		return fmt.Errorf("topic name: %s", msg)
	}
	if _, ok := e.topics.get(r.Name); ok {
		return fmt.Errorf("topic %s exists", r.Name)
	}
	if _, ok := e.byID.get(r.ID); ok || r.ID == ([16]byte{}) {
		return fmt.Errorf("topic id %x of %s is zero or taken", r.ID, r.Name)
	}
	e.normalized.put(normalize(r.Name), r.Name)
	e.addDraft(&draft{topic: &Topic{Name: r.Name, ID: r.ID, Internal: r.Internal}, ownsPartitions: true, ownsConfig: true})
	return nil
}

func (e *editor) createPartition(r PartitionRecord) error {
	d := e.draft(r.TopicID)
	if d == nil {
		return fmt.Errorf("no topic with id %x", r.TopicID)
	}
	if n := len(d.topic.Partitions); int(r.Partition) != n {
		return fmt.Errorf("partition %d of %s, the next one is %d", r.Partition, d.topic.Name, n)
	}
	p := Partition{Replicas: r.Replicas, ISR: r.ISR, ELR: r.ELR, Leader: r.Leader, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch}
	if err := p.check(); err != nil {
		return fmt.Errorf("partition %d of %s: %w", r.Partition, d.topic.Name, err)
	}
	d.ownPartitions()
	d.topic.Partitions = append(d.topic.Partitions, p)
	d.partitions = append(d.partitions, r.Partition)
	e.next.partitions++
	return nil
}

func (e *editor) changePartition(r PartitionChange) error {
	d := e.draft(r.TopicID)
	if d == nil {
		return fmt.Errorf("no topic with id %x", r.TopicID)
	}
	if r.Partition < 0 || int(r.Partition) >= len(d.topic.Partitions) {
		return fmt.Errorf("%s has no partition %d", d.topic.Name, r.Partition)
	}
	next := d.topic.Partitions[r.Partition].with(r)
	if err := next.check(); err != nil {
		return fmt.Errorf("partition %d of %s: %w", r.Partition, d.topic.Name, err)
	}
	*d.partition(r.Partition) = next
	return nil
}

// with is the partition after the change r.
func (p Partition) with(r PartitionChange) Partition {
	p.PartitionEpoch++
	if r.Replicas != nil {
		p.Replicas = r.Replicas
	}
	if r.ISR != nil {
		p.ISR = r.ISR
	}
	if r.ELR != nil {
		p.ELR = r.ELR
	}
	if r.Leader != NoChange {
		p.Leader = r.Leader
		p.LeaderEpoch++
	}
	return p
}

// check says how the partition breaks its invariants.
func (p *Partition) check() error {
	for n, id := range p.Replicas {
		if id < 0 || slices.Contains(p.Replicas[:n], id) {
			return fmt.Errorf("replicas %v", p.Replicas)
		}
	}
	held := slices.Concat(p.ISR, p.ELR)
	for n, id := range held {
		if !slices.Contains(p.Replicas, id) || slices.Contains(held[:n], id) {
			return fmt.Errorf("isr %v and elr %v of replicas %v", p.ISR, p.ELR, p.Replicas)
		}
	}
	switch {
	case len(p.Replicas) == 0:
		return fmt.Errorf("no replicas")
	case p.Leader != -1 && !slices.Contains(p.ISR, p.Leader):
		return fmt.Errorf("leader %d is not in isr %v", p.Leader, p.ISR)
	case p.LeaderEpoch < 0 || p.PartitionEpoch < 0:
		return fmt.Errorf("leader epoch %d, partition epoch %d", p.LeaderEpoch, p.PartitionEpoch)
	}
	return nil
}

func (e *editor) removeTopic(r RemoveTopic) error {
	d := e.draft(r.ID)
	if d == nil {
		return fmt.Errorf("no topic with id %x", r.ID)
	}
	d.removed = true
	e.removed = append(e.removed, r.ID)
	e.topics.remove(d.topic.Name)
	e.byID.remove(r.ID)
	if name, ok := e.normalized.get(normalize(d.topic.Name)); ok && name == d.topic.Name {
		e.normalized.remove(normalize(name))
	}
	e.next.partitions -= len(d.topic.Partitions)
	return nil
}

func (e *editor) config(r ConfigRecord) error {
	switch r.Resource {
	case TopicResource:
		return e.topicConfig(r)
	case BrokerResource:
		e.brokerConfig(r)
		return nil
	case GroupResource:
		e.groupConfig(r)
		return nil
	}
	return fmt.Errorf("configs of resource type %d: %w", r.Resource, errNewer)
}

func (e *editor) topicConfig(r ConfigRecord) error {
	t, ok := e.topics.get(r.Name)
	if !ok {
		return fmt.Errorf("config %s of topic %s, which does not exist", r.Key, r.Name)
	}
	d := e.draft(t.ID)
	if !d.ownsConfig {
		d.topic.Config, d.ownsConfig = maps.Clone(d.topic.Config), true
	}
	d.topic.Config = setConfig(d.topic.Config, r)
	d.config = true
	return nil
}

func (e *editor) brokerConfig(r ConfigRecord) {
	if !e.ownsConfigs {
		e.next.configs, e.ownsConfigs = cloneMap(e.next.configs), true
		e.configs = map[string]bool{}
	}
	own := e.next.configs[r.Name]
	if !e.configs[r.Name] {
		own = maps.Clone(own)
	}
	e.configs[r.Name] = true
	if own = setConfig(own, r); own == nil {
		delete(e.next.configs, r.Name)
	} else {
		e.next.configs[r.Name] = own
	}
}

func (e *editor) groupConfig(r ConfigRecord) {
	if e.groupConfigs == nil {
		e.groupConfigs = map[string]bool{}
	}
	own, _ := e.groups.get(r.Name)
	if !e.groupConfigs[r.Name] {
		own = maps.Clone(own)
	}
	e.groupConfigs[r.Name] = true
	if own = setConfig(own, r); own == nil {
		e.groups.remove(r.Name)
	} else {
		e.groups.put(r.Name, own)
	}
}

// setConfig changes m, which is the caller's; an empty map becomes nil.
func setConfig(m map[string]string, r ConfigRecord) map[string]string {
	if !r.Delete {
		if m == nil {
			m = map[string]string{}
		}
		m[r.Key] = r.Value
		return m
	}
	if delete(m, r.Key); len(m) == 0 {
		return nil
	}
	return m
}

func (e *editor) producerIDs(r ProducerIDs) error {
	if r.Next < e.next.producerID {
		return fmt.Errorf("next producer id %d is below %d: ids would be given twice", r.Next, e.next.producerID)
	}
	e.next.producerID = r.Next
	return nil
}

// finish returns the image and the delta; the editor is spent.
func (e *editor) finish() (*Image, *Delta) {
	e.next.topics, e.next.byID, e.next.normalized = e.topics.freeze(), e.byID.freeze(), e.normalized.freeze()
	e.next.groups = e.groups.freeze()
	d := &Delta{Features: e.features, Brokers: sortedKeys(e.brokers), BrokerConfigs: sortedKeys(e.configs), GroupConfigs: sortedKeys(e.groupConfigs)}
	for _, t := range e.order {
		t.addTo(d)
	}
	return e.next, d
}

func (t *draft) addTo(d *Delta) {
	switch {
	case t.prev == nil && t.removed: // nobody saw it
	case t.prev == nil:
		d.Created = append(d.Created, t.topic)
	case t.removed:
		d.Removed = append(d.Removed, t.prev)
	default:
		slices.Sort(t.partitions)
		d.Changed = append(d.Changed, TopicChange{Prev: t.prev, Next: t.topic, Partitions: slices.Compact(t.partitions), Config: t.config})
	}
}

// cloneMap is maps.Clone that never returns nil.
func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

func sortedKeys[K int32 | string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func sortedNames[V any](m map[string]V) []string { return sortedKeys(m) }
