package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// Partition is a partition of a topic.
type Partition struct {
	Topic string
	Index int32
}

func (p Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Index) }

// ComparePartitions orders partitions by topic, then number.
func ComparePartitions(a, b Partition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

// Timestamps with a meaning in Offsets.
const (
	Latest   = -1
	Earliest = -2
)

// Offset is an answer of Offsets. Offset is -1 when no record is that young.
type Offset struct {
	Offset int64
	Err    error
}

// Offsets asks once and tells, for each partition, its log end (Latest), its log start (Earliest), or the first record whose timestamp is not below a time in milliseconds.
func (c *Client) Offsets(ctx context.Context, partitions []Partition, timestamp int64) (map[Partition]Offset, error) {
	all := make(map[Partition]Offset, len(partitions))
	leaders, err := c.leaders(ctx, partitions, func(p Partition, err error) { all[p] = Offset{-1, err} })
	if err != nil {
		return nil, err
	}
	for addr, ps := range leaders {
		resp, err := c.ask(ctx, addr, listOffsets(ps, timestamp), -1)
		for _, p := range ps {
			all[p] = Offset{-1, err}
		}
		if err != nil {
			continue
		}
		for _, p := range ps {
			all[p] = Offset{-1, fmt.Errorf("%s did not answer for %s", addr, p)}
		}
		readOffsets(resp.(*kmsg.ListOffsetsResponse), all)
	}
	return all, nil
}

func listOffsets(ps []Partition, timestamp int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.TimeoutMillis = int32(rpc.DefaultTimeout.Milliseconds())
	for name, ofTopic := range byTopic(ps) {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = name
		for _, p := range ofTopic {
			r := kmsg.NewListOffsetsRequestTopicPartition()
			r.Partition, r.Timestamp, r.MaxNumOffsets = p.Index, timestamp, 1
			t.Partitions = append(t.Partitions, r)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func readOffsets(resp *kmsg.ListOffsetsResponse, all map[Partition]Offset) {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			a := &t.Partitions[j]
			p := Partition{t.Topic, a.Partition}
			if _, asked := all[p]; !asked {
				continue
			}
			o := Offset{a.Offset, rpc.ErrorOf(a.ErrorCode, nil, p.String())}
			if resp.Version == 0 {
				o.Offset = -1
				if len(a.OldStyleOffsets) > 0 {
					o.Offset = a.OldStyleOffsets[0]
				}
			}
			all[p] = o
		}
	}
}

// leaders sorts partitions by the address of their leader; those that have none, or do not exist, are told of.
func (c *Client) leaders(ctx context.Context, partitions []Partition, lost func(Partition, error)) (map[string][]Partition, error) {
	var names []string
	seen := map[string]bool{}
	for _, p := range partitions {
		if !seen[p.Topic] {
			seen[p.Topic] = true
			names = append(names, p.Topic)
		}
	}
	topics, err := c.Topics(ctx, names)
	if err != nil {
		return nil, err
	}
	byLeader := map[string][]Partition{}
	for _, p := range partitions {
		t := topics[p.Topic]
		switch {
		case t.Err != nil:
			lost(p, t.Err)
		case p.Index < 0 || int(p.Index) >= len(t.Leaders):
			lost(p, rpc.ErrorOf(int16(protocol.UnknownTopicOrPartition), nil, p.String()))
		case t.Leaders[p.Index] == "":
			lost(p, rpc.ErrorOf(int16(protocol.LeaderNotAvailable), nil, p.String()))
		default:
			byLeader[t.Leaders[p.Index]] = append(byLeader[t.Leaders[p.Index]], p)
		}
	}
	return byLeader, nil
}

// Limits of the look at single records.
const (
	peekBytes   = 1       // a broker sends the first batch whole whatever it is asked for
	peekMost    = 4 << 20 // and no more than this is looked into when compressed
	peekHops    = 8       // batches without a record at or behind the offset: compacted ones, control batches
	peekers     = 8       // at a time
	fetchNamed  = 12      // the last version of Fetch that knows topics by name
	timeUnknown = -1
)

// Times tells the timestamp, in milliseconds, of the first record at or behind an offset of each partition; partitions of which it cannot be told are left out.
func (c *Client) Times(ctx context.Context, at map[Partition]int64) (map[Partition]int64, error) {
	partitions := make([]Partition, 0, len(at))
	for p := range at {
		partitions = append(partitions, p)
	}
	leaders, err := c.leaders(ctx, partitions, func(Partition, error) {})
	if err != nil {
		return nil, err
	}
	var (
		mu    sync.Mutex
		times = map[Partition]int64{}
		all   sync.WaitGroup
		room  = make(chan struct{}, peekers)
	)
	for addr, ps := range leaders {
		conn, err := c.conn(ctx, addr)
		if err != nil {
			continue
		}
		for _, p := range ps {
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				if ms := peek(ctx, conn, p, at[p]); ms != timeUnknown {
					mu.Lock()
					times[p] = ms
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	return times, nil
}

// peek is the timestamp of the first record at or behind an offset.
func peek(ctx context.Context, conn *rpc.Conn, p Partition, offset int64) int64 {
	for range peekHops {
		a, err := fetchOne(ctx, conn, p, offset)
		if err != nil {
			return timeUnknown
		}
		if protocol.Code(a.ErrorCode) == protocol.OffsetOutOfRange && a.LogStartOffset > offset {
			offset = a.LogStartOffset // what was not consumed is gone in part: the oldest that is left
			continue
		}
		if a.ErrorCode != 0 {
			return timeUnknown
		}
		ms, next := firstTime(a.RecordBatches, offset)
		if ms != timeUnknown || next <= offset {
			return ms
		}
		offset = next
	}
	return timeUnknown
}

func fetchOne(ctx context.Context, conn *rpc.Conn, p Partition, offset int64) (*kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch, req.ReplicaID = 0, 0, peekBytes, -1, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = p.Topic
	r := kmsg.NewFetchRequestTopicPartition()
	r.Partition, r.FetchOffset, r.PartitionMaxBytes, r.CurrentLeaderEpoch, r.LastFetchedEpoch, r.LogStartOffset = p.Index, offset, peekBytes, -1, -1, -1
	t.Partitions = append(t.Partitions, r)
	req.Topics = append(req.Topics, t)
	resp, err := conn.Request(ctx, req, fetchNamed)
	if err != nil {
		return nil, err
	}
	f := resp.(*kmsg.FetchResponse)
	if len(f.Topics) != 1 || len(f.Topics[0].Partitions) != 1 {
		return nil, errors.Join(rpc.ErrorOf(f.ErrorCode, nil, p.String()), fmt.Errorf("%s did not answer for %s", conn.Addr(), p))
	}
	return &f.Topics[0].Partitions[0], nil
}

// firstTime is the timestamp of the first record at or behind an offset in a run of batches, or unknown and where they end.
func firstTime(batches []byte, offset int64) (ms, next int64) {
	next = offset
	for {
		b, rest, err := record.Frame(batches)
		if err != nil {
			return timeUnknown, next
		}
		batches, next = rest, b.NextOffset()
		if next <= offset || b.IsControl() {
			continue
		}
		if ms := timeIn(b, offset); ms != timeUnknown {
			return ms, next
		}
	}
}

var errFound = errors.New("found")

func timeIn(b record.Batch, offset int64) int64 {
	ms := int64(timeUnknown)
	_ = b.RecordsLimit(peekMost, func(r *record.Record) error {
		if b.BaseOffset()+int64(r.OffsetDelta) < offset {
			return nil
		}
		if ms = b.BaseTimestamp() + r.TimestampDelta; b.TimestampType() == record.LogAppendTime {
			ms = b.MaxTimestamp()
		}
		return errFound
	})
	return ms
}
