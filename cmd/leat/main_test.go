package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/record"
)

const patience = 30 * time.Second

// asLeat makes the test binary the program itself.
const asLeat = "LEAT_TEST_RUN_AS_LEAT"

func TestMain(m *testing.M) {
	if os.Getenv(asLeat) != "" {
		main()
	}
	for _, f := range connectionFlags { // whoever runs the tests may have settings of their own
		_ = os.Unsetenv(variable(f.name))
	}
	_ = os.Setenv(variable("client-config"), os.DevNull)
	os.Exit(m.Run())
}

// leat runs a command line in this process.
func leat(args ...string) (code int, stdout, stderr string) {
	return leatOn(context.Background(), strings.NewReader(""), args...)
}

// leatOn is leat with something on standard input, until ctx ends, which is the same as Ctrl-C.
func leatOn(ctx context.Context, in io.Reader, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetContext(ctx)
	root.SetIn(in)
	root.SetOut(&out)
	root.SetErr(&errs)
	code = run(root, args)
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.properties")
	if err := os.WriteFile(file, []byte("num.partitions=many\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		code int
		says string // in standard error
	}{
		{"version", 0, ""},
		{"config", 0, ""},
		{"--help", 0, ""},
		{"serve --help", 0, ""},
		{"nonsense", exitUsage, "nonsense"},
		{"version extra", exitUsage, "extra"},
		{"version -o xml", exitUsage, "--output"},
		{"produce", exitUsage, "TOPIC is missing"},
		{"serve --nonsense", exitUsage, "--nonsense"},
		{"serve --data-dir=", exitUsage, "--data-dir"},
		{"config --config=", exitUsage, "--config"},
		{"serve --set num.partitions", exitUsage, "key=value"},
		{"serve --set num.partition=3", exitUsage, "num.partitions"},
		{"serve --set num.partitions=many", exitUsage, "num.partitions"},
		{"serve --set retention.ms=5", exitUsage, "retention.ms"},
		{"serve --listen localhost", exitUsage, `--listen: "localhost" has no port; expected HOST:PORT`},
		{"serve --listen localhost:99999", exitUsage, "is not a number from 0 to 65535; expected HOST:PORT"},
		{"serve --listen localhost:1 --listen localhost:1", exitUsage, `--listen: "localhost:1" is there twice`},
		{"serve --listen PLAINTEXT://a:1", exitUsage, "is set with the key listeners"},
		{"serve --log-level loud", exitUsage, "loud"},
		{"serve --log-format xml", exitUsage, "xml"},
		{"config --output yaml", exitUsage, "yaml"},
		{"config --config " + file, exitUsage, "num.partitions"},
		{"config --config " + file + ".missing", exitFailed, ".missing"},
	} {
		code, _, stderr := leat(strings.Fields(tc.args)...)
		if code != tc.code || !strings.Contains(stderr, tc.says) {
			t.Errorf("leat %s: exit %d, want %d; standard error %q, want %q in it", tc.args, code, tc.code, stderr, tc.says)
		}
		if code != 0 && !strings.HasPrefix(stderr, "leat: ") {
			t.Errorf("leat %s: standard error %q", tc.args, stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	var of struct{ Version, Protocol, Go, Platform string }
	if code, out, _ := leat("version", "-o", "json"); code != 0 || json.Unmarshal([]byte(out), &of) != nil || of.Version == "" || of.Protocol != "4.4" || of.Go == "" || of.Platform == "" {
		t.Errorf("%d, %s", code, out)
	}
	code, out, _ := leat("version")
	if code != 0 || !regexp.MustCompile(`^leat \S+, Kafka protocol 4\.4, go\S+ \w+/\w+\n$`).MatchString(out) {
		t.Fatalf("exit %d, %q", code, out)
	}
}

func TestConfigTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.properties")
	if err := os.WriteFile(file, []byte("num.partitions=3\nnode.id=7\nlog.dirs=/from/file\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := leat("config", "--config", file, "--data-dir", "/from/flag", "--set", "node.id=8", "--listen", "127.0.0.1:0", "--listen", "[::1]:1234")
	if code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	rows := map[string][]string{}
	columns := regexp.MustCompile(`\s{2,}`)
	for line := range strings.Lines(out) {
		cells := columns.Split(strings.TrimSpace(line), -1)
		rows[cells[0]] = cells[1:]
	}
	for key, want := range map[string]string{
		"KEY":                       "VALUE DEFAULT SOURCE",
		"num.partitions":            "3 1 file",
		"node.id":                   "8 1 flag",
		"log.dirs":                  "/from/flag data flag",
		"auto.create.topics.enable": "true true default",
	} {
		if got := strings.Join(rows[key], " "); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if !strings.Contains(out, "PLAINTEXT://127.0.0.1:0,PLAINTEXT") && !strings.Contains(out, "127.0.0.1:0") {
		t.Errorf("the listeners are missing:\n%s", out)
	}
	brokerKeys := 0
	for _, k := range config.Keys() {
		if k.Scope == config.BrokerScope {
			brokerKeys++
		}
	}
	if len(rows)-1 != brokerKeys {
		t.Errorf("%d rows for %d keys", len(rows)-1, brokerKeys)
	}
}

func TestConfigJSON(t *testing.T) {
	code, out, stderr := leat("config", "-o", "json", "--set", "broker.rack=here")
	if code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	var rows []configRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, r := range rows {
		if r.Doc == "" || r.Source == "" {
			t.Errorf("%+v", r)
		}
		switch r.Name {
		case "broker.rack":
			found++
			if r.Value == nil || *r.Value != "here" || r.Source != "flag" || r.Dynamic {
				t.Errorf("%+v", r)
			}
		case "log.retention.ms":
			found++
			if r.Value != nil || !r.Dynamic {
				t.Errorf("%+v", r)
			}
		}
	}
	if found != 2 {
		t.Fatal("rows are missing")
	}
}

// process is a running `leat serve`.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	addr   string // of the ready line
	mu     sync.Mutex
	stderr strings.Builder
	ended  chan struct{}
}

// serveProcess starts `leat serve` and waits for its ready line.
func serveProcess(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := startProcess(t, append([]string{"serve", "--data-dir", dir}, args...)...)
	deadline := time.After(patience)
	for p.addr == "" {
		select {
		case <-p.ended:
		case <-deadline:
		case <-time.After(time.Millisecond):
			p.addr = p.ready()
			continue
		}
		t.Fatalf("leat is not ready:\n%s", p.log())
	}
	return p
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asLeat+"=1")
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for r := bufio.NewReader(pipe); ; {
			line, err := r.ReadString('\n')
			p.mu.Lock()
			p.stderr.WriteString(line)
			p.mu.Unlock()
			if err != nil {
				break
			}
		}
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

var readyLine = regexp.MustCompile(`(?m)^leat is ready on (\S+)$`)

func (p *process) ready() string {
	if m := readyLine.FindStringSubmatch(p.log()); m != nil {
		return m[1]
	}
	return ""
}

// wait returns the exit code, which must come in time.
func (p *process) wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("still running after %v:\n%s", within, p.log())
		return -1
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// conn is a raw client connection.
type conn struct {
	t        testing.TB
	c        net.Conn
	corr     int32
	clientID string // "" for none
}

func (p *process) dial() *conn {
	p.t.Helper()
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return &conn{t: p.t, c: c}
}

// ask sends a request and reads its answer.
func (c *conn) ask(req kmsg.Request) (kmsg.Response, error) {
	c.corr++
	_ = c.c.SetDeadline(time.Now().Add(patience))
	if _, err := c.c.Write(c.formatter().AppendRequest(nil, req, c.corr)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, int(size[0])<<24|int(size[1])<<16|int(size[2])<<8|int(size[3]))
	if _, err := io.ReadFull(c.c, b); err != nil {
		return nil, err
	}
	b = b[4:]
	if req.IsFlexible() && req.Key() != 18 {
		b = b[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, resp.ReadFrom(b)
}

func (c *conn) formatter() *kmsg.RequestFormatter {
	if c.clientID == "" {
		return kmsg.NewRequestFormatter()
	}
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.clientID))
}

// produce sends one record with acks all; nil when it was acknowledged.
func (c *conn) produce(topic, value string) error {
	b := record.NewBuilder(record.Options{})
	b.Append(time.Now().UnixMilli(), []byte(value), []byte(value), nil)
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = b.Bytes()
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		return fmt.Errorf("code %d", code)
	}
	return nil
}

// touch makes a topic by asking for it.
func (c *conn) touch(topic string) {
	c.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, true
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	if _, err := c.ask(req); err != nil {
		c.t.Fatal(err)
	}
}

// readAll returns the values of a topic of one partition.
func (c *conn) readAll(topic string) (all []string) {
	c.t.Helper()
	for offset := int64(0); ; {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MinBytes, req.MaxBytes, req.SessionEpoch = 11, 1, 1<<30, -1
		t := kmsg.NewFetchRequestTopic()
		t.Topic = topic
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = offset, 1<<30, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := c.ask(req)
		if err != nil {
			c.t.Fatal(err)
		}
		got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if got.ErrorCode != 0 {
			c.t.Fatalf("fetch: code %d", got.ErrorCode)
		}
		if len(got.RecordBatches) == 0 {
			return all
		}
		for rest := got.RecordBatches; len(rest) > 0; {
			b, r, err := record.Frame(rest)
			if err != nil {
				c.t.Fatal(err)
			}
			if err := b.Records(func(r *record.Record) error { all = append(all, string(r.Value)); return nil }); err != nil {
				c.t.Fatal(err)
			}
			offset, rest = b.NextOffset(), r
		}
	}
}

// load produces with several clients until the broker goes, and returns what was acknowledged when stop is called.
func (p *process) load() (stop func() []string) {
	p.dial().touch("load")
	var (
		mu    sync.Mutex
		acked []string
		all   sync.WaitGroup
		begun = make(chan struct{})
		once  sync.Once
	)
	for w := range 4 {
		c := p.dial()
		all.Go(func() {
			for i := 0; ; i++ {
				v := fmt.Sprintf("%d-%d", w, i)
				if c.produce("load", v) != nil {
					return
				}
				mu.Lock()
				acked = append(acked, v)
				if len(acked) > 50 {
					once.Do(func() { close(begun) })
				}
				mu.Unlock()
			}
		})
	}
	<-begun
	return func() []string {
		all.Wait()
		return acked
	}
}

// checkLoad compares what a broker has with what was acknowledged.
func checkLoad(t *testing.T, p *process, acked []string) {
	t.Helper()
	have := map[string]int{}
	for _, v := range p.dial().readAll("load") {
		have[v]++
	}
	for _, v := range acked {
		if have[v] != 1 {
			t.Fatalf("%q was acknowledged and is there %d times", v, have[v])
		}
	}
}

func TestServeStopsCleanlyUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(s.String(), func(t *testing.T) {
			dir := t.TempDir()
			p := serveProcess(t, dir, "--listen", "127.0.0.1:0")
			stop := p.load()
			p.signal(s)
			if code := p.wait(10 * time.Second); code != 0 {
				t.Fatalf("exit %d\n%s", code, p.log())
			}
			if !strings.Contains(p.log(), "stopped cleanly") {
				t.Fatalf("log:\n%s", p.log())
			}
			if _, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown")); err != nil {
				t.Error(err)
			}
			checkLoad(t, serveProcess(t, dir, "--listen", "127.0.0.1:0"), stop())
		})
	}
}

// R5: kill -9 in the middle of producing loses nothing that was acknowledged.
func TestServeKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	p := serveProcess(t, dir, "--listen", "127.0.0.1:0")
	stop := p.load()
	p.signal(os.Kill)
	p.wait(patience)
	acked := stop()
	p = serveProcess(t, dir, "--listen", "127.0.0.1:0")
	checkLoad(t, p, acked)
	p.signal(os.Kill)
	p.wait(patience)
	checkLoad(t, serveProcess(t, dir, "--listen", "127.0.0.1:0"), acked) // the second restart (A6)
}

func TestServeFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	p := serveProcess(t, dir, "--listen", "127.0.0.1:0")
	second := startProcess(t, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0")
	if code := second.wait(patience); code != exitFailed || !strings.Contains(second.log(), fmt.Sprint(p.cmd.Process.Pid)) {
		t.Errorf("directory in use: exit %d, %s", code, second.log())
	}
	third := startProcess(t, "serve", "--data-dir", t.TempDir(), "--listen", p.addr)
	if code := third.wait(patience); code != exitFailed || strings.Count(third.log(), p.addr) != 1 || !strings.Contains(third.log(), "stop it, or choose another") {
		t.Errorf("port in use: exit %d, %s", code, third.log())
	}
	file := filepath.Join(t.TempDir(), "afile")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	fifth := startProcess(t, "serve", "--data-dir", file, "--listen", "127.0.0.1:0")
	if code := fifth.wait(patience); code != exitFailed || !strings.Contains(fifth.log(), "choose another one with --data-dir") {
		t.Errorf("a file as directory: exit %d, %s", code, fifth.log())
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "meta.properties"), []byte("version=99\nnode.id=1\ncluster.id=x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	fourth := startProcess(t, "serve", "--data-dir", foreign, "--listen", "127.0.0.1:0")
	if code := fourth.wait(patience); code != exitFailed || !strings.Contains(fourth.log(), "meta.properties") {
		t.Errorf("newer format: exit %d, %s", code, fourth.log())
	}
}

func TestServeReadyLine(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	p := serveProcess(t, t.TempDir(), "--listen", "localhost:0", "--log-format", "json")
	host, port, err := net.SplitHostPort(p.addr)
	if err != nil || host != "localhost" || port == "0" {
		t.Fatalf("ready on %q", p.addr)
	}
	for line := range strings.Lines(p.log()) {
		if !readyLine.MatchString(strings.TrimSpace(line)) && !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %q", line)
		}
	}
	p.dial().touch("t")
}

// A listener without a host is shown as it was bound: an address that a client can be given.
func TestServeReadyLineOfEveryAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, listen := range []string{":0", "*:0", "0"} {
		p := serveProcess(t, t.TempDir(), "--listen", listen)
		host, port, err := net.SplitHostPort(p.addr)
		if err != nil || host != "::" && host != "0.0.0.0" || port == "0" {
			t.Errorf("--listen %s: ready on %q", listen, p.addr)
		}
		p.dial().touch("t")
	}
}

// A second signal ends the process at once, whatever it is still doing.
func TestServeSecondSignal(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	p := serveProcess(t, dir, "--listen", "127.0.0.1:0")
	stop := p.load()
	p.signal(syscall.SIGTERM)
	deadline := time.After(patience)
	for !strings.Contains(p.log(), "stopping") {
		select {
		case <-deadline:
			t.Fatalf("not stopping:\n%s", p.log())
		case <-time.After(time.Millisecond):
		}
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	p.wait(10 * time.Second)
	checkLoad(t, serveProcess(t, dir, "--listen", "127.0.0.1:0"), stop())
}
