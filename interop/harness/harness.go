// Package harness starts the brokers that the interop suites compare: Apache Kafka 4.4.0 (through ../peers/kafka.sh)
// and leat (built from the parent directory), and runs foreign programs against them.
//
// Life of a peer: a suite's TestMain calls Main. Kafka(t) and Leat(t) start one shared broker of each kind per test
// binary, at first use, on a port that the kernel chose; Main stops them after the last test. StartKafka and StartLeat
// give a test a broker of its own, with its own data directory, stopped by t.Cleanup. Every child is started by one
// locked OS thread with a parent-death signal where the platform has one, so that no JVM outlives a test binary that
// panicked, timed out or was killed.
//
// Environment:
//
//	LEAT_INTEROP=require          a missing peer or tool fails the test instead of skipping it (CI)
//	LEAT_INTEROP_PEERS=kafka,leat which brokers suites run against (default both)
//	LEAT_INTEROP_KAFKA=HOST:PORT  use this running Kafka as the shared one, start none
//	LEAT_INTEROP_LEAT=PATH        use this leat binary, build none
//	LEAT_INTEROP_SIZE=MB          size of the real-data file (realdata suite)
package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Kind names of the two peers.
const (
	KafkaKind = "kafka"
	LeatKind  = "leat"
)

var shared struct {
	sync.Mutex
	dir     string // removed by Main
	peers   map[string]*Peer
	errs    map[string]error
	leatBin string
}

// Settings are added to those of both shared brokers; AtEnd is printed below the tails of their output. A suite may set
// them before it calls Main.
var (
	Settings []string
	AtEnd    = func() string { return "" }
)

// Main runs the tests of a suite and stops the shared peers. It is the whole body of TestMain.
func Main(m *testing.M) {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	for _, p := range shared.peers {
		if code != 0 {
			fmt.Fprintf(os.Stderr, "--- the end of %s's output\n%s\n", p.Kind, p.LogTail(40))
		}
		p.Stop()
	}
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	if text := AtEnd(); text != "" {
		fmt.Fprintf(os.Stderr, "--- in short\n%s", text)
	}
	os.Exit(code)
}

// Required tells whether missing peers and tools are failures (LEAT_INTEROP=require).
func Required() bool { return os.Getenv("LEAT_INTEROP") == "require" }

// Kinds lists the peers to run suites against, Kafka first: a suite that Kafka fails is wrong itself.
func Kinds() []string {
	v := os.Getenv("LEAT_INTEROP_PEERS")
	if v == "" {
		return []string{KafkaKind, LeatKind}
	}
	return strings.Split(v, ",")
}

// Missing skips the test, or fails it when LEAT_INTEROP=require.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if Required() {
		t.Fatalf("required by LEAT_INTEROP=require: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Need skips or fails the test when one of the programs is not installed.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			Missing(t, "%s is not installed (see interop/README.md)", p)
		}
	}
}

// EachPeer runs fn as a subtest against each shared peer of Kinds.
func EachPeer(t *testing.T, fn func(t *testing.T, p *Peer)) {
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) { fn(t, Shared(t, kind)) })
	}
}

// Shared returns the test binary's broker of a kind, starting it at the first call.
func Shared(t testing.TB, kind string) *Peer {
	t.Helper()
	if kind == KafkaKind && os.Getenv("LEAT_INTEROP_KAFKA") == "" {
		Need(t, "java", "mvn", "bash")
	}
	if kind == LeatKind && !slices.Contains(Kinds(), LeatKind) {
		t.Skip("LEAT_INTEROP_PEERS leaves leat out")
	}
	shared.Lock()
	defer shared.Unlock()
	if p := shared.peers[kind]; p != nil {
		return p
	}
	if err := shared.errs[kind]; err != nil {
		t.Fatalf("%s did not start: %v", kind, err)
	}
	p, err := startSharedLocked(kind)
	if err != nil {
		if shared.errs == nil {
			shared.errs = map[string]error{}
		}
		shared.errs[kind] = err
		t.Fatalf("%s did not start: %v", kind, err)
	}
	if shared.peers == nil {
		shared.peers = map[string]*Peer{}
	}
	shared.peers[kind] = p
	return p
}

