package broker

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

func TestFetchStartsAtTheBatchWithTheOffset(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.mustProduce("t", 0, plain("a", "b", "c"))
	c.mustProduce("t", 0, plain("d"))
	for offset, want := range []string{"0:a 1:b 2:c 3:d", "0:a 1:b 2:c 3:d", "0:a 1:b 2:c 3:d", "3:d", ""} {
		p := c.fetch("t", 0, int64(offset))
		wantCode(t, p.ErrorCode, protocol.None)
		if got := strings.Join(values(t, p.RecordBatches), " "); got != want {
			t.Errorf("from %d: %q, want %q", offset, got, want)
		}
		if p.HighWatermark != 4 || p.LastStableOffset != 4 || p.LogStartOffset != 0 {
			t.Errorf("from %d: %+v", offset, p)
		}
	}
}

// Error answers carry -1 for all offsets, and no records.
func TestFetchErrors(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("t", 1)
	c.mustProduce("t", 0, plain("a"))
	for _, tc := range []struct {
		name    string
		version int16
		change  func(*kmsg.FetchRequestTopic)
		want    protocol.Code
	}{
		{"unknown topic", 12, func(t *kmsg.FetchRequestTopic) { t.Topic = "nope" }, protocol.UnknownTopicOrPartition},
		{"unknown partition", 12, func(t *kmsg.FetchRequestTopic) { t.Partitions[0].Partition = 1 }, protocol.UnknownTopicOrPartition},
		{"negative partition", 12, func(t *kmsg.FetchRequestTopic) { t.Partitions[0].Partition = -1 }, protocol.UnknownTopicOrPartition},
		{"unknown id", 13, func(t *kmsg.FetchRequestTopic) { t.TopicID = [16]byte{1} }, protocol.UnknownTopicID},
		{"zero id", 13, func(t *kmsg.FetchRequestTopic) { t.TopicID = [16]byte{} }, protocol.UnknownTopicID},
		{"known id, unknown partition", 13, func(t *kmsg.FetchRequestTopic) { t.Partitions[0].Partition = 1 }, protocol.UnknownTopicOrPartition},
		{"below the start", 12, func(t *kmsg.FetchRequestTopic) { t.Partitions[0].FetchOffset = -1 }, protocol.OffsetOutOfRange},
		{"above the end", 4, func(t *kmsg.FetchRequestTopic) { t.Partitions[0].FetchOffset = 2 }, protocol.OffsetOutOfRange},
		{"newer epoch", 9, func(t *kmsg.FetchRequestTopic) { t.Partitions[0].CurrentLeaderEpoch = 99 }, protocol.UnknownLeaderEpoch},
		{"history from the future", 12, func(t *kmsg.FetchRequestTopic) { t.Partitions[0].LastFetchedEpoch = 99 }, protocol.OffsetOutOfRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c.t = t
			req := fetchRequest(tc.version, "t", 0, 0)
			req.Topics[0].TopicID = id
			req.MaxWaitMillis = int32(patience.Milliseconds()) // errors don't wait
			tc.change(&req.Topics[0])
			p := onlyFetched(t, do[*kmsg.FetchResponse](c, req))
			wantCode(t, p.ErrorCode, tc.want)
			if p.HighWatermark != -1 || p.LastStableOffset != -1 || len(p.RecordBatches) != 0 || tc.version >= 5 && p.LogStartOffset != -1 {
				t.Errorf("%+v", p)
			}
		})
	}
}

