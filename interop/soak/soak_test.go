//go:build unix

// Package soak runs the real program under real load and treats it badly: kill -9 at any moment, also while it starts, SIGSTOP, two of them on
// one directory. Idempotent producers that never give up, a reader that runs along and one that asks for the end offsets write down
// everything they are told; in the end the partitions must hold exactly that.
//
//	go test ./soak                                   what CI runs: 50 kills under load, some more during starts, one pause of 20 s
//	make soak N=2000                                 as many as wanted, pauses of 20 s
//	go test ./soak -args -kills 50 -seed 7           the same waits again
package soak

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leatmq/leat/interop/harness"
)

var (
	kills = flag.Int("kills", 50, "how often the broker is killed under load")
	pause = flag.Duration("pause", pauseDefault(), "how long a paused broker is paused")
	seed  = flag.Uint64("seed", 0, "of the waits; 0 takes one from the clock")
)

// pauseDefault is long enough for sessions and requests to time out where nobody waits for it.
func pauseDefault() time.Duration {
	if harness.Required() {
		return 20 * time.Second
	}
	return 3 * time.Second
}

// killsPerTopic bounds what has to be remembered: then everything is checked, and it goes on with a new topic.
const killsPerTopic = 200

func TestMain(m *testing.M) { harness.Main(m) }

// soak is the bad treatment.
type soak struct {
	t       *testing.T
	p       *harness.Peer
	random  *rand.Rand
	startMs []float64
	kills   int // under load
	aborted int // starts that were killed before they were ready
	early   int // starts that were killed soon after
	pauses  int
	acked   int64
}

// settings make everything periodic happen often.
var settings = []string{
	"log.flush.offset.checkpoint.interval.ms=700", "log.flush.start.offset.checkpoint.interval.ms=700", "replica.high.watermark.checkpoint.interval.ms=500",
	"log.retention.check.interval.ms=1000", "log.segment.delete.delay.ms=500",
}

// TestSoak: R1, R3, R4, B-A5, B-A8, B-D1: nothing acknowledged is lost, nothing is there twice, nothing a reader saw goes away, every start succeeds.
func TestSoak(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", *seed)
	s := &soak{t: t, p: harness.StartLeat(t, settings...), random: rand.New(rand.NewPCG(*seed, 0))}
	for n := 0; s.kills < *kills; n++ {
		s.topic(fmt.Sprintf("soak-%d", n))
	}
	slices.Sort(s.startMs)
	t.Logf("%d kills under load, %d during a start, %d soon after one, %d pauses: %d records acknowledged, 0 lost, 0 twice; starts took %.0f ms (median), %.0f ms at most",
		s.kills, s.aborted, s.early, s.pauses, s.acked, s.startMs[len(s.startMs)/2], s.startMs[len(s.startMs)-1])
}

// topic loads one topic, kills the broker up to killsPerTopic times, and checks.
func (s *soak) topic(name string) {
	r := startRun(s.t, s.p.Addr, name, *seed)
	last := min(*kills, s.kills+killsPerTopic)
	for s.kills < last && r.err() == nil {
		s.awaitProgress(r)
		if s.kills%25 == 12 {
			s.pauseBroker()
		}
		time.Sleep(s.between(30, 600)) // the broker is killed at any moment of its work: there is nothing to wait for
		if err := s.p.Running(); err != nil {
			s.t.Fatal(err)
		}
		s.p.Kill()
		s.kills++
		if s.kills%3 == 0 {
			s.killStarts(1 + s.random.IntN(3))
		}
		s.restart()
	}
	failed := false
	for _, err := range r.finish(s.t) {
		if err != nil {
			s.t.Error(err)
			failed = true
		}
	}
	if failed {
		s.keepEvidence()
		s.t.FailNow()
	}
	s.acked += r.acked.Load()
}

// keepEvidence stops the broker and copies its directory before the test's directory is removed.
func (s *soak) keepEvidence() {
	s.p.Kill()
	dir, err := os.MkdirTemp("", "leat-soak-failed-")
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(s.p.Dir))
	}
	s.t.Logf("the broker's directory and output are in %s (%v)", dir, err)
}

// awaitProgress waits until records were acknowledged since the start.
func (s *soak) awaitProgress(r *run) {
	before := r.acked.Load()
	err := harness.Poll(patience, func() error {
		if err := errors.Join(r.err(), s.p.Running()); err != nil {
			return nil // told later
		}
		if r.acked.Load() < before+100 {
			return errors.New("no records are acknowledged")
		}
		return nil
	})
	if err != nil {
		s.keepEvidence()
		s.t.Fatal(err)
	}
}

// between is a random time.
func (s *soak) between(lo, hi int) time.Duration {
	return time.Duration(lo*1000+s.random.IntN((hi-lo)*1000)) * time.Microsecond
}

func (s *soak) pauseBroker() {
	if err := s.p.Pause(); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(*pause) // the point of it
	if err := s.p.Resume(); err != nil {
		s.t.Fatal(err)
	}
	s.pauses++
}

// killStarts kills starting brokers: within the time the last starts took, mostly before they are ready.
func (s *soak) killStarts(n int) {
	usual := 60.0
	if len(s.startMs) > 0 {
		usual = s.startMs[len(s.startMs)-1]
	}
	for range n {
		ready, err := s.p.StartAndKill(s.between(1, int(usual)+20))
		if err != nil {
			s.keepEvidence()
			s.t.Fatal(err)
		}
		if ready {
			s.early++
		} else {
			s.aborted++
		}
	}
}

func (s *soak) restart() {
	begin := time.Now()
	if err := s.p.Restart(); err != nil {
		s.keepEvidence()
		s.t.Fatalf("refused start after %d kills: %v", s.kills, err)
	}
	s.startMs = append(s.startMs, time.Since(begin).Seconds()*1000)
}

// TestTwoBrokers: a second broker on the directory of a running one exits with 1 and says who holds it; after kill -9 of the first it starts.
func TestTwoBrokers(t *testing.T) {
	first := harness.StartLeat(t)
	second := exec.Command(harness.LeatBinary(t), "serve", "--data-dir", first.DataDir(), "--listen", "127.0.0.1:0", "--set", "node.id=1")
	out, err := second.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("the second broker: %v, want exit code 1\n%s", err, out)
	}
	holder, err := os.ReadFile(filepath.Join(first.DataDir(), ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(holder), "pid "+strconv.Itoa(first.Pid())) {
		t.Errorf("the lock file says %q, the holder is %d", holder, first.Pid())
	}
	if !strings.Contains(string(out), strings.TrimSpace(string(holder))) {
		t.Errorf("the second broker does not name the holder %q:\n%s", holder, out)
	}
	first.Kill()
	if err := first.Restart(); err != nil {
		t.Fatal(err)
	}
}
