package metadata

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// samples has each record type, with and without its optional parts.
func samples() []Record {
	return []Record{
		NoOp{},
		FeatureLevel{Name: "metadata.version", Level: 33},
		FeatureLevel{Name: "x"},
		BrokerRegistration{ID: 7, Epoch: -1, Incarnation: id(1)},
		BrokerRegistration{ID: 7, Epoch: 1 << 40, Incarnation: id(2), Rack: "r1", Fenced: true, Listeners: []Endpoint{
			{Name: "PLAINTEXT", Host: "", Port: 9092, Security: "PLAINTEXT"}, {Name: "S", Host: "h", Port: 1, Security: "SASL_SSL"}}},
		BrokerChange{ID: 7, Epoch: 9, Fenced: true},
		TopicRecord{Name: "orders", ID: id(3)},
		TopicRecord{Name: "__consumer_offsets", ID: id(4), Internal: true},
		PartitionRecord{TopicID: id(3), Partition: 0, Replicas: []int32{7}, ISR: []int32{7}, Leader: 7},
		PartitionRecord{TopicID: id(3), Partition: 300, Replicas: []int32{7, 8, 9}, ISR: []int32{8}, ELR: []int32{7}, Leader: -1, LeaderEpoch: 5, PartitionEpoch: 6},
		PartitionChange{TopicID: id(3), Partition: 1, Leader: NoChange},
		PartitionChange{TopicID: id(3), Partition: 1, Leader: -1, ISR: []int32{}, ELR: []int32{7}},
		PartitionChange{TopicID: id(3), Partition: 1, Leader: 8, Replicas: []int32{8}, ISR: []int32{8}, ELR: []int32{}},
		RemoveTopic{ID: id(3)},
		ConfigRecord{Resource: TopicResource, Name: "orders", Key: "retention.ms", Value: "1000"},
		ConfigRecord{Resource: BrokerResource, Key: "log.retention.ms", Delete: true},
		ConfigRecord{Resource: GroupResource, Name: "billing", Key: "consumer.session.timeout.ms", Value: "50000"},
		ProducerIDs{Broker: 7, BrokerEpoch: 1, Next: 1000},
		snapshotHeader{Offset: 77, Epoch: 2, TimeMs: 1764522000000},
		snapshotTrailer{Records: 12, CRC: 0xdeadbeef},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for _, r := range samples() {
		got, err := DecodeRecord(AppendRecord(nil, r))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%#v came back as %#v, %v", r, got, err)
		}
	}
}

// TestRecordGolden pins the bytes on disk: a record written by one version is read by every later one.
func TestRecordGolden(t *testing.T) {
	var b strings.Builder
	for _, r := range samples() {
		fmt.Fprintf(&b, "%T %+v\n%s\n", r, r, hex.EncodeToString(AppendRecord(nil, r)))
	}
	golden(t, "records.golden", b.String())
}

// golden compares with a file of testdata, or writes it with -rewrite.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-rewrite writes it anew):\n%s", path, got)
	}
}

func TestRecordNewer(t *testing.T) {
	for name, b := range map[string][]byte{
		"unknown type":      {99, 0},
		"type beyond bytes": {0x80, 0x80, 0x01, 0},
		"unknown version":   {typeRemoveTopic, 1, 1, 2, 3},
	} {
		if _, err := DecodeRecord(b); !errors.Is(err, errNewer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecordDamaged(t *testing.T) {
	for _, r := range samples() {
		b := AppendRecord(nil, r)
		for n := range b {
			if got, err := DecodeRecord(b[:n]); err == nil {
				t.Errorf("%d of %d bytes of %T decode as %#v", n, len(b), r, got)
			}
		}
		if _, err := DecodeRecord(append(b, 0)); err == nil {
			t.Errorf("%T with a byte too many decodes", r)
		}
	}
	f := func(name string, b []byte) {
		t.Helper()
		if r, err := DecodeRecord(b); err == nil || errors.Is(err, errNewer) {
			t.Errorf("%s: %#v, %v", name, r, err)
		}
	}
	f("nothing", nil)
	f("all zero", nil)
	f("array longer than the record", append(append([]byte{typePartition, 0}, make([]byte, 17)...), 0xff, 0xff, 0x7f))
	f("string longer than the limit", []byte{typeFeatureLevel, 0, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f("level that is no int16", append([]byte{typeFeatureLevel, 0, 1, 'x'}, 0x80, 0x80, 0x80, 0x01))
	f("boolean 2", []byte{typeBrokerChange, 0, 0, 0, 2})
	f("unknown bits of a change", append(append([]byte{typePartitionChange, 0}, make([]byte, 17)...), 0x10))
	f("leader NoChange written out", append(append([]byte{typePartitionChange, 0}, make([]byte, 17)...), hasLeader, 3))
}

// FuzzDecodeRecord: any bytes give an error or a record that is written and read back as itself.
func FuzzDecodeRecord(f *testing.F) {
	for _, r := range samples() {
		f.Add(AppendRecord(nil, r))
	}
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			return
		}
		again, err := DecodeRecord(AppendRecord(nil, r))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%#v came back as %#v, %v", r, again, err)
		}
	})
}
