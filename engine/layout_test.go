package engine

import (
	"strings"
	"testing"
)

func TestPartitionDirNames(t *testing.T) {
	good := map[string]TopicPartition{
		"orders-0":                         {"orders", 0},
		"a.b_c-D-12":                       {"a.b_c-D", 12},
		"__consumer_offsets-49":            {"__consumer_offsets", 49},
		"t-0-delete-2147483647":            {"t-0-delete", 2147483647},
		"-1":                               {}, // no topic
		"orders-01":                        {},
		"orders-+1":                        {},
		"orders--1":                        {"orders-", 1},
		"orders-2147483648":                {},
		"orders":                           {},
		"orders-":                          {},
		"or ders-0":                        {},
		"../x-0":                           {},
		"..-0":                             {},
		"orders-0.cleaned":                 {},
		"orders-0-future":                  {},
		"recovery-point-offset-checkpoint": {},
		"t-0.0123456789abcdef0123456789abcdef-delete": {},
	}
	for name, want := range good {
		got, ok := parsePartitionDirName(name)
		if ok != (want != TopicPartition{}) || got != want {
			t.Errorf("%s: got %v, %v", name, got, ok)
		}
		if ok && partitionDirName(got) != name {
			t.Errorf("%s becomes %s", name, partitionDirName(got))
		}
	}
}

func TestDeletedDirNames(t *testing.T) {
	id := [16]byte{0x01, 0xab, 15: 0xff}
	name := deletedDirName(TopicPartition{"orders", 7}, id)
	if name != "orders-7.01ab00000000000000000000000000ff-delete" {
		t.Fatal(name)
	}
	long := deletedDirName(TopicPartition{strings.Repeat("x", 249), 2147483647}, id)
	if len(long) != dirNameBytesMax || !isDeletedDirName(long) {
		t.Fatalf("%d bytes: %s", len(long), long)
	}
	for name, want := range map[string]bool{
		name: true,
		"a.b-0.01ab00000000000000000000000000ff-delete":    true,
		"orders-7.01AB00000000000000000000000000ff-delete": false,
		"orders-7.01ab-delete":                             false,
		"orders-x.01ab00000000000000000000000000ff-delete": false,
		"orders.01ab00000000000000000000000000ff-delete":   false,
		"-7.01ab00000000000000000000000000ff-delete":       false,
		"orders-7": false,
		"x-delete": false,
		"-delete":  false,
		"":         false,
	} {
		if got := isDeletedDirName(name); got != want {
			t.Errorf("isDeletedDirName(%q) = %v", name, got)
		}
		if _, ok := parsePartitionDirName(name); ok && want {
			t.Errorf("%q is a partition, too", name)
		}
	}
}

func TestFileNames(t *testing.T) {
	got := []string{logFileName(0), indexFileName(7), timeIndexFileName(123), txnIndexFileName(1 << 40), snapshotFileName(9223372036854775807)}
	want := []string{"00000000000000000000.log", "00000000000000000007.index", "00000000000000000123.timeindex",
		"00000001099511627776.txnindex", "09223372036854775807.snapshot"}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("got %s, want %s", got[i], want[i])
		}
	}
	for name, want := range map[string]int64{
		"00000000000000000042.log":         42,
		"09223372036854775807.log":         9223372036854775807,
		"09223372036854775808.log":         -1, // overflows
		"0000000000000000042.log":          -1,
		"000000000000000000042.log":        -1,
		"-0000000000000000042.log":         -1,
		"+0000000000000000042.log":         -1,
		"00000000000000000042.log.deleted": -1,
		"00000000000000000042.index":       -1,
		".log":                             -1,
	} {
		got, ok := parseBaseOffset(name, logSuffix)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: got %d, %v", name, got, ok)
		}
	}
}
