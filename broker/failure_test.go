package broker

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/protocol"
)

// startTwoDirs starts a node with two log directories, and returns which of them has the metadata log and which has not. Topics named in and out lie in
// the one and the other.
func startTwoDirs(t *testing.T) (n *node, disk *vfs.Fault, metaDir, otherDir string) {
	n, disk = startFaulty(t, "log.dirs=/a,/b", "log.sync.method=fdatasync")
	metaDir = n.b.engine.Log(engine.TopicPartition{Topic: metadataTopic}).Dir()
	otherDir = map[string]string{"/a": "/b", "/b": "/a"}[metaDir]
	c := n.dial()
	for _, topic := range []string{"out", "in"} { // a new log lies where the fewest are
		c.create(topic, 1)
		c.mustProduce(topic, 0, plain("before"))
	}
	dirOf := func(topic string) string { return n.b.engine.Log(engine.TopicPartition{Topic: topic}).Dir() }
	if dirOf("out") != otherDir || dirOf("in") != metaDir {
		t.Fatalf("out is in %s, in is in %s, the metadata in %s", dirOf("out"), dirOf("in"), metaDir)
	}
	return n, disk, metaDir, otherDir
}

// failSyncs makes the next sync of a file in dir fail once, when release is called; until then it waits.
func failSyncs(disk *vfs.Fault, dir, suffix string) (release func()) {
	gate := make(chan struct{})
	disk.Inject(vfs.Injection{
		Match: func(op vfs.Op) bool {
			return op.Kind == vfs.OpSync && strings.HasPrefix(op.Name, dir+"/") && strings.HasSuffix(op.Name, suffix)
		},
		Nth: 1, Err: syscall.EIO,
		Before: func(vfs.Op) { <-gate },
	})
	return func() { close(gate) }
}

// A directory that was given relative to where the broker was started is told with its whole path.
func TestRelativeLogDir(t *testing.T) {
	n := start(t, "log.dirs=data")
	want, err := filepath.Abs("data")
	if err != nil {
		t.Fatal(err)
	}
	if all := describeDirs(n.dial()); len(all) != 1 || all[want].Dir != want {
		t.Errorf("%v, want %s", all, want)
	}
}

func describeDirs(c *client) map[string]kmsg.DescribeLogDirsResponseDir {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Version = 4
	dirs := map[string]kmsg.DescribeLogDirsResponseDir{}
	for _, d := range do[*kmsg.DescribeLogDirsResponse](c, req).Dirs {
		dirs[d.Dir] = d
	}
	return dirs
}

// R18, B-A1: the first failed sync fails everybody who waits for it, nothing is acknowledged after it, and the other directory serves on.
func TestFailedSyncOfOneDir(t *testing.T) {
	n, disk, metaDir, otherDir := startTwoDirs(t)
	release := failSyncs(disk, otherDir, "out-0/00000000000000000000.log")
	const waiting = 5
	waiters := make([]*client, waiting)
	for i := range waiters {
		waiters[i] = n.dial()
		waiters[i].send(produceRequest(9, -1, "out", 0, plain("lost")))
	}
	reader := n.dial()
	reader.send(longFetch(12, "out", 1, 1))
	n.waitParked(1)
	eventually(t, "all are written", func() bool { return n.b.repl.Partition("out", 0).LogEnd() == 1+waiting })
	release()
	for i, c := range waiters {
		if p := onlyProduced(t, next[*kmsg.ProduceResponse](c)); protocol.Code(p.ErrorCode) != protocol.KafkaStorageError || p.BaseOffset != -1 {
			t.Fatalf("waiter %d: %+v", i, p)
		}
	}
	if f := onlyFetched(t, next[*kmsg.FetchResponse](reader)); protocol.Code(f.ErrorCode) != protocol.KafkaStorageError || len(f.RecordBatches) != 0 {
		t.Fatalf("the parked fetch: %+v", f)
	}
	c := n.dial()
	for _, acks := range []int16{-1, 1} {
		wantCode(t, c.produceAt(9, acks, "out", 0, plain("after")).ErrorCode, protocol.KafkaStorageError)
	}
	wantCode(t, c.fetch("out", 0, 0).ErrorCode, protocol.KafkaStorageError)
	list := do[*kmsg.ListOffsetsResponse](c, listRequest(5, "out", 0, -1))
	wantCode(t, list.Topics[0].Partitions[0].ErrorCode, protocol.KafkaStorageError)

	c.mustProduce("in", 0, plain("after")) // the other directory
	wantValues(t, c.readAll("in", 0), "0:before", "1:after")
	c.create("new", 3)
	for p := range int32(3) {
		c.mustProduce("new", p, plain("x"))
		if dir := n.b.engine.Log(engine.TopicPartition{Topic: "new", Partition: p}).Dir(); dir != metaDir {
			t.Fatalf("new-%d lies in %s", p, dir)
		}
	}
	dirs := describeDirs(c)
	wantCode(t, dirs[otherDir].ErrorCode, protocol.KafkaStorageError)
	if d := dirs[metaDir]; d.ErrorCode != 0 || d.TotalBytes <= 0 || len(d.Topics) != 2 {
		t.Fatalf("%+v", d)
	}
	if s := n.logs.String(); !strings.Contains(s, "log directory is offline") || !strings.Contains(s, otherDir) || !strings.Contains(s, syscall.EIO.Error()) {
		t.Fatal("the log does not tell")
	}
	c.delete("out") // its directory stays: the next start deletes it
	n = n.restart("log.dirs=/a,/b")
	c = n.dial()
	wantValues(t, c.readAll("in", 0), "0:before", "1:after")
	if n.b.repl.Partition("out", 0) != nil || n.b.engine.Log(engine.TopicPartition{Topic: "out"}) != nil {
		t.Fatal("the deleted topic is back")
	}
}

