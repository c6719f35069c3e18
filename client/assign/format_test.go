package assign

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is written is what Kafka's schema says: read and written again by a codec made from it.
func TestSubscriptionFormat(t *testing.T) {
	for _, s := range []Subscription{
		{Topics: []string{"a"}, Generation: -1},
		{Topics: []string{"a", "b"}, UserData: []byte{1, 2}, Owned: tps("a-0 a-3 b-1"), Generation: 7, Rack: "r1"},
		{Topics: []string{}, UserData: []byte{}, Generation: 0},
	} {
		b := s.Append(nil)
		var k kmsg.ConsumerMemberMetadata
		if err := k.ReadFrom(b); err != nil {
			t.Fatal(err)
		}
		if again := k.AppendTo(nil); !bytes.Equal(b, again) || k.Version != 3 || k.Generation != s.Generation {
			t.Errorf("%+v:\n got %x\nwant %x", s, b, again)
		}
		got, err := ParseSubscription(b)
		if err != nil || !sameSubscription(&got, &s) {
			t.Errorf("%+v became %+v, %v", s, got, err)
		}
	}
}

func sameSubscription(a, b *Subscription) bool {
	return strings.Join(a.Topics, " ") == strings.Join(b.Topics, " ") && bytes.Equal(a.UserData, b.UserData) && (a.UserData == nil) == (b.UserData == nil) &&
		reflect.DeepEqual(a.Owned, b.Owned) && a.Generation == b.Generation && a.Rack == b.Rack
}

// Equal subscriptions have equal bytes, whatever their order (KAFKA-12898: a broker compares them).
func TestSubscriptionOrder(t *testing.T) {
	a := Subscription{Topics: []string{"b", "a"}, Owned: tps("b-1 a-1 b-0")}
	b := Subscription{Topics: []string{"a", "b"}, Owned: tps("a-1 b-0 b-1")}
	if !bytes.Equal(a.Append(nil), b.Append(nil)) {
		t.Error("the order shows")
	}
	if a.Topics[0] != "b" || a.Owned[0].Topic != "b" {
		t.Error("the caller's slices were changed")
	}
}

// Older and newer versions are read: what is missing has its default, what is more is passed over.
func TestSubscriptionVersions(t *testing.T) {
	rack := "r"
	k := kmsg.ConsumerMemberMetadata{Topics: []string{"t"}, UserData: []byte{9}, Generation: 5, Rack: &rack,
		OwnedPartitions: []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: "t", Partitions: []int32{2}}}}
	for version := range int16(5) {
		k.Version = version
		b := k.AppendTo(nil)
		if version == 4 {
			b = append(b, "of the future"...)
		}
		got, err := ParseSubscription(b)
		want := Subscription{Topics: []string{"t"}, UserData: []byte{9}, Generation: -1}
		if version >= 1 {
			want.Owned = tps("t-2")
		}
		if version >= 2 {
			want.Generation = 5
		}
		if version >= 3 {
			want.Rack = "r"
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
	}
}

func TestAssignmentFormat(t *testing.T) {
	for _, a := range []Assignment{{}, {Partitions: tps("a-0 a-1 b-7"), UserData: []byte("x")}} {
		b := a.Append(nil)
		var k kmsg.ConsumerMemberAssignment
		if err := k.ReadFrom(b); err != nil {
			t.Fatal(err)
		}
		if again := k.AppendTo(nil); !bytes.Equal(b, again) {
			t.Errorf("got %x, want %x", b, again)
		}
		if got, err := ParseAssignment(b); err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%+v became %+v, %v", a, got, err)
		}
	}
	if a, err := ParseAssignment(nil); err != nil || a.Partitions != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

