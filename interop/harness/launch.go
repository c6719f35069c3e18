package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// This file is for programs: the same peers without a test around them. The caller stops them.

// BuildLeat builds leat from the parent module into a directory and returns the path.
func BuildLeat(dir string) (string, error) {
	if b := os.Getenv("LEAT_INTEROP_LEAT"); b != "" {
		return filepath.Abs(b)
	}
	bin := filepath.Join(dir, "leat")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/leat")
	cmd.Dir = filepath.Join(moduleDir(), "..")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/leat: %w\n%s", err, out)
	}
	return bin, nil
}

// LaunchKafka starts a Kafka with its data under dir; settings are broker properties.
func LaunchKafka(dir string, settings ...string) (*Peer, error) { return startKafka(dir, settings) }

// LaunchLeat starts a leat with its data under dir; settings are --set arguments.
func LaunchLeat(dir, bin string, settings ...string) (*Peer, error) {
	p := &Peer{Kind: LeatKind, Dir: dir, bin: bin, listen: "127.0.0.1:0", settings: append(SuiteSettings(), settings...)}
	return p, p.startLeat()
}

// TimeStart starts a broker of a kind on an empty directory and returns how long it took until serves returned nil, which is called in a
// loop with the broker's address. The time counts from the start of the process; Kafka's formatting of the directory comes before it. The broker is killed.
func TimeStart(ctx context.Context, kind, dir, bin string, serves func(addr string) error) (time.Duration, error) {
	ports, err := FreePorts(2)
	if err != nil {
		return 0, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	p := &Peer{Kind: kind, Dir: dir, Addr: addr, listen: addr, bin: bin, settings: SuiteSettings()}
	var cmd *exec.Cmd
	if kind == KafkaKind {
		p.settings, p.ctlPort = nil, strconv.Itoa(ports[1])
		if out, err := p.kafkaCommand("format").CombinedOutput(); err != nil {
			return 0, fmt.Errorf("kafka.sh format: %w\n%s", err, out)
		}
		cmd = p.kafkaCommand("run")
	} else {
		cmd = p.command()
	}
	begin := time.Now()
	c, err := startChild(dir, cmd)
	if err != nil {
		return 0, err
	}
	defer c.kill()
	for time.Since(begin) < startLimit {
		last := serves(addr)
		if last == nil {
			return time.Since(begin), nil
		}
		select {
		case <-c.exited:
			return 0, fmt.Errorf("%s ended by itself: %w", kind, last)
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return 0, fmt.Errorf("%s served nothing within %v", kind, startLimit)
}