// Gotcha 12 and KIP-320, over a restart, which gives every partition a new leader epoch.
func TestFetchEpochs(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.mustProduce("t", 0, plain("a", "b"))
	first := record.Batch(c.fetch("t", 0, 0).RecordBatches).PartitionLeaderEpoch()
	n = n.restart()
	c = n.dial()
	c.mustProduce("t", 0, plain("c"))
	second := record.Batch(c.fetch("t", 0, 2).RecordBatches).PartitionLeaderEpoch()
	if second <= first {
		t.Fatalf("leader epoch %d after %d", second, first)
	}
	ask := func(current, last int32, offset int64) fetched {
		req := fetchRequest(16, "t", 0, offset)
		req.Topics[0].TopicID = c.topicID("t")
		p := &req.Topics[0].Partitions[0]
		p.CurrentLeaderEpoch, p.LastFetchedEpoch = current, last
		resp := do[*kmsg.FetchResponse](c, req)
		if protocol.Code(resp.Topics[0].Partitions[0].ErrorCode) == protocol.FencedLeaderEpoch {
			if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 1 {
				t.Fatalf("the leader's address is missing: %+v", resp.Brokers)
			}
		}
		return onlyFetched(t, resp)
	}
	p := ask(first, -1, 0)
	wantCode(t, p.ErrorCode, protocol.FencedLeaderEpoch)
	if p.CurrentLeader.LeaderID != 1 || p.CurrentLeader.LeaderEpoch != second {
		t.Fatalf("leader hint %+v", p.CurrentLeader)
	}
	wantCode(t, ask(second+1, -1, 0).ErrorCode, protocol.UnknownLeaderEpoch)
	wantCode(t, ask(second, -1, 0).ErrorCode, protocol.None)
	// The same history: data.
	if p := ask(-1, first, 2); len(p.RecordBatches) == 0 || p.DivergingEpoch.Epoch != -1 {
		t.Fatalf("%+v", p)
	}
	// The client has an offset 3 of the first epoch, which ended at 2 here.
	p = ask(-1, first, 3)
	wantCode(t, p.ErrorCode, protocol.None)
	if p.DivergingEpoch.Epoch != first || p.DivergingEpoch.EndOffset != 2 || len(p.RecordBatches) != 0 || p.HighWatermark != 3 {
		t.Fatalf("%+v", p)
	}
	// Beyond the end with a known epoch: divergence, no error.
	p = ask(-1, second, 9)
	wantCode(t, p.ErrorCode, protocol.None)
	if p.DivergingEpoch.Epoch != second || p.DivergingEpoch.EndOffset != 3 {
		t.Fatalf("%+v", p)
	}
}

// Rules of 3.2: the first partition with data gives a whole batch whatever the limits; the others keep to what is left, and give nothing
// when that is less than a batch; the last of several batches is cut at exactly the limit.
func TestFetchLimits(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 3)
	big := plain(strings.Repeat("x", 1000))
	for p := range int32(2) {
		c.mustProduce("t", p+1, big)
		c.mustProduce("t", p+1, big)
	}
	size := len(big)
	for _, tc := range []struct {
		max, partMax int32
		want         []int // bytes of partitions 0 (empty), 1, 2
	}{
		{1 << 30, 1 << 30, []int{0, 2 * size, 2 * size}},
		{1, 1 << 30, []int{0, size, 0}},
		{1 << 30, 1, []int{0, size, 0}},
		{0, 0, []int{0, size, 0}},
		{-1, -1, []int{0, size, 0}},
		{int32(size) + 10, 1 << 30, []int{0, size + 10, 0}},
		{int32(2*size) + 10, 1 << 30, []int{0, 2 * size, 0}},
		{int32(3*size) + 10, 1 << 30, []int{0, 2 * size, size + 10}},
		{1 << 30, int32(size) + 7, []int{0, size + 7, size + 7}},
	} {
		req := fetchRequest(12, "t", 0, 0)
		req.MaxBytes = tc.max
		addFetch(req, "t", [16]byte{}, 1, 0)
		addFetch(req, "t", [16]byte{}, 2, 0)
		for i := range req.Topics {
			req.Topics[i].Partitions[0].PartitionMaxBytes = tc.partMax
		}
		resp := do[*kmsg.FetchResponse](c, req)
		var got []int
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				wantCode(t, p.ErrorCode, protocol.None)
				got = append(got, len(p.RecordBatches))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("max %d, per partition %d: %v bytes, want %v", tc.max, tc.partMax, got, tc.want)
		}
	}
}