// Every cut and every lying count is an error, and takes no memory.
func TestFormatBadInput(t *testing.T) {
	s := Subscription{Topics: []string{"a", "b"}, UserData: []byte{1, 2}, Owned: tps("a-0 a-3 b-1"), Generation: 7, Rack: "r1"}
	whole := s.Append(nil)
	for n := range len(whole) {
		if _, err := ParseSubscription(whole[:n]); err == nil {
			t.Errorf("cut at %d is fine", n)
		}
	}
	a := Assignment{Partitions: s.Owned, UserData: []byte{1}}
	whole = a.Append(nil)
	for n := 1; n < len(whole); n++ {
		if _, err := ParseAssignment(whole[:n]); err == nil {
			t.Errorf("cut at %d is fine", n)
		}
	}
	for _, b := range [][]byte{
		{0xff, 0xff, 0, 0, 0, 0}, // version -1
		{0, 3, 0x7f, 0xff, 0xff, 0xff},
		{0, 3, 0xff, 0xff, 0xff, 0xff},
	} {
		if _, err := ParseSubscription(b); err == nil {
			t.Errorf("%x is fine", b)
		}
		if _, err := ParseAssignment(b); err == nil {
			t.Errorf("%x is fine", b)
		}
	}
	lying := binary.BigEndian.AppendUint32([]byte{0, 1, 0, 0, 0, 1, 0, 1, 't'}, math.MaxInt32)
	if n := testing.AllocsPerRun(10, func() { _, _ = ParseAssignment(lying) }); n > 5 {
		t.Errorf("%v allocations", n)
	}
}

// The bytes are those of Kafka 4.4's own classes (testdata/Oracle.java, called with "vectors").
func TestJavaBytes(t *testing.T) {
	owned := tps("b-1 a-0 b-0")
	for _, v := range []struct {
		name string
		got  []byte
		want string
	}{
		{"sticky user data", Sticky.UserData(owned, 7), "00000002000161000000010000000000016200000002000000000000000100000007"},
		{"cooperative user data", CooperativeSticky.UserData(owned, 7), "00000007"},
		{"new sticky", Sticky.UserData(nil, -1), ""},
		{"new cooperative", CooperativeSticky.UserData(nil, -1), "ffffffff"},
		{"subscription", (&Subscription{Topics: []string{"b", "a"}, UserData: []byte{1, 2}, Owned: owned, Generation: 7, Rack: "r1"}).Append(nil),
			"0003000000020001610001620000000201020000000200016100000001000000000001620000000200000000000000010000000700027231"},
		{"bare subscription", (&Subscription{Topics: []string{"a"}, Generation: -1}).Append(nil), "000300000001000161ffffffff00000000ffffffffffff"},
		{"assignment", (&Assignment{Partitions: tps("a-0 b-7"), UserData: []byte{1}}).Append(nil), "000300000002000161000000010000000000016200000001000000070000000101"},
		{"bare assignment", (&Assignment{}).Append(nil), "000300000000ffffffff"},
	} {
		if got := hex.EncodeToString(v.got); got != v.want {
			t.Errorf("%s:\n got %s\nwant %s", v.name, got, v.want)
		}
	}
}

func FuzzFormats(f *testing.F) {
	s := Subscription{Topics: []string{"a", "b"}, UserData: []byte{1, 2}, Owned: tps("a-0 a-3 b-1"), Generation: 7, Rack: "r1"}
	f.Add(s.Append(nil))
	a := Assignment{Partitions: s.Owned, UserData: []byte{1}}
	f.Add(a.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := ParseSubscription(b); err == nil {
			if again, err := ParseSubscription(s.Append(nil)); err != nil || len(again.Owned) != len(s.Owned) || len(again.Topics) != len(s.Topics) {
				t.Fatalf("%+v, %v", again, err)
			}
		}
		if a, err := ParseAssignment(b); err == nil {
			if again, err := ParseAssignment(a.Append(nil)); err != nil || len(again.Partitions) != len(a.Partitions) {
				t.Fatalf("%+v, %v", again, err)
			}
		}
	})
}
