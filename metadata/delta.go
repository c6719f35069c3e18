package metadata

// Delta is what changed between two images.
type Delta struct {
	Created []*Topic      // did not exist before; a recreated topic is in Removed (old id) and here (new id)
	Changed []TopicChange // existed before, still exists
	Removed []*Topic      // as they were

	Brokers       []int32  // ids of brokers registered, fenced or unfenced
	BrokerConfigs []string // resource names ("" = default) whose configs changed
	GroupConfigs  []string // ids of groups whose configs changed
	Features      bool
}

// TopicChange is one changed topic.
type TopicChange struct {
	Prev, Next *Topic
	Partitions []int32 // numbers of changed and new partitions, ascending
	Config     bool    // Prev.Config and Next.Config differ
}

// Empty says that nothing changed that anyone outside could see.
func (d *Delta) Empty() bool {
	return len(d.Created) == 0 && len(d.Changed) == 0 && len(d.Removed) == 0 && len(d.Brokers) == 0 &&
		len(d.BrokerConfigs) == 0 && len(d.GroupConfigs) == 0 && !d.Features
}
