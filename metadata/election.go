package metadata

import "slices"

// election decides who may lead a partition and what becomes of its ISR and ELR. Pure: alive says which brokers may lead.
//
// The rules (KIP-966): the ISR holds whoever has everything up to the high watermark and keeps pace. A broker that is fenced
// leaves the ISR; if that takes the ISR below min.insync.replicas, the broker goes to the ELR instead of being forgotten,
// because the high watermark cannot move without enough ISR members, so it still has everything acknowledged. A leader comes
// from the living ISR, else from the living ELR, else, only when the topic allows unclean elections, from any living
// replica, and then data may be lost.
type election struct {
	alive   func(broker int32) bool
	minISR  int
	unclean bool
}

// fence is the change of p when broker leaves; false when nothing changes.
func (e election) fence(p *Partition, broker int32) (PartitionChange, bool) {
	c := PartitionChange{Leader: NoChange}
	if !slices.Contains(p.ISR, broker) {
		return c, false
	}
	isr, elr := without(p.ISR, broker), slices.Clone(p.ELR)
	if len(isr) < e.minISR {
		elr = append(elr, broker)
	}
	c.ISR, c.ELR = isr, elr
	if p.Leader == broker {
		e.elect(p, &c)
	}
	return c, true
}

// unfence is the change of p when brokers have come back: a partition without leader gets one. Back in the ISR is who has
// caught up, which the leader says later.
func (e election) unfence(p *Partition) (PartitionChange, bool) {
	if p.Leader != -1 {
		return PartitionChange{}, false
	}
	c := PartitionChange{Leader: NoChange, ISR: slices.Clone(p.ISR), ELR: slices.Clone(p.ELR)}
	e.elect(p, &c)
	return c, c.Leader != -1
}

// elect sets c.Leader, and adapts c.ISR and c.ELR, for a partition whose ISR and ELR are those of c.
func (e election) elect(p *Partition, c *PartitionChange) {
	if id, ok := e.first(p, c.ISR); ok {
		c.Leader = id
		return
	}
	if id, ok := e.first(p, c.ELR); ok {
		c.Leader, c.ELR = id, without(c.ELR, id)
		if c.ISR = append(c.ISR, id); len(c.ISR) >= e.minISR {
			c.ELR = []int32{} // enough in-sync replicas: the high watermark moves on without the others
		}
		return
	}
	if id, ok := e.first(p, p.Replicas); ok && e.unclean {
		c.Leader, c.ISR, c.ELR = id, []int32{id}, []int32{}
		return
	}
	c.Leader = -1
}

// first is the living replica among ids that the partition prefers most.
func (e election) first(p *Partition, ids []int32) (int32, bool) {
	for _, id := range p.Replicas {
		if slices.Contains(ids, id) && e.alive(id) {
			return id, true
		}
	}
	return -1, false
}

// without returns a copy of ids, never nil, that lacks id.
func without(ids []int32, id int32) []int32 {
	rest := make([]int32, 0, len(ids))
	for _, other := range ids {
		if other != id {
			rest = append(rest, other)
		}
	}
	return rest
}
