package replication

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/metadata"
)

func TestTopicHasItsLogWhenCreateAnswers(t *testing.T) {
	n := start(t, vfs.NewMem(1))
	defer n.stop()
	p := n.create("a", 3, "retention.ms", "77")
	for i := range int32(3) {
		q := n.m.Partition("a", i)
		if q == nil || q != n.m.PartitionByID(p.TopicID(), i) || q.Number() != i {
			t.Fatalf("partition %d: %v", i, q)
		}
		if err := q.Check(-1); err != nil || q.Log() == nil || q.Log().Config().RetentionMs != 77 {
			t.Errorf("partition %d: %v", i, err)
		}
	}
	for _, q := range []*Partition{n.m.Partition("a", 3), n.m.Partition("a", -1), n.m.Partition("b", 0), n.m.PartitionByID([16]byte{1}, 0)} {
		if q != nil {
			t.Errorf("found %v", q)
		}
	}
	if err := produce(p, -1, 1).wait(); err != nil {
		t.Error(err)
	}
	r, err := n.meta.CreatePartitions(ctx, metadata.CreatePartitionsRequest{Topics: []metadata.PartitionsSpec{{Topic: "a", Count: 5}}})
	if err != nil || r[0].Err != nil || n.m.Partition("a", 4) == nil || n.m.Partition("a", 0) != p {
		t.Errorf("grown: %v %+v", err, r)
	}
}

func TestConfigsComeIntoForce(t *testing.T) {
	n := start(t, vfs.NewMem(1))
	defer n.stop()
	p := n.create("a", 1)
	n.alter("a", "retention.ms", "5")
	if got := p.Log().Config().RetentionMs; got != 5 {
		t.Errorf("retention %d", got)
	}
	r, err := n.meta.AlterConfigs(ctx, metadata.AlterConfigsRequest{Resources: []metadata.ResourceConfig{{Type: metadata.BrokerResource,
		Changes: []metadata.ConfigChange{{Name: "log.retention.bytes", Value: "99"}}}}})
	if err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	if got := p.Log().Config(); got.RetentionBytes != 99 || got.RetentionMs != 5 {
		t.Errorf("after a change of the default: %+v", got)
	}
}

// TestLeaderEpochGrows: each restart leads in a new epoch, and not before the broker is registered (B-C1).
func TestLeaderEpochGrows(t *testing.T) {
	disk := vfs.NewMem(1)
	n := start(t, disk)
	p := n.create("a", 1)
	for epoch := range int32(4) {
		if p.LeaderEpoch() != epoch {
			t.Fatalf("leads in epoch %d, want %d", p.LeaderEpoch(), epoch)
		}
		for claimed, want := range map[int32]error{-1: nil, epoch: nil, epoch + 1: ErrUnknownLeaderEpoch} {
			if err := p.Check(claimed); err != want {
				t.Errorf("in epoch %d, request of %d: %v", epoch, claimed, err)
			}
		}
		if err := p.Check(epoch - 1); epoch > 0 && err != ErrFencedLeaderEpoch {
			t.Errorf("in epoch %d, request of the one before: %v", epoch, err)
		}
		if err := produce(p, -1, 2).wait(); err != nil {
			t.Fatal(err)
		}
		if got := p.Log().EpochAt(int64(epoch) * 2); got != epoch {
			t.Errorf("records of epoch %d have epoch %d", epoch, got)
		}
		n.stop()
		var err error
		if n, err = boot(t, disk); err != nil {
			t.Fatal(err)
		}
		p = n.m.Partition("a", 0)
		if err := p.Check(-1); err != ErrNotLeader {
			t.Errorf("before the registration: %v", err)
		}
		if err := produce(p, -1, 1).wait(); err != ErrNotLeader {
			t.Errorf("produce before the registration: %v", err)
		}
		n.register()
		if got := p.HighWatermark(); got != p.LogEnd() || got != 2*int64(epoch+1) {
			t.Errorf("after the restart the high watermark is %d, the log end %d", got, p.LogEnd())
		}
	}
	n.stop()
}

func TestDeleteTopic(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	n := start(t, fault)
	defer n.stop()
	p := n.create("a", 1)
	w := newWakes()
	var x Waiter
	x.Init(w)
	if !p.Await(&x, 0) {
		t.Fatal("an empty partition has something")
	}
	n.delete("a")
	if <-w.c != &x || n.m.Partition("a", 0) != nil || n.m.PartitionByID(p.TopicID(), 0) != nil || n.e.Log(engine.TopicPartition{Topic: "a"}) != nil {
		t.Error("something is left")
	}
	if err := p.Check(-1); err != ErrUnknownTopic {
		t.Error(err)
	}
	if err := produce(p, 1, 1).wait(); err != ErrUnknownTopic {
		t.Error(err)
	}
	q := n.create("a", 1)
	if q == p || q.TopicID() == p.TopicID() || q.LogEnd() != 0 {
		t.Error("the topic came back as it was")
	}
}

