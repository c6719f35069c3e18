package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// DeleteRecords deletes the records of partitions below an offset; Latest is everything there is. It tells, for each, the first offset that is left. It asks once: some partitions may
// be done when others are not.
func (c *Client) DeleteRecords(ctx context.Context, below map[Partition]int64) (map[Partition]Offset, error) {
	all := make(map[Partition]Offset, len(below))
	leaders, err := c.leaders(ctx, slices.SortedFunc(maps.Keys(below), ComparePartitions), func(p Partition, err error) { all[p] = Offset{-1, err} })
	if err != nil {
		return nil, err
	}
	for addr, ps := range leaders {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = timeoutOf(ctx)
		for name, ofTopic := range byTopic(ps) {
			t := kmsg.NewDeleteRecordsRequestTopic()
			t.Topic = name
			for _, p := range ofTopic {
				q := kmsg.NewDeleteRecordsRequestTopicPartition()
				q.Partition, q.Offset = p.Index, below[p]
				t.Partitions = append(t.Partitions, q)
			}
			req.Topics = append(req.Topics, t)
		}
		resp, err := c.ask(ctx, addr, req, -1)
		for _, p := range ps {
			all[p] = Offset{-1, err}
			if err == nil {
				all[p] = Offset{-1, fmt.Errorf("%s did not answer for %s", addr, p)}
			}
		}
		if err != nil {
			continue
		}
		for _, t := range resp.(*kmsg.DeleteRecordsResponse).Topics {
			for i := range t.Partitions {
				a := &t.Partitions[i]
				p := Partition{t.Topic, a.Partition}
				if _, asked := below[p]; !asked {
					continue
				}
				all[p] = Offset{a.LowWatermark, rpc.ErrorOf(a.ErrorCode, nil, p.String())}
			}
		}
	}
	return all, nil
}

// byTopic are the partitions of each topic.
func byTopic(all []Partition) map[string][]Partition {
	topics := map[string][]Partition{}
	for _, p := range all {
		topics[p.Topic] = append(topics[p.Topic], p)
	}
	return topics
}

// DeleteOffsets makes a group forget what it has committed for partitions, of topics that none of its members subscribes to. The errors of the map are those of single
// partitions. ErrNoGroup when there is no such group.
func (c *Client) DeleteOffsets(ctx context.Context, group string, partitions []Partition) (map[Partition]error, error) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	all := map[Partition]error{}
	for name, ofTopic := range byTopic(partitions) {
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = name
		for _, p := range ofTopic {
			q := kmsg.NewOffsetDeleteRequestTopicPartition()
			q.Partition = p.Index
			t.Partitions = append(t.Partitions, q)
			all[p] = fmt.Errorf("the coordinator of %s did not answer for %s", group, p)
		}
		req.Topics = append(req.Topics, t)
	}
	err := c.atCoordinator(ctx, group, func(b Broker) error {
		resp, err := c.ask(ctx, b.Addr, req, -1)
		if err != nil {
			return err
		}
		r := resp.(*kmsg.OffsetDeleteResponse)
		if protocol.Code(r.ErrorCode) == protocol.GroupIDNotFound {
			return ErrNoGroup
		}
		if err := rpc.ErrorOf(r.ErrorCode, nil, "group "+group); err != nil {
			return err
		}
		for _, t := range r.Topics {
			for _, a := range t.Partitions {
				p := Partition{t.Topic, a.Partition}
				if _, asked := all[p]; asked {
					all[p] = rpc.ErrorOf(a.ErrorCode, nil, p.String())
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
