package main

import (
	"strings"
	"testing"
	"time"

	"github.com/leatmq/leat/record"
)

// The life of topics, and what every command says of them.
func TestTopicCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	p := serveProcess(t, dir, "--listen", "127.0.0.1:0", "--set", "num.partitions=2", "--set", "offsets.topic.num.partitions=3")
	tr := &transcript{t: t, addr: p.addr, replace: map[string]string{dir: "DIR"}}
	tr.run("topic list")
	tr.run("topic list --output json")
	tr.run("topic create plain")
	tr.run("topic create orders --partitions 3 --config retention.ms=86400000 --config cleanup.policy=delete")
	tr.run("topic create orders other --partitions 1 --output json")
	tr.run("topic create orders --if-not-exists")
	tr.run("topic create later --validate-only --partitions 7")
	tr.run("topic create later --validate-only --output json")
	tr.run("topic create no/slash")
	tr.run("topic create later --config retention.ms=soon")
	tr.run("topic create later --config retention.ms")
	tr.run("topic create later --config a=1 --config a=2")
	tr.run("topic create later --partitions 0")
	tr.run("topic create later --replication-factor 2")
	tr.run("topic create")
	tr.compare("topic/create")

	c := p.dial()
	for i := range int64(5) {
		c.put("orders", 0, record.Options{}, recordsBegin.UnixMilli()+i)
	}
	p.awaitCoordinator()
	tr.run("topic list")
	tr.run("topic list --exclude-internal --output json")
	tr.run("topic describe orders other")
	tr.run("topic describe orders nowhere nowhere --output json")
	tr.run("topic describe nowhere")
	tr.run("topic describe --all-topics")
	tr.run("topic describe")
	tr.run("topic describe orders --all-topics")
	tr.compare("topic/describe")

	tr.run("topic alter orders --config retention.ms=1000 --config cleanup.policy=compact,delete --delete-config segment.ms")
	tr.run("topic alter orders --delete-config retention.ms,cleanup.policy --partitions 4 --output json")
	tr.run("topic describe orders")
	tr.run("topic alter orders --partitions 2")
	tr.run("topic alter orders --config segment.bytes=2097152 --partitions 4")
	tr.run("topic alter orders --config retention.ms=never")
	tr.run("topic alter orders --config retention.ms=5000 --validate-only")
	tr.run("topic alter orders --partitions 9 --validate-only")
	tr.run("topic alter orders --config retention.ms=1 --delete-config retention.ms")
	tr.run("topic alter orders")
	tr.run("topic alter nowhere --partitions 9")
	tr.run("topic describe orders")
	tr.compare("topic/alter")

	tr.run("cluster describe")
	tr.run("cluster describe --output json")
	tr.compare("topic/cluster")

	tr.run("topic delete orders nowhere")
	tr.run("topic delete nowhere --if-exists")
	tr.run("topic delete other orders --if-exists --output json")
	tr.run("topic delete")
	tr.run("topic list")
	tr.compare("topic/delete")
}

// Everything about topics and the cluster has a help text with an example, and says in a sentence where no broker is.
func TestTopicHelp(t *testing.T) {
	for _, args := range []string{"topic", "topic create x", "topic list", "topic describe x", "topic alter x --partitions 2", "topic delete x", "cluster", "cluster describe"} {
		code, out, _ := leat(append(strings.Fields(args), "--help")...)
		if code != 0 || !strings.Contains(out, "Examples:") {
			t.Errorf("leat %s --help: exit code %d: %s", args, code, out)
		}
		if args == "topic" || args == "cluster" {
			continue
		}
		began := time.Now()
		code, out, errs := leat(append(strings.Fields(args), "--bootstrap-server", "127.0.0.1:1")...)
		if code != exitFailed || out != "" || !strings.Contains(errs, "127.0.0.1:1 cannot be reached") || !strings.Contains(errs, "--bootstrap-server") || time.Since(began) > patience {
			t.Errorf("leat %s: exit code %d, %s%s", args, code, out, errs)
		}
	}
}
