package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

func listRequest(version int16, topic string, partition int32, ts int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = version, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, ts, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (c *client) list(version int16, ts int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	return do[*kmsg.ListOffsetsResponse](c, listRequest(version, "t", 0, ts)).Topics[0].Partitions[0]
}

// B1-B7, protocol.md 3.3: timestamps at record granularity, also inside compressed batches; ties give the first; sentinels by version.
func TestListOffsets(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	if got := c.list(11, maxTimestamp); got.Offset != -1 || got.Timestamp != -1 || got.ErrorCode != 0 {
		t.Fatalf("max timestamp of nothing: %+v", got)
	}
	base := nowMs() - 1000
	for i, codec := range []record.Codec{record.None, record.Gzip, record.Zstd} {
		b := record.NewBuilder(record.Options{Codec: codec})
		for k := range int64(3) {
			b.Append(base+int64(i)*100+k*10, []byte("k"), nil, nil)
		}
		b.Append(base+int64(i)*100+20, []byte("tie"), nil, nil)
		c.mustProduce("t", 0, b.Bytes())
	}
	// Offsets 0-3 are at +0 +10 +20 +20, 4-7 at +100 +110 +120 +120, 8-11 at +200 +210 +220 +220.
	for ts, want := range map[int64][2]int64{0: {0, 0}, 1: {1, 10}, 10: {1, 10}, 15: {2, 20}, 20: {2, 20}, 21: {4, 100}, 105: {5, 110}, 120: {6, 120}, 201: {9, 210}, 220: {10, 220}} {
		if got := c.list(1, base+ts); got.Offset != want[0] || got.Timestamp != base+want[1] || got.ErrorCode != 0 {
			t.Errorf("+%d: %+v, want offset %d at +%d", ts, got, want[0], want[1])
		}
	}
	if got := c.list(4, base+221); got.Offset != -1 || got.Timestamp != -1 || got.ErrorCode != 0 {
		t.Errorf("after the last: %+v", got)
	}
	if _, code := c.deleteRecords("t", 2); code != protocol.None {
		t.Fatal(code)
	}
	for _, tc := range []struct{ ts, offset, stamp int64 }{
		{latestTimestamp, 12, -1}, {earliestTimestamp, 2, -1}, {maxTimestamp, 10, base + 220}, {earliestLocal, 2, -1}, {latestTiered, -1, -1}, {earliestPendingUpload, -1, -1}, {-7, 0, 0},
	} {
		for version := int16(1); version <= 11; version++ {
			got := c.list(version, tc.ts)
			first, ok := sentinelVersion[tc.ts]
			switch {
			case !ok || version < first:
				if protocol.Code(got.ErrorCode) != protocol.UnsupportedVersion || got.Offset != -1 {
					t.Errorf("%d at v%d: %+v", tc.ts, version, got)
				}
			case got.ErrorCode != 0 || got.Offset != tc.offset || got.Timestamp != tc.stamp:
				t.Errorf("%d at v%d: %+v, want %+v", tc.ts, version, got, tc)
			}
		}
	}
	if got := c.list(5, base); got.Offset != 2 {
		t.Errorf("below the log start: %+v", got)
	}
	for name, change := range map[string]func(*kmsg.ListOffsetsRequestTopicPartition){
		"74": func(p *kmsg.ListOffsetsRequestTopicPartition) { p.CurrentLeaderEpoch = 99 },
		"3":  func(p *kmsg.ListOffsetsRequestTopicPartition) { p.Partition = 5 },
	} {
		req := listRequest(5, "t", 0, -1)
		change(&req.Topics[0].Partitions[0])
		got := do[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions[0]
		want := protocol.UnknownTopicOrPartition
		if name == "74" {
			want = protocol.UnknownLeaderEpoch
		}
		wantCode(t, got.ErrorCode, want)
		if got.Offset != -1 || got.Timestamp != -1 || got.LeaderEpoch != -1 {
			t.Errorf("%+v", got)
		}
	}
}

// A partition named twice is an error for that one only.
func TestListOffsetsNamedTwice(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 2)
	req := listRequest(5, "t", 0, -1)
	for _, p := range []int32{1, 0} {
		q := req.Topics[0].Partitions[0]
		q.Partition = p
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, q)
	}
	codes := map[int32]protocol.Code{}
	for _, p := range do[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions {
		codes[p.Partition] = protocol.Code(p.ErrorCode)
	}
	if codes[0] != protocol.InvalidRequest || codes[1] != protocol.None {
		t.Fatalf("%v", codes)
	}
}
