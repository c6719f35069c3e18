//go:build linux

package diskfull

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leatmq/leat/interop/harness"
)

// What other clients do with the answer of a full disk: librdkafka, with and without idempotence, and Java keep the record, send it again, and it is there
// once when space has returned. (franz-go is what TestDiskFull produces with.)
func TestClientsRetryOnFullDisk(t *testing.T) {
	d := mount(t, "tmpfs")
	f := newFilled(t, d)
	harness.Need(t, "kcat", "java", "mvn")
	f.create("clients", 1)
	f.untilFull(0)
	f.cancel() // the producers give up what they have not sent
	f.wait.Wait()
	d.occupy(diskBytes)
	big := strings.Repeat("x", 100_000) // more than what may be left in a segment
	kcat := func(name string, args ...string) func() error {
		return func() error {
			_, err := harness.TryProgram(limit, strings.NewReader(name+big+"\n"), "kcat", append([]string{"-P", "-b", f.peer.Addr, "-t", "clients", "-p", "0"}, args...)...)
			return err
		}
	}
	clients := map[string]func() error{
		"librdkafka":            kcat("librdkafka"),
		"librdkafka-idempotent": kcat("librdkafka-idempotent", "-X", "enable.idempotence=true"),
		"java": func() error {
			_, err := harness.TryProgram(limit, strings.NewReader("java"+big+"\n"), "bash", harness.KafkaScript(), "tool", "org.apache.kafka.tools.ConsoleProducer",
				"--bootstrap-server", f.peer.Addr, "--topic", "clients", "--message-send-max-retries", "1000000", "--retry-backoff-ms", "200") // by default this tool gives up after three
			return err
		},
	}
	results := map[string]chan error{}
	for name, run := range clients {
		results[name] = make(chan error, 1)
		go func() { results[name] <- run() }()
	}
	time.Sleep(8 * time.Second) // the JVM needs a few to send its first
	for name, r := range results {
		select {
		case err := <-r:
			t.Errorf("%s did not wait for space: %v", name, err)
			r <- err
		default:
		}
	}
	d.vacate()
	f.deleteRecords()
	for name, r := range results {
		select {
		case err := <-r:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(limit):
			t.Fatalf("%s does not end", name)
		}
	}
	out := harness.Program(t, limit, nil, "kcat", "-C", "-b", f.peer.Addr, "-t", "clients", "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%s\n")
	got := map[string]int{}
	for line := range strings.Lines(out) {
		got[strings.TrimSpace(strings.ReplaceAll(line, big, ""))]++
	}
	if len(got) != len(clients) || got["librdkafka"] != 1 || got["librdkafka-idempotent"] != 1 || got["java"] != 1 {
		t.Fatalf("on disk: %v", fmt.Sprint(got))
	}
}
