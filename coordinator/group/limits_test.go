package group

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offset.metadata.max.bytes counts what Java calls characters: so does Kafka, and clients of it rely on that.
func TestTooLong(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "1234": false, "12345": true, "ääää": false, "äääää": true, "😀😀": false, "😀😀1": true, "\xff\xff\xff\xff": false, "\xff\xff\xff\xff\xff": true,
	} {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Metadata = &text
		if got := tooLong(&p, 4); got != want {
			t.Errorf("%q is too long for 4: %v", text, got)
		}
	}
	if p := kmsg.NewOffsetCommitRequestTopicPartition(); tooLong(&p, 0) {
		t.Error("no metadata are too long")
	}
}

func TestBlank(t *testing.T) {
	for _, id := range []string{"", " ", "\t \n", "\x00"} {
		if !blank(id) {
			t.Errorf("%q can be seen", id)
		}
	}
	for _, id := range []string{"a", " a ", "\u00a0", strings.Repeat(" ", 100) + "x"} {
		if blank(id) {
			t.Errorf("%q cannot be seen", id)
		}
	}
}
