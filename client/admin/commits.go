package admin

import (
	"cmp"
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
)

// Versions with topic names: later ones have ids.
const (
	offsetFetchNamed  = 9
	offsetCommitNamed = 9
)

// CommittedOffsets are the offsets that a group has committed, of all topics.
func (c *Client) CommittedOffsets(ctx context.Context, group string) (all map[Partition]int64, err error) {
	err = c.atCoordinator(ctx, group, func(b Broker) error {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = group
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = group
		req.Groups = append(req.Groups, g)
		resp, err := c.ask(ctx, b.Addr, req, offsetFetchNamed)
		if err != nil {
			return err
		}
		all, err = readCommitted(resp.(*kmsg.OffsetFetchResponse), group)
		return err
	})
	return all, err
}

// readCommitted reads both forms of the answer: of one group, and of several.
func readCommitted(resp *kmsg.OffsetFetchResponse, group string) (map[Partition]int64, error) {
	all := map[Partition]int64{}
	where := "the offsets of group " + group
	put := func(topic string, p int32, offset int64, code int16) error {
		if offset >= 0 {
			all[Partition{topic, p}] = offset
		}
		return rpc.ErrorOf(code, nil, where)
	}
	err := rpc.ErrorOf(resp.ErrorCode, nil, where)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			err = cmp.Or(err, put(t.Topic, p.Partition, p.Offset, p.ErrorCode))
		}
	}
	for _, g := range resp.Groups {
		err = cmp.Or(err, rpc.ErrorOf(g.ErrorCode, nil, where))
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				err = cmp.Or(err, put(t.Topic, p.Partition, p.Offset, p.ErrorCode))
			}
		}
	}
	return all, err
}

// CommitOffsets sets committed offsets of a group that has no members. The errors of the map are those of single partitions, as the last answer has them; with one for
// the whole but without a map no answer came, and they may be set all the same.
func (c *Client) CommitOffsets(ctx context.Context, group string, offsets map[Partition]int64) (map[Partition]error, error) {
	var refused map[Partition]error
	err := c.atCoordinator(ctx, group, func(b Broker) error {
		refused = nil // of an earlier attempt
		resp, err := c.ask(ctx, b.Addr, offsetCommit(group, offsets), offsetCommitNamed)
		if err != nil {
			return err
		}
		refused, err = readCommit(resp.(*kmsg.OffsetCommitResponse), offsets)
		return err
	})
	return refused, err
}

func offsetCommit(group string, offsets map[Partition]int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	byTopic := map[string]*kmsg.OffsetCommitRequestTopic{}
	for p, offset := range offsets {
		t := byTopic[p.Topic]
		if t == nil {
			made := kmsg.NewOffsetCommitRequestTopic()
			t = &made
			t.Topic = p.Topic
			byTopic[p.Topic] = t
		}
		r := kmsg.NewOffsetCommitRequestTopicPartition()
		r.Partition, r.Offset, r.LeaderEpoch, r.Metadata = p.Index, offset, -1, new(string)
		t.Partitions = append(t.Partitions, r)
	}
	for _, t := range byTopic {
		req.Topics = append(req.Topics, *t)
	}
	return req
}

// readCommit returns what was refused; an error when nothing was done and the same request may succeed later.
func readCommit(resp *kmsg.OffsetCommitResponse, offsets map[Partition]int64) (map[Partition]error, error) {
	refused := map[Partition]error{}
	var retriable error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := rpc.ErrorOf(p.ErrorCode, nil, Partition{t.Topic, p.Partition}.String()); err != nil {
				refused[Partition{t.Topic, p.Partition}] = err
				if rpc.Retriable(err) {
					retriable = err
				}
			}
		}
	}
	if len(refused) == len(offsets) && retriable != nil {
		return refused, retriable
	}
	return refused, nil
}