func TestFetchBrokerLimit(t *testing.T) {
	n := start(t, "fetch.max.bytes=2048")
	c := n.dial()
	c.create("t", 1)
	for range 5 {
		c.mustProduce("t", 0, plain(strings.Repeat("x", 500)))
	}
	if got := len(c.fetch("t", 0, 0).RecordBatches); got != 2048 {
		t.Fatalf("%d bytes", got)
	}
}

// A partition named twice: the last one counts, and is answered once. Also in a request with many partitions.
func TestFetchPartitionNamedTwice(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 100)
	c.mustProduce("t", 0, plain("a"))
	c.mustProduce("t", 0, plain("b"))
	for _, more := range []int32{1, 99} {
		req := fetchRequest(12, "t", 0, 0)
		for i := range more {
			addFetch(req, "t", [16]byte{}, i+1, 0)
		}
		addFetch(req, "t", [16]byte{}, 0, 1)
		resp := do[*kmsg.FetchResponse](c, req)
		count := 0
		for _, topic := range resp.Topics {
			count += len(topic.Partitions)
		}
		if count != int(more)+1 {
			t.Fatalf("%d partitions answered, want %d", count, more+1)
		}
		wantValues(t, values(t, resp.Topics[0].Partitions[0].RecordBatches), "1:b")
	}
}

// B-E5, B6: read_committed has a list of aborted transactions, read_uncommitted has none.
func TestFetchIsolation(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.mustProduce("t", 0, plain("a"))
	for level, null := range []bool{true, false} {
		req := fetchRequest(11, "t", 0, 0)
		req.IsolationLevel = int8(level)
		addFetch(req, "missing", [16]byte{}, 0, 0)
		resp := do[*kmsg.FetchResponse](c, req)
		p := resp.Topics[0].Partitions[0]
		if (p.AbortedTransactions == nil) != null || p.LastStableOffset != 1 || len(p.RecordBatches) == 0 {
			t.Fatalf("level %d: %+v", level, p)
		}
		if resp.Topics[1].Partitions[0].AbortedTransactions == nil {
			t.Fatalf("level %d: null for an unknown topic", level)
		}
	}
}

// H6: an old segment's end is answered at once though min_bytes is not reached: waiting would not make it longer.
func TestFetchDoesNotWaitAtTheEndOfASegment(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1, "segment.bytes=1048576", "max.message.bytes=1000000")
	big := strings.Repeat("x", 400_000)
	for range 4 {
		c.mustProduce("t", 0, plain(big)) // one per segment: the key is the value
	}
	req := fetchRequest(12, "t", 0, 0)
	req.MinBytes, req.MaxWaitMillis = 5_000_000, int32(2*patience.Milliseconds())
	p := onlyFetched(t, do[*kmsg.FetchResponse](c, req))
	if got := len(p.RecordBatches); got < 800_000 || got > 1048576 {
		t.Fatalf("%d bytes", got)
	}
}

// With the log's index said to be on disk only, and with its bytes, the answers are the same; they go through a disk worker.
func TestFetchColdData(t *testing.T) {
	n, cold := startFaulty(t)
	c := n.dial()
	c.create("t", 2)
	for i := range 100 {
		c.mustProduce("t", int32(i%2), plain(fmt.Sprint(i)))
	}
	warm0, warm1 := c.readAll("t", 0), c.readAll("t", 1)
	cold.SetCached(func(string, int64, int64) bool { return false })
	wantValues(t, c.readAll("t", 0), warm0...)
	wantValues(t, c.readAll("t", 1), warm1...)
	req := fetchRequest(12, "t", 0, 0)
	addFetch(req, "t", [16]byte{}, 1, 0)
	for range 20 {
		c.send(req)
	}
	for range 20 {
		resp := next[*kmsg.FetchResponse](c)
		wantValues(t, values(t, resp.Topics[0].Partitions[0].RecordBatches), warm0...)
	}
}

