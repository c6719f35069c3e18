package engine

import (
	"encoding/hex"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

var snapshotGolden = []snapshotEntry{
	{producerID: 5, epoch: 1, lastSequence: 9, lastOffset: 1009, offsetDelta: 9, timestampMs: 1700000000123, coordinatorEpoch: -1, txnFirstOffset: -1},
	{producerID: math.MaxInt64, epoch: math.MaxInt16, lastSequence: -1, lastOffset: -1, timestampMs: -1, coordinatorEpoch: 7, txnFirstOffset: 42},
}

const snapshotGoldenHex = "0001" + "2d5f9665" + "00000002" +
	"0000000000000005" + "0001" + "00000009" + "00000000000003f1" + "00000009" + "0000018bcfe5687b" + "ffffffff" + "ffffffffffffffff" +
	"7fffffffffffffff" + "7fff" + "ffffffff" + "ffffffffffffffff" + "00000000" + "ffffffffffffffff" + "00000007" + "000000000000002a"

func TestSnapshotGolden(t *testing.T) {
	data := encodeSnapshot(snapshotGolden)
	if got := hex.EncodeToString(data); got != snapshotGoldenHex {
		t.Fatalf("got %s, want %s", got, snapshotGoldenHex)
	}
	entries, err := decodeSnapshot(data)
	if err != nil || !slices.Equal(entries, snapshotGolden) {
		t.Fatalf("got %+v, %v", entries, err)
	}
	entries, err = decodeSnapshot(encodeSnapshot(nil))
	if err != nil || len(entries) != 0 {
		t.Fatalf("empty: %+v, %v", entries, err)
	}
}

func TestSnapshotOfKafka(t *testing.T) {
	for _, name := range []string{"00000000000000000007.snapshot", "00000000000000000013.snapshot", "00000000000000000021.snapshot"} {
		data := kafkaFile(t, name)
		entries, err := decodeSnapshot(data)
		sideMust(t, err)
		if string(encodeSnapshot(entries)) != string(data) {
			t.Errorf("%s is written as %x", name, encodeSnapshot(entries))
		}
	}
}

// Every truncation and every changed byte is noticed.
func TestSnapshotDamaged(t *testing.T) {
	damaged(encodeSnapshot(snapshotGolden), func(bad []byte) {
		if entries, err := decodeSnapshot(bad); err == nil {
			t.Errorf("%x read as %+v", bad, entries)
		}
	})
	if _, err := decodeSnapshot(append(encodeSnapshot(snapshotGolden), 0)); err == nil {
		t.Error("a byte too many was not noticed")
	}
	if _, err := decodeSnapshot(make([]byte, 4096)); err == nil {
		t.Error("zeros are a snapshot")
	}
}

// Entries that no writer makes are refused although the checksum is right.
func TestSnapshotNonsense(t *testing.T) {
	good := snapshotGolden[0]
	for what, change := range map[string]func(e *snapshotEntry){
		"producer id": func(e *snapshotEntry) { e.producerID = -1 },
		"sequence":    func(e *snapshotEntry) { e.lastSequence = -2 },
		"offset":      func(e *snapshotEntry) { e.lastOffset = -2 },
		"txn":         func(e *snapshotEntry) { e.txnFirstOffset = -2 },
		"delta":       func(e *snapshotEntry) { e.offsetDelta = -1 },
		"base offset": func(e *snapshotEntry) { e.lastOffset, e.offsetDelta = 3, 4 },
		"timestamp":   func(e *snapshotEntry) { e.timestampMs = -2 },
	} {
		bad := good
		change(&bad)
		if _, err := decodeSnapshot(encodeSnapshot([]snapshotEntry{bad})); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	if _, err := decodeSnapshot(encodeSnapshot([]snapshotEntry{good, good})); err == nil {
		t.Error("a producer was accepted twice")
	}
}

// newestSnapshot looks in dir for the newest usable snapshot that is not beyond maxOffset.
func newestSnapshot(fsys vfs.FS, dir string, maxOffset int64) (producerBase, error) {
	l := &Log{e: &Engine{o: Options{FS: fsys}}, path: dir}
	return l.producerBase(nil, 0, maxOffset, nil)
}

func TestSnapshotFiles(t *testing.T) {
	fsys := newSideDir(t)
	entry := func(lastOffset int64) []snapshotEntry {
		return []snapshotEntry{{producerID: lastOffset, lastOffset: lastOffset, coordinatorEpoch: -1, txnFirstOffset: -1}}
	}
	load := func(maxOffset, want int64, skipped int) {
		t.Helper()
		got, err := newestSnapshot(fsys, sideDir, maxOffset)
		sideMust(t, err)
		if got.newest != want || len(got.unusables) != skipped {
			t.Fatalf("up to %d: offset %d, skipped %v; want %d, %d", maxOffset, got.newest, got.unusables, want, skipped)
		}
		if want >= 0 && got.snapshot[0].lastOffset != want-1 {
			t.Fatalf("entries of another snapshot: %+v", got.snapshot)
		}
	}
	load(100, -1, 0)
	for _, offset := range []int64{10, 20, 30, 40} {
		sideMust(t, writeSnapshot(fsys, sideDir, offset, entry(offset-1)))
	}
	load(100, 40, 0)
	load(40, 40, 0)
	load(39, 30, 0)
	load(9, -1, 0)

	// A23, B-A4: a broken one is passed over: torn, zeroed, or one that speaks of offsets behind itself.
	sidePut(t, fsys, snapshotFileName(40), encodeSnapshot(entry(39))[:20])
	load(100, 30, 1)
	sidePut(t, fsys, snapshotFileName(30), make([]byte, 56))
	load(100, 20, 2)
	sidePut(t, fsys, snapshotFileName(20), encodeSnapshot(entry(20)))
	load(100, 10, 3)
	sidePut(t, fsys, snapshotFileName(10), nil)
	load(100, -1, 4)

	sidePut(t, fsys, snapshotFileName(35)+vfs.TempSuffix, []byte("left behind"))
	sidePut(t, fsys, logFileName(50), nil)
	sideMust(t, removeSnapshotsAbove(fsys, sideDir, 30))
	mustList(t, fsys, 10, 20, 30)
	if list, err := fsys.ReadDir(sideDir); err != nil || len(list) != 4 {
		t.Fatal(list, err)
	}
	mustList(t, fsys.Crash(vfs.LoseUnsynced), 10, 20, 30) // durably
	sideMust(t, removeSnapshotsBelow(fsys, sideDir, 20))
	mustList(t, fsys, 20, 30)
	sideMust(t, removeSnapshotsAbove(fsys, sideDir, -1))
	mustList(t, fsys)

	if _, err := newestSnapshot(fsys, "no", 1); err == nil {
		t.Error("a missing directory is no error")
	}
}

func mustList(t *testing.T, fsys vfs.FS, want ...int64) {
	t.Helper()
	got, err := listSnapshots(fsys, sideDir)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("snapshots are %v, %v; want %v", got, err, want)
	}
}

// A disk that cannot deliver a snapshot does not stop a start either.
func TestSnapshotReadError(t *testing.T) {
	m := newSideDir(t)
	sideMust(t, writeSnapshot(m, sideDir, 10, nil))
	sideMust(t, writeSnapshot(m, sideDir, 20, nil))
	f := vfs.NewFault(m)
	f.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpRead && strings.Contains(op.Name, "20") }, Err: vfs.ErrDiskBroken})
	got, err := newestSnapshot(f, sideDir, 100)
	if err != nil || got.offset != 10 || len(got.unusables) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestSnapshotCrash(t *testing.T) {
	put := func(id int64) func(vfs.FS) error {
		return func(fsys vfs.FS) error {
			return writeSnapshot(fsys, sideDir, 10, []snapshotEntry{{producerID: id, coordinatorEpoch: -1, txnFirstOffset: -1}})
		}
	}
	atEveryCrash(t, put(1), put(2), func(after vfs.FS, done bool) {
		got, err := newestSnapshot(after, sideDir, 10)
		if err != nil || len(got.snapshot) != 1 || len(got.unusables) != 0 || done && got.snapshot[0].producerID != 2 {
			t.Fatalf("done %v: %+v, %v", done, got, err)
		}
	})
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(encodeSnapshot(snapshotGolden), false)
	f.Add(encodeSnapshot(nil), true)
	f.Fuzz(func(t *testing.T, data []byte, fix bool) {
		if fix && len(data) >= snapshotHeaderSize { // get behind the checksum
			sum := crc32.Checksum(data[snapshotCRCFrom:], castagnoli)
			data = append([]byte{data[0], data[1], byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, data[snapshotCRCFrom:]...)
		}
		entries, err := decodeSnapshot(data)
		if err != nil {
			return
		}
		if string(encodeSnapshot(entries)) != string(data) {
			t.Fatalf("%x is written as %x", data, encodeSnapshot(entries))
		}
		tab := newProducerTable(1)
		tab.restore(entries)
		tab.firstUnstableOffset()
		if len(tab.snapshot()) != len(entries) {
			t.Fatal("producers were lost")
		}
	})
}