func startSharedLocked(kind string) (*Peer, error) {
	dir, err := sharedDirLocked()
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, kind)
	if kind == KafkaKind {
		if addr := os.Getenv("LEAT_INTEROP_KAFKA"); addr != "" {
			return &Peer{Kind: KafkaKind, Addr: addr}, nil
		}
		return startKafka(dir, Settings)
	}
	bin, err := leatBinaryLocked()
	if err != nil {
		return nil, err
	}
	p := &Peer{Kind: LeatKind, Dir: dir, bin: bin, listen: "127.0.0.1:0", settings: append(SuiteSettings(), Settings...)}
	return p, p.startLeat()
}

func sharedDirLocked() (string, error) {
	if shared.dir == "" {
		d, err := os.MkdirTemp("", "leat-interop-")
		if err != nil {
			return "", err
		}
		shared.dir = d
	}
	return shared.dir, nil
}

// SuiteSettings are leat's settings in the suites: those of peers/kafka.sh, so that answers are comparable.
func SuiteSettings() []string { return []string{"node.id=1", "group.initial.rebalance.delay.ms=0"} }

// StartKafka starts a Kafka for one test; settings are broker properties.
func StartKafka(t testing.TB, settings ...string) *Peer {
	t.Helper()
	Need(t, "java", "mvn", "bash")
	p, err := startKafka(t.TempDir(), settings)
	if err != nil {
		t.Fatalf("start kafka: %v", err)
	}
	p.cleanup(t)
	return p
}

// StartLeat starts a leat for one test on a fresh data directory; settings are --set arguments.
func StartLeat(t testing.TB, settings ...string) *Peer {
	t.Helper()
	p := &Peer{Kind: LeatKind, Dir: t.TempDir(), bin: LeatBinary(t), listen: "127.0.0.1:0", settings: append(SuiteSettings(), settings...)}
	if err := p.startLeat(); err != nil {
		t.Fatalf("start leat: %v", err)
	}
	p.cleanup(t)
	return p
}

// LeatBinary builds leat from the parent module once per test binary and returns its path.
func LeatBinary(t testing.TB) string {
	t.Helper()
	if !slices.Contains(Kinds(), LeatKind) {
		t.Skip("LEAT_INTEROP_PEERS leaves leat out")
	}
	shared.Lock()
	defer shared.Unlock()
	bin, err := leatBinaryLocked()
	if err != nil {
		t.Fatalf("build leat: %v", err)
	}
	return bin
}

func leatBinaryLocked() (string, error) {
	if b := os.Getenv("LEAT_INTEROP_LEAT"); b != "" {
		return filepath.Abs(b)
	}
	if shared.leatBin != "" {
		return shared.leatBin, nil
	}
	dir, err := sharedDirLocked()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "bin", "leat")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/leat")
	cmd.Dir = filepath.Join(moduleDir(), "..")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/leat: %w\n%s", err, out)
	}
	shared.leatBin = bin
	return bin, nil
}

// moduleDir is the directory of the interop module, found from this source file.
func moduleDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(file))
}

// FreePorts returns n distinct free TCP ports of 127.0.0.1. They are free when it returns; a caller that loses the
// race for one starts again with new ones.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Poll calls fn every 20 ms until it returns nil; after the limit, or soon after stop is closed, it returns fn's last error.
func Poll(limit time.Duration, fn func() error, stop ...<-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var gone <-chan struct{}
	if len(stop) > 0 {
		gone = stop[0]
	}
	for {
		err := fn()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", limit, err)
		case <-gone:
			return fmt.Errorf("it ended: %w", err)
		case <-tick.C:
		}
	}
}