// TestStrays: a log that the metadata does not know is set aside, never deleted, and what is known stays (B-A11, B-A16).
func TestStrays(t *testing.T) {
	disk := vfs.NewMem(1)
	n := start(t, disk)
	p := n.create("known", 1)
	if err := produce(p, -1, 3).wait(); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.NewSet().Topic(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"unknown", "other-id", "known"} {
		number := int32(0)
		if name == "known" {
			number = 1 // the topic has only partition 0
		}
		if _, err := n.e.Create(engine.TopicPartition{Topic: name, Partition: number}, [16]byte{9}, cfg); err != nil {
			t.Fatal(err)
		}
	}
	// A topic of the same name as a stray, with another id, whose log is only made at the next start.
	n.stop()
	n, err = boot(t, disk)
	if err != nil {
		t.Fatal(err)
	}
	n.register()
	defer n.stop()
	if got := n.m.Partition("known", 0).LogEnd(); got != 3 {
		t.Errorf("the known log ends at %d", got)
	}
	entries, err := disk.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	strays := 0
	for _, e := range entries {
		if strings.Contains(e.Name, "stray") {
			strays++
		}
		if strings.Contains(e.Name, "-delete") {
			t.Errorf("%s is to be deleted", e.Name)
		}
	}
	if strays != 3 || len(n.e.Logs()) != 2 || strings.Count(n.logs.String(), "set aside") < 3 {
		t.Errorf("%d strays, %d logs; %v\n%s", strays, len(n.e.Logs()), entries, n.logs.String())
	}
	if q := n.create("unknown", 1); q.LogEnd() != 0 {
		t.Error("a new topic of a stray's name has the stray's data")
	}
}

// TestDeletionSurvivesACrash: the metadata forgot the topic, the crash came before the directory went. It goes at the next
// start (B-A18: a new topic of the name does not get it).
func TestDeletionSurvivesACrash(t *testing.T) {
	mem := vfs.NewMem(1)
	fault := vfs.NewFault(mem)
	n := start(t, fault)
	p := n.create("a", 1)
	if err := produce(p, -1, 3).wait(); err != nil {
		t.Fatal(err)
	}
	n.m.closed.Store(true) // the deletion is decided, and nobody follows
	n.delete("a")
	crashed := mem.Crash(vfs.LoseUnsynced)
	n.stop()
	n = start(t, crashed)
	defer n.stop()
	if n.e.Log(engine.TopicPartition{Topic: "a"}) != nil {
		t.Error("the log of the deleted topic is still there")
	}
	if strings.Contains(n.logs.String(), "set aside") {
		t.Error("a log that is known to be deleted was set aside")
	}
	if q := n.create("a", 1); q.LogEnd() != 0 {
		t.Error("the new topic has the old one's data")
	}
}

// TestMissingLog: a partition that has lost its log does not begin anew, empty (B-A17); one that never had it does.
func TestMissingLog(t *testing.T) {
	disk := vfs.NewMem(1)
	n := start(t, disk)
	n.create("old", 1)
	n.stop()
	n = start(t, disk) // now old has been led in epoch 1
	n.create("new", 1)
	n.stop()
	for _, name := range []string{"old-0", "new-0"} {
		if err := disk.RemoveAll(testDir + "/" + name); err != nil {
			t.Fatal(err)
		}
	}
	n = start(t, disk)
	defer n.stop()
	p := n.m.Partition("old", 0)
	if err := p.Check(-1); !errors.Is(err, engine.ErrStorage) {
		t.Errorf("old: %v", err)
	}
	if err := produce(p, -1, 1).wait(); !errors.Is(err, engine.ErrStorage) {
		t.Errorf("produce to old: %v", err)
	}
	if _, err := p.Read(0, 100, true, false); !errors.Is(err, engine.ErrStorage) || p.HighWatermark() != -1 || p.LogEnd() != -1 || p.LogStart() != -1 || p.LastStable() != -1 {
		t.Errorf("read of old: %v", err)
	}
	if err := n.m.Partition("new", 0).Check(-1); err != nil {
		t.Errorf("new: %v", err)
	}
	n.delete("old")
	if err := n.create("old", 1).Check(-1); err != nil {
		t.Errorf("old, deleted and made again: %v", err)
	}
}

func TestManyTopics(t *testing.T) {
	n := start(t, vfs.NewMem(1))
	defer n.stop()
	for i := range 50 {
		n.create(fmt.Sprint("t", i), 2)
	}
	for i := range 50 {
		if n.m.Partition(fmt.Sprint("t", i), 1) == nil {
			t.Error(i)
		}
	}
}