// When the directory of the metadata log fails, nothing can be changed, and the answer says why; what is in the other directory is written and read.
func TestMetadataDirFails(t *testing.T) {
	n, disk, metaDir, otherDir := startTwoDirs(t)
	release := failSyncs(disk, metaDir, metadataTopic+"-0/00000000000000000000.log")
	release()
	c := n.dial()
	refused := func(what string, code int16, text *string) {
		t.Helper()
		if protocol.Code(code) != protocol.KafkaStorageError || text == nil || !strings.Contains(*text, metaDir) {
			said := "nothing"
			if text != nil {
				said = *text
			}
			t.Errorf("%s: code %d, says %s", what, code, said)
		}
	}
	for range 2 { // the change that met it, and one that came after
		created := do[*kmsg.CreateTopicsResponse](c, createRequest(7, "new", 1)).Topics[0]
		refused("CreateTopics", created.ErrorCode, created.ErrorMessage)
	}
	deleted := do[*kmsg.DeleteTopicsResponse](c, deleteRequest(5, "out")).Topics[0]
	refused("DeleteTopics", deleted.ErrorCode, deleted.ErrorMessage)
	wantCode(t, c.produce("in", 0, plain("x")).ErrorCode, protocol.KafkaStorageError)
	c.mustProduce("out", 0, plain("after"))
	wantValues(t, c.readAll("out", 0), "0:before", "1:after")
	if s := n.logs.String(); !strings.Contains(s, "nothing can be changed until the broker is restarted") || !strings.Contains(s, "log directory is offline") {
		t.Fatal("the log does not tell")
	}
	dirs := describeDirs(c)
	wantCode(t, dirs[metaDir].ErrorCode, protocol.KafkaStorageError)
	wantCode(t, dirs[otherDir].ErrorCode, protocol.None)
	n = n.restart("log.dirs=/a,/b")
	c = n.dial()
	wantValues(t, c.readAll("out", 0), "0:before", "1:after")
	wantValues(t, c.readAll("in", 0), "0:before")
	c.create("another", 1) // whether the first refused change was stored, nobody can know
}

// Creating topics on a full disk is refused, with the reason, before anything of it is in the metadata; deleting one makes room.
func TestCreateTopicsOnFullDisk(t *testing.T) {
	mem := vfs.NewMem(1)
	mem.SetCapacity(64 << 20)
	n := startOn(t, mem, "log.dirs=/data")
	c := n.dial()
	c.create("big", 1)
	acked := 0
	eventually(t, "the disk is full", func() bool { // each batch waits for its flush
		p := c.produce("big", 0, plain(strings.Repeat("x", 500_000)))
		if p.ErrorCode == 0 {
			acked++
			return false
		}
		wantCode(t, p.ErrorCode, protocol.KafkaStorageError)
		return true
	})
	answer := do[*kmsg.CreateTopicsResponse](c, createRequest(7, "new", 5)).Topics[0]
	if protocol.Code(answer.ErrorCode) != protocol.KafkaStorageError || !strings.Contains(text(answer.ErrorMessage), "/data has no space left") {
		t.Fatalf("%d %s", answer.ErrorCode, text(answer.ErrorMessage))
	}
	if n.b.meta.Image().Topic("new") != nil {
		t.Fatal("it is there")
	}
	valid := createRequest(7, "new", 5)
	valid.ValidateOnly = true
	wantCode(t, do[*kmsg.CreateTopicsResponse](c, valid).Topics[0].ErrorCode, protocol.None)
	if f := c.fetch("big", 0, int64(acked)-1); f.ErrorCode != 0 || f.HighWatermark != int64(acked) || len(f.RecordBatches) < 500_000 {
		t.Fatalf("code %d, high watermark %d, acknowledged were %d", f.ErrorCode, f.HighWatermark, acked)
	}
	for range 30 { // changes still have room
		if code := c.alter(kmsg.ConfigResourceTypeTopic, "big", kmsg.IncrementalAlterConfigOpSet, "retention.ms", "100000000"); code != protocol.None {
			t.Fatal(code.Name())
		}
	}
	c.delete("big")
	eventually(t, "there is room again", func() bool {
		return do[*kmsg.CreateTopicsResponse](c, createRequest(7, "new", 5)).Topics[0].ErrorCode == 0
	})
	c.mustProduce("new", 0, plain("x"))
}
