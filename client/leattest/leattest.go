// Package leattest gives a test a broker of its own: the real one, in the process of the test.
//
//	func TestOrders(t *testing.T) {
//		b := leattest.New(t, "num.partitions=3")
//		c, err := client.New(client.Config{BootstrapServers: []string{b.Addr()}})
//		...
//	}
//
// Any Kafka client can use it. It serves on a free port of 127.0.0.1, keeps its data in a temporary directory of the test, and is stopped when the test
// ends, after the test's own Cleanup functions; its log is shown when the test failed. A test may have several, and tests may run in parallel; they don't
// see one another.
//
// A few settings differ from those of `leat serve`, all of them to save a test's time: groups assign partitions as soon as the first member joins
// (group.initial.rebalance.delay.ms=0), and the internal topic of groups has one partition instead of 50. What the test sets comes on top. And nothing waits
// for the disk: what was acknowledged is there after Restart, but would not survive the machine's power cut.
package leattest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatmq/leat/broker"
	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
)

// stopTimeout is how long requests that wait may keep a broker from stopping.
const stopTimeout = 10 * time.Second

// Broker is a broker that serves until its test ends.
type Broker struct {
	t        testing.TB
	dir      string
	settings []string
	logs     logs

	mu      sync.Mutex // guards what follows; held while the broker starts and stops
	addr    string
	running *broker.Broker // nil: stopped
	served  chan error
}

// New starts a broker. Settings are KEY=VALUE, as for `leat serve --set` (`leat config --docs` explains the keys). The test ends when one cannot be used.
func New(t testing.TB, settings ...string) *Broker {
	t.Helper()
	b := &Broker{t: t, dir: t.TempDir(), settings: settings, addr: "127.0.0.1:0"}
	if err := b.start(); err != nil {
		t.Fatalf("leattest: %v", err)
	}
	t.Cleanup(func() {
		b.Stop()
		if t.Failed() {
			t.Logf("log of the broker at %s:\n%s", b.addr, b.logs.String())
		}
	})
	return b
}

// Addr is where the broker serves, HOST:PORT; it stays the same after Restart.
func (b *Broker) Addr() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addr
}

// Stop stops the broker, as SIGTERM stops a process. Stopping one that is stopped does nothing.
func (b *Broker) Stop() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.stopLocked(); err != nil {
		b.t.Errorf("leattest: the broker did not stop cleanly: %v", err)
	}
}

// Restart stops the broker if it runs, and starts it on the same address with the same data.
func (b *Broker) Restart() {
	b.t.Helper()
	b.Stop()
	if err := b.start(); err != nil {
		b.t.Fatalf("leattest: the broker did not start again: %v", err)
	}
}

func (b *Broker) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	set := config.NewSet()
	for _, kv := range append([]string{
		"listeners=PLAINTEXT://" + b.addr, "log.dirs=" + b.dir, "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1",
	}, b.settings...) {
		key, value, ok := strings.Cut(kv, "=")
		if !ok {
			return fmt.Errorf("a setting is KEY=VALUE, not %q", kv)
		}
		if err := set.Override(key, value, config.Flag); err != nil {
			return err
		}
	}
	running, err := broker.New(broker.Options{Config: set, FS: unsynced{vfs.OS}, Logger: slog.New(slog.NewTextHandler(&b.logs, nil))})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- running.Serve() }()
	b.running, b.served, b.addr = running, served, running.Addrs()[0].String()
	return nil
}

func (b *Broker) stopLocked() error {
	if b.running == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := b.running.Close(ctx)
	if served := <-b.served; err == nil {
		err = served
	}
	b.running = nil
	return err
}

// logs is what the broker logged. It may still write when the test reads.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// logsMax bounds what is kept of a log; the end is dropped, for trouble begins at the beginning.
const logsMax = 1 << 20

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Len() < logsMax {
		l.buf.Write(p)
	}
	return len(p), nil
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
