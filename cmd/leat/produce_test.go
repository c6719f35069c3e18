package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatmq/leat/client/leattest"
)

// What goes in by produce comes out by consume, in every form; and what is wrong is said in a sentence.
func TestProduceConsume(t *testing.T) {
	b := leattest.New(t)
	tr := &transcript{t: t, addr: b.Addr()}
	tr.feed("one\ntwo\n\nfour without an end", "produce lines")
	tr.run("consume lines --from-beginning --exit-at-end")
	tr.run("consume lines --from-beginning --exit-at-end --output json")
	tr.feed("k:v\nno key\n:\n", "produce one --key-separator :")
	tr.run("consume one --from-beginning --exit-at-end --key-separator :")
	tr.run("topic create keyed --partitions 2")
	tr.feed("a:1\nb:2\na:3:4\n:\n", "produce keyed --key-separator : --output json")
	tr.run("consume keyed --from-beginning --exit-at-end --key a")
	tr.run("consume keyed --from-beginning --exit-at-end --key-separator \\t --partition 0")
	tr.run("consume keyed --from-beginning --exit-at-end --count")
	tr.run("consume keyed --from-beginning --exit-at-end --count --output json --key none")
	tr.feed(`{"key":"k","value":"v","headers":[{"key":"h","value":"1"},{"key":"h","value":null}],"timestamp":1000}`+"\n\n"+
		`{"value":{"a":1},"timestamp":2000,"headers":{"x":"y"}}`+"\n"+`{"keyBase64":"/w==","value":null,"timestamp":3000,"topic":"other","offset":7}`+"\n",
		"produce json --input json --header common=yes --compression zstd")
	tr.run("consume json --from-beginning --exit-at-end --output json")
	tr.run("consume json --from-beginning --exit-at-end --output hex --key-separator :")
	tr.run(`consume json --offset -2 --exit-at-end --template %t/%p@%o:%T,%d:%K:%S:%h:%k=%s\n`)
	tr.run("consume json --offset 1 --max-messages 1")
	tr.run("consume json --offset earliest --max-messages 2 --template %o;")
	tr.run("consume json --offset latest --exit-at-end")
	tr.run("consume json --offset 3 --exit-at-end")
	tr.run("consume json --from-time 1970-01-01T00:00:01.5Z --exit-at-end --template %o;")
	tr.run("consume json --from-time 1h --idle-timeout 10ms")
	tr.run("consume lines keyed --from-beginning --exit-at-end --count")
	tr.feed("6b:-\n-:76\n:\n", "produce hex --input hex --key-separator :")
	tr.run("consume hex --from-beginning --exit-at-end --output hex --key-separator :")
	tr.feed("x\n", "produce hex --acks 1") // it may be seen only later
	tr.feed("x\n", "produce hex --acks 0")
	tr.feed("x\n", "produce hex --acks 0 --output json")
	tr.feed("", "produce hex")
	tr.compare("produce/formats")
}

