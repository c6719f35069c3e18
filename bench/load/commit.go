package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/client/admin"
	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// commitVersion is the last one that knows topics by name and no member epochs.
const commitVersion = 8

// CommitLoad commits offsets as consumers do that assign their partitions themselves: each connection those of partitions of its own. The topic must have
// Connections * Partitions partitions.
type CommitLoad struct {
	Addr, Topic string
	Group       string // the names of groups begin so
	Groups      int    // connection c is of group c mod Groups
	Connections int
	InFlight    int // requests of a connection
	Partitions  int // of a commit

	acked []int64 // by connection: the offset in the last acknowledged commit
}

type commitSource struct {
	load     *CommitLoad
	conn     int
	req      *kmsg.OffsetCommitRequest
	offsetAt []int  // in the frame
	good     []byte // the answer behind the throttle time, when all is well
}

func (l *CommitLoad) group(conn int) string { return fmt.Sprintf("%s-%d", l.Group, conn%l.Groups) }

func (l *CommitLoad) open(ctx context.Context) ([]opened, *Result, error) {
	if l.Connections < 1 || l.InFlight < 1 || l.Partitions < 1 || l.Groups < 1 {
		return nil, nil, errors.New("a commit load needs connections, requests in flight, partitions and groups")
	}
	n, err := Partitions(ctx, l.Addr, l.Topic)
	if err != nil {
		return nil, nil, err
	}
	if n < l.Connections*l.Partitions {
		return nil, nil, fmt.Errorf("topic %s has %d partitions, not %d", l.Topic, n, l.Connections*l.Partitions)
	}
	l.acked = make([]int64, l.Connections)
	result := &Result{Name: "commit"}
	var all []opened
	for c := range l.Connections {
		addr, err := l.coordinator(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		src := l.newSource(c)
		s := &stream{source: src, result: result, inflight: l.InFlight, frame: frameOf(src.req)}
		for i := range src.req.Topics[0].Partitions {
			src.offsetAt = append(src.offsetAt, find(s.frame, binary.BigEndian.AppendUint64(nil, uint64(marker64+i))))
		}
		all = append(all, opened{s, addr})
	}
	return all, result, nil
}

// coordinator finds the coordinator of a connection's group, when it serves.
func (l *CommitLoad) coordinator(ctx context.Context, conn int) (string, error) {
	c, err := cluster(l.Addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := c.Coordinator(ctx, l.group(conn))
	if err != nil {
		return "", err
	}
	if _, err := c.CommittedOffsets(ctx, l.group(conn)); err != nil {
		return "", err
	}
	return b.Addr, nil
}

func (l *CommitLoad) newSource(conn int) *commitSource {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = commitVersion, l.group(conn), -1
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	resp.Version = commitVersion
	t, a := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitResponseTopic()
	t.Topic, a.Topic = l.Topic, l.Topic
	for i := range l.Partitions {
		p, q := kmsg.NewOffsetCommitRequestTopicPartition(), kmsg.NewOffsetCommitResponseTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = int32(conn*l.Partitions+i), int64(marker64+i), -1
		empty := ""
		p.Metadata = &empty
		q.Partition = p.Partition
		t.Partitions, a.Partitions = append(t.Partitions, p), append(a.Partitions, q)
	}
	req.Topics, resp.Topics = append(req.Topics, t), append(resp.Topics, a)
	return &commitSource{load: l, conn: conn, req: req, good: resp.AppendTo(nil)[4:]}
}

func (s *commitSource) prepare(frame []byte, n uint32, _ time.Time) {
	for _, at := range s.offsetAt {
		binary.BigEndian.PutUint64(frame[at:], uint64(n)+1)
	}
}

func (s *commitSource) headSize() int     { return 0 }
func (s *commitSource) whole(uint32) bool { return true }
func (s *commitSource) complete() bool    { return true }
func (s *commitSource) endless() bool     { return false }

func (s *commitSource) answer(n uint32, b []byte, size int, _ time.Time) (d delivery, err error) {
	const bodyAt = answerHead + 1 + 4 // one byte of tags, the throttle time
	if len(b) < bodyAt || !bytes.Equal(b[bodyAt:], s.good) {
		return d, s.explain(b)
	}
	s.load.acked[s.conn] = int64(n) + 1
	return delivery{records: int64(len(s.offsetAt)), bytes: int64(size)}, nil
}

// explain says what is wrong with an answer.
func (s *commitSource) explain(b []byte) error {
	resp, err := parse(s.req, b)
	if err != nil {
		return fmt.Errorf("an answer to a commit cannot be read: %w", err)
	}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			if err := rpc.ErrorOf(p.ErrorCode, nil, fmt.Sprintf("commit of %s for %s-%d", s.req.Group, t.Topic, p.Partition)); err != nil {
				return err
			}
		}
	}
	return errors.New("the answer to a commit is not for what was committed")
}

// OffsetsTopic is where coordinators keep what is committed.
const OffsetsTopic = "__consumer_offsets"

// ConfigureOffsets makes the topic of the coordinators, if it is not there, and sets configs of it. undo takes those back.
func ConfigureOffsets(ctx context.Context, addr string, set map[string]string) (undo func() error, err error) {
	c, err := cluster(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.Coordinator(ctx, "any"); err != nil {
		return nil, err
	}
	if err := c.AlterConfigs(ctx, admin.TopicResource(OffsetsTopic), set, nil, false); err != nil {
		return nil, err
	}
	return func() error {
		c, err := cluster(addr)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.AlterConfigs(ctx, admin.TopicResource(OffsetsTopic), nil, slices.Sorted(maps.Keys(set)), false)
	}, nil
}

// Verify reads the offsets back, after a Run: each must be the last one that was acknowledged.
func (l *CommitLoad) Verify(ctx context.Context) error {
	c, err := cluster(l.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for g := range min(l.Groups, l.Connections) {
		offsets, err := c.CommittedOffsets(ctx, l.group(g))
		if err != nil {
			return err
		}
		for conn := g; conn < l.Connections; conn += l.Groups {
			for i := range l.Partitions {
				p := admin.Partition{Topic: l.Topic, Index: int32(conn*l.Partitions + i)}
				if got, ok := offsets[p]; !ok || got != l.acked[conn] || got == 0 {
					return fmt.Errorf("group %s has offset %d for %s-%d, and %d was acknowledged", l.group(g), got, p.Topic, p.Index, l.acked[conn])
				}
			}
		}
	}
	return nil
}

// DeleteGroups removes the groups of the load, so that nothing of them is left for a later one.
func (l *CommitLoad) DeleteGroups(ctx context.Context) error {
	c, err := cluster(l.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for g := range l.Groups {
		if err := c.DeleteGroup(ctx, l.group(g)); err != nil && rpc.Code(err) != protocol.GroupIDNotFound {
			return err
		}
	}
	return nil
}
