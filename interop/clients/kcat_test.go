package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leatmq/leat/interop/harness"
)

// kcat's separators: neither is in the messages.
const keySeparator = "\t"

func kcatProduce(t *testing.T, addr, topic string, ms []message, args ...string) {
	t.Helper()
	for p, part := range byPartition(ms) {
		var in strings.Builder
		for _, m := range part {
			in.WriteString(m.key + keySeparator + m.value + "\n")
		}
		harness.Program(t, limit, strings.NewReader(in.String()), "kcat",
			append([]string{"-P", "-b", addr, "-t", topic, "-p", fmt.Sprint(p), "-K", keySeparator, "-X", "acks=all"}, args...)...)
	}
}

func kcatConsume(t *testing.T, addr, topic string) []message {
	t.Helper()
	var got []message
	for p := range int32(partitions) {
		out := harness.Program(t, limit, nil, "kcat", "-C", "-b", addr, "-t", topic, "-p", fmt.Sprint(p), "-o", "beginning", "-e", "-q", "-f", "%k"+keySeparator+"%s\n")
		for line := range strings.Lines(out) {
			k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), keySeparator)
			got = append(got, message{p, k, v})
		}
	}
	return got
}

func TestKcat(t *testing.T) {
	harness.Need(t, "kcat")
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := newTopic(t, p, "kcat")
		var want []message
		for _, codec := range codecs {
			ms := messages(codec, perCodec)
			kcatProduce(t, p.Addr, topic, ms, "-z", codec)
			want = append(want, ms...)
		}
		ms := messages("idempotent", perCodec)
		kcatProduce(t, p.Addr, topic, ms, "-X", "enable.idempotence=true")
		want = append(want, ms...)
		same(t, want, kcatConsume(t, p.Addr, topic))
		codecsKept(t, p.Addr, topic, len(want))

		list := harness.Program(t, limit, nil, "kcat", "-L", "-b", p.Addr, "-t", topic)
		if !strings.Contains(list, fmt.Sprintf("topic %q with %d partitions", topic, partitions)) {
			t.Fatalf("kcat -L: %s", list)
		}
		end := harness.Program(t, limit, nil, "kcat", "-Q", "-b", p.Addr, "-t", topic+":0:-1")
		equal(t, "kcat -Q", strings.TrimSpace(end), fmt.Sprintf("%s [0] offset %d", topic, len(byPartition(want)[0])))
	})
}

// TestKcatCreatesTopics produces to a topic that is not there yet.
func TestKcatCreatesTopics(t *testing.T) {
	harness.Need(t, "kcat")
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := topicName("kcat-auto")
		harness.Program(t, limit, strings.NewReader("one\ntwo\n"), "kcat", "-P", "-b", p.Addr, "-t", topic)
		out := harness.Program(t, limit, nil, "kcat", "-C", "-b", p.Addr, "-t", topic, "-o", "beginning", "-e", "-q")
		lines := strings.Fields(out)
		equal(t, "records", len(lines), 2)
	})
}