// What a segment file contains leaves unchanged, whichever driver sends it and however small the pieces the client reads.
func TestFetchThroughBothDrivers(t *testing.T) {
	for _, driver := range []string{"auto", "net"} {
		t.Run(driver, func(t *testing.T) {
			n := startOn(t, nil, "network.driver="+driver, "log.dirs="+t.TempDir())
			c := n.dial()
			c.create("t", 1)
			var want []string
			for i := range 30 {
				v := fmt.Sprint(i, strings.Repeat("-", 3000*(i%3)))
				c.mustProduce("t", 0, plain(v))
				want = append(want, fmt.Sprintf("%d:%s", i, v))
			}
			wantValues(t, c.readAll("t", 0), want...)
		})
	}
}

func TestFetchAfterDeleteRecords(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.mustProduce("t", 0, plain("a", "b", "c"))
	c.mustProduce("t", 0, plain("d"))
	if low, code := c.deleteRecords("t", 1); code != protocol.None || low != 1 {
		t.Fatalf("low watermark %d, %s", low, code.Name())
	}
	wantCode(t, c.fetch("t", 0, 0).ErrorCode, protocol.OffsetOutOfRange)
	p := c.fetch("t", 0, 1)
	if p.LogStartOffset != 1 {
		t.Fatalf("%+v", p)
	}
	wantValues(t, values(t, p.RecordBatches), "0:a", "1:b", "2:c", "3:d") // the whole batch
	for offset, want := range map[int64]protocol.Code{5: protocol.OffsetOutOfRange, -2: protocol.OffsetOutOfRange} {
		if _, code := c.deleteRecords("t", offset); code != want {
			t.Fatalf("%d: %s", offset, code.Name())
		}
	}
	if low, code := c.deleteRecords("t", -1); code != protocol.None || low != 4 {
		t.Fatalf("low watermark %d, %s", low, code.Name())
	}
	if low, code := c.deleteRecords("t", 2); code != protocol.None || low != 4 {
		t.Fatalf("low watermark %d after a lower one was asked for, %s", low, code.Name())
	}
	c.create("compacted", 1, "cleanup.policy=compact")
	if _, code := c.deleteRecords("compacted", 0); code != protocol.PolicyViolation {
		t.Fatalf("compacted: %s", code.Name())
	}
	if _, code := c.deleteRecords("missing", 0); code != protocol.UnknownTopicOrPartition {
		t.Fatalf("missing: %s", code.Name())
	}
	n = n.restart() // B-F: what was deleted stays deleted
	c = n.dial()
	wantCode(t, c.fetch("t", 0, 3).ErrorCode, protocol.OffsetOutOfRange)
	c.mustProduce("t", 0, plain("e"))
	wantValues(t, values(t, c.fetch("t", 0, 4).RecordBatches), "4:e")
}

func (c *client) deleteRecords(topic string, offset int64) (int64, protocol.Code) {
	c.t.Helper()
	req := sample(protocol.KeyDeleteRecords, 2, [16]byte{}).(*kmsg.DeleteRecordsRequest)
	req.Topics[0].Topic, req.Topics[0].Partitions[0].Offset = topic, offset
	p := do[*kmsg.DeleteRecordsResponse](c, req).Topics[0].Partitions[0]
	return p.LowWatermark, protocol.Code(p.ErrorCode)
}

func (c *client) topicID(topic string) [16]byte {
	c.t.Helper()
	req := sample(protocol.KeyMetadata, 12, [16]byte{}).(*kmsg.MetadataRequest)
	req.Topics[0].Topic, req.AllowAutoTopicCreation = &topic, false
	return do[*kmsg.MetadataResponse](c, req).Topics[0].TopicID
}

// A frame that the client lets wait in parts is read as one.
func TestFetchRequestInPieces(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.mustProduce("t", 0, plain("a"))
	req := fetchRequest(12, "t", 0, 0)
	b := frame(req, 77)
	for i := range b {
		c.raw(b[i : i+1])
	}
	body, err := c.readFrame()
	if err != nil || binary.BigEndian.Uint32(body) != 77 {
		t.Fatalf("%x, %v", body, err)
	}
}