func TestProduceMistakes(t *testing.T) {
	b := leattest.New(t, "auto.create.topics.enable=false")
	dir := t.TempDir()
	tr := &transcript{t: t, addr: b.Addr(), replace: map[string]string{dir: "DIR"}}
	tr.run("topic create t --config max.message.bytes=2000 --partitions 2")
	tr.feed("x\n", "produce nowhere")
	tr.feed("x\n", "produce no/slash")
	tr.feed("x\n", "produce t --partition 2")
	tr.feed("x\n", "produce t --partition -1")
	tr.feed(strings.Repeat("x", 3000)+"\n", "produce t --partition 0")
	tr.feed("fine\n"+strings.Repeat("x", 3000)+"\nafter\n", "produce t --max-request-size 2000")
	tr.feed(`{"value":"a"}`+"\n"+`{"value":5}`+"\n"+`{"value":"c"}`+"\n", "produce t --input json")
	tr.feed(`{"value":5}`+"\n", "produce t --input json --output json")
	tr.feed(`{"value":"v","partition":7}`+"\n", "produce t --input json --keep-partition")
	tr.feed("zz\n", "produce t --input hex")
	for name, text := range map[string]string{"a.json": `{"value":"a"}`, "b.json": "\n{]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tr.run("produce t " + dir)
	tr.run("produce t " + dir + "/missing")
	tr.feed("", "produce t "+dir+"/a.json "+dir+"/b.json --input json")
	for _, args := range []string{"--input xml", "--acks 2", "--compression rar", "--rate -1", "--linger -1s", "--max-request-size 1", "--header h", "--keep-partition", `--key-separator \q`,
		"--input json --key-separator :", "--input json --keep-partition --partition 0", "--timeout 0s", "--output yaml"} {
		tr.run("produce t " + args)
	}
	tr.run("produce")
	tr.compare("produce/mistakes")

	tr.run("topic create empty --partitions 2")
	tr.run("consume nowhere")
	tr.run("consume empty --partition 0,2")
	tr.run("consume empty --offset 100 --partition 1")
	for _, args := range []string{"--offset first", "--offset +5", "--from-time yesterday", "--from-time 1969-01-01T00:00:00Z", "--from-beginning --offset 5", "--output xml", "--template %q",
		"--template %s --output json", "--output json --key-separator :", `--key-separator \`, "--max-messages -1", "--idle-timeout -1s", "--isolation-level serializable", "--partition -1", "--timeout 0s"} {
		tr.run("consume t " + args)
	}
	tr.run("consume")
	tr.compare("produce/consume-mistakes")
}

// Servers that are not there, or something else, are one sentence within the time limit.
func TestProduceWrongServers(t *testing.T) {
	web, secure := httptest.NewServer(nil), httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer web.Close()
	defer secure.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for addr, says := range map[string]string{
		"127.0.0.1:1":                              "127.0.0.1:1 cannot be reached",
		strings.TrimPrefix(web.URL, "http://"):     "give --bootstrap-server the address of a Kafka listener",
		strings.TrimPrefix(secure.URL, "https://"): "or --tls when it is one with TLS",
		silent.Addr().String():                     "did not answer in time",
	} {
		for _, command := range []string{"produce t", "consume t"} {
			began := time.Now()
			code, out, errs := leat(append(strings.Fields(command), "--bootstrap-server", addr, "--timeout", "500ms")...)
			if code != exitFailed || out != "" || !strings.Contains(errs, says) || !strings.Contains(errs, addr) || strings.Count(errs, "\n") != 1 || time.Since(began) > patience {
				t.Errorf("%s on %s: exit code %d, %s%s", command, addr, code, out, errs)
			}
		}
	}
}

// interruptedReader gives lines, and then is interrupted when it is asked for more: what it gave has been taken then.
type interruptedReader struct {
	lines     string
	interrupt func()
	end       chan struct{}
}

func (r *interruptedReader) Read(p []byte) (int, error) {
	if r.lines == "" {
		r.interrupt()
		<-r.end
		return 0, errors.New("the end")
	}
	n := copy(p, r.lines)
	r.lines = r.lines[n:]
	return n, nil
}

// Ctrl-C sends what was read, however long it was to linger, and says what is written.
func TestProduceInterrupted(t *testing.T) {
	b := leattest.New(t)
	ctx, cancel := context.WithCancel(context.Background())
	r := &interruptedReader{lines: "one\ntwo\nhalf a li", interrupt: cancel, end: make(chan struct{})}
	defer close(r.end)
	code, out, errs := leatOn(ctx, r, "produce", "t", "--linger", "1h", "--bootstrap-server", b.Addr())
	if code != exitFailed || out != "2 records are written to t.\n" || errs != "leat: interrupted; the rest of the input was not read\n" {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	if _, out, _ := leat("consume", "t", "--from-beginning", "--exit-at-end", "--bootstrap-server", b.Addr()); out != "one\ntwo\n" {
		t.Errorf("%q", out)
	}
}

// The rate is kept, with a clock that only sleeping moves.
func TestPacer(t *testing.T) {
	var (
		now   = time.Unix(1e9, 0)
		slept time.Duration
	)
	p := pacer{rate: 250, now: func() time.Time { return now }, sleep: func(_ context.Context, d time.Duration) error {
		slept += d
		now = now.Add(d)
		return nil
	}}
	for range 501 {
		if err := p.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if slept != 2*time.Second {
		t.Errorf("501 things took %v", slept)
	}
	now, slept = now.Add(time.Hour), 0 // nothing came for long: that is not made up for
	for range 26 {
		_ = p.wait(t.Context())
	}
	if slept != 100*time.Millisecond {
		t.Errorf("after a pause, 26 things took %v", slept)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sleepFor(ended, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestProgressLine(t *testing.T) {
	for want, got := range map[string]string{
		"10 records, 2.0 KiB of 4.0 KiB (50%), 5 records/s": progressLine(10, 2048, 4096, 2*time.Second),
		"0 records, 0 B, 0 records/s":                       progressLine(0, 0, 0, 0),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Several runs at once share nothing.
func TestProduceTogether(t *testing.T) {
	b := leattest.New(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if code, _, errs := leatOn(context.Background(), strings.NewReader(strings.Repeat("x\n", 1000)), "produce", "t", "--bootstrap-server", b.Addr()); code != 0 {
				t.Errorf("exit code %d, %s", code, errs)
			}
		})
	}
	all.Wait()
	if _, out, _ := leat("consume", "t", "--from-beginning", "--exit-at-end", "--count", "--bootstrap-server", b.Addr()); out != "4000\n" {
		t.Errorf("%q", out)
	}
}

// produceRecords writes values to a topic.
func produceRecords(t *testing.T, addr, topic, lines string) {
	t.Helper()
	if code, out, errs := leatOn(t.Context(), strings.NewReader(lines), "produce", topic, "--bootstrap-server", addr); code != 0 {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
}

// Shells complete the names of topics, and the values of flags that have few.
func TestCompletion(t *testing.T) {
	b := leattest.New(t)
	produceRecords(t, b.Addr(), "orders", "x\n")
	produceRecords(t, b.Addr(), "other", "x\n")
	t.Setenv("LEAT_BOOTSTRAP_SERVER", b.Addr())
	for args, want := range map[string]string{
		"consume |o":                  "orders other",
		"consume |orders |":           "other",
		"produce |ord":                "orders",
		"topic |describe |ot":         "other",
		"topic |delete |or":           "orders",
		"produce |x |--compression |": "none gzip snappy lz4 zstd",
		"consume |--output |":         "text json hex",
	} {
		words := append([]string{"__completeNoDesc"}, strings.Split(args, "|")...)
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
		}
		code, out, errs := leat(words...)
		if got, _, _ := strings.Cut(strings.Join(strings.Fields(out), " "), " :"); code != 0 || got != want {
			t.Errorf("%s: exit code %d, %q, want %q; %s", args, code, got, want, errs)
		}
	}
	t.Setenv("LEAT_BOOTSTRAP_SERVER", "127.0.0.1:1")
	if code, out, _ := leat("__completeNoDesc", "consume", ""); code != 0 || strings.TrimSpace(out) != ":4" {
		t.Errorf("without a broker: exit code %d, %q", code, out)
	}
}
