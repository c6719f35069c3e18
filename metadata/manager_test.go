package metadata

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
)

var ctx = context.Background()

func register(t testing.TB, m *Manager) {
	t.Helper()
	if _, err := m.RegisterBroker(ctx, Registration{ID: 1, Listeners: []Endpoint{{Name: "PLAINTEXT", Port: 9092, Security: "PLAINTEXT"}}}); err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, m *Manager, specs ...TopicSpec) []TopicResult {
	t.Helper()
	results, err := m.CreateTopics(ctx, CreateTopicsRequest{Topics: specs})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// imageText is everything in an image, for comparisons.
func imageText(i *Image) string {
	var b strings.Builder
	fmt.Fprintf(&b, "offset %d epoch %d partitions %d\n", i.Offset(), i.Epoch(), i.PartitionCount())
	i.imageRecords(func(r Record) { fmt.Fprintf(&b, "%T %+v\n", r, r) })
	return b.String()
}

func TestManagerBootstrapAndRestart(t *testing.T) {
	l := newMemLog()
	o := testOptions(t, vfs.NewMem(1))
	m, err := open(o, l, testDir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if m.Image().Features()["metadata.version"] != 33 || m.Image().Offset() == 0 {
		t.Fatalf("a new cluster begins as %s", imageText(m.Image()))
	}
	register(t, m)
	created := create(t, m, with(spec("a", 2, 1), "retention.ms", "1000"), spec("b", 1, 1))
	if created[0].Err != nil || m.Image().Topic("a").ID != created[0].ID {
		t.Fatalf("created %+v", created)
	}
	if _, err := m.DeleteTopics(ctx, []TopicRef{{Name: "b"}}); err != nil {
		t.Fatal(err)
	}
	before := imageText(m.Image())
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	m = openTest(t, testOptions(t, o.FS), l.reopen())
	if got := imageText(m.Image()); got != before {
		t.Errorf("after the restart\n%s, before it\n%s", got, before)
	}
	if !m.Removed(created[1].ID) || m.Removed(created[0].ID) {
		t.Error("the replayed removal of b is not known, or that of a is")
	}
	old := m.Image().Topic("a").Partitions[0].LeaderEpoch
	register(t, m)
	if now := m.Image().Topic("a").Partitions[0].LeaderEpoch; now != old+1 {
		t.Errorf("leader epoch %d after the restart, %d before", now, old)
	}
	if m.Image().Epoch() != 1 {
		t.Errorf("the log is written in leader epoch %d, want 1 (B-D1)", m.Image().Epoch())
	}
}

func TestManagerAnswersAfterCommit(t *testing.T) {
	l := newMemLog()
	m := openTest(t, testOptions(t, vfs.NewMem(1)), l)
	register(t, m)
	var mu sync.Mutex
	var events []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, fmt.Sprintf(format, args...))
	}
	m.Subscribe(func(prev, next *Image, d *Delta) {
		for _, c := range d.Created {
			note("subscriber sees %s", c.Name)
		}
	})
	l.hold()
	var answers sync.WaitGroup
	for _, name := range []string{"a", "a", "b"} {
		answers.Add(1)
		m.CreateTopicsAsync(CreateTopicsRequest{Topics: []TopicSpec{spec(name, 1, 1)}}, func(r []TopicResult, err error) {
			note("answer %s %s %v", name, describe(r[0].Err), m.Image().Topic(name) != nil)
			answers.Done()
		})
	}
	if m.Image().Topic("a") != nil || len(events) > 0 {
		t.Error("an uncommitted topic is visible")
	}
	l.commit()
	answers.Wait()
	// The refusal of the second a rests on the first: it comes after its commit. Subscribers are first, always.
	want := []string{"subscriber sees a", "answer a ok true", "answer a TopicExists true", "subscriber sees b", "answer b ok true"}
	if !slices.Equal(events, want) {
		t.Errorf("%q, want %q", events, want)
	}
}

func TestManagerBatches(t *testing.T) {
	l := newMemLog()
	m := openTest(t, testOptions(t, vfs.NewMem(1)), l)
	register(t, m)
	before := len(l.mu.batches)
	gate := make(chan struct{})
	m.Propose(func(*Image) []Record { <-gate; return nil }, func(error) {})
	var answers sync.WaitGroup
	for n := range 100 {
		answers.Add(1)
		m.CreateTopicsAsync(CreateTopicsRequest{Topics: []TopicSpec{spec(fmt.Sprint("t", n), 1, 1)}}, func(r []TopicResult, err error) {
			if err != nil || r[0].Err != nil {
				t.Error(err, r)
			}
			answers.Done()
		})
	}
	close(gate)
	answers.Wait()
	if n := len(l.mu.batches) - before; n > 2 {
		t.Errorf("100 queued proposals made %d batches", n)
	}
	if m.Image().TopicCount() != 100 {
		t.Errorf("%d topics", m.Image().TopicCount())
	}
}

// TestManagerLogFull: a change that finds no space is refused, with all that was planned on it, and the next one is taken.
func TestManagerLogFull(t *testing.T) {
	l := newMemLog()
	m := openTest(t, testOptions(t, vfs.NewMem(1)), l)
	register(t, m)
	l.setAppendErr(fmt.Errorf("%w: %w", errLogFull, errTest))
	_, err := m.CreateTopics(ctx, CreateTopicsRequest{Topics: []TopicSpec{spec("a", 1, 1)}})
	if !errors.Is(err, &Error{Kind: Unavailable}) {
		t.Fatalf("full log: %v", err)
	}
	l.setAppendErr(nil)
	if r := create(t, m, spec("a", 1, 1)); r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
}

func TestManagerLogFails(t *testing.T) {
	l := newMemLog()
	m := openTest(t, testOptions(t, vfs.NewMem(1)), l)
	register(t, m)
	l.hold()
	lost := make(chan error, 1)
	m.CreateTopicsAsync(CreateTopicsRequest{Topics: []TopicSpec{spec("a", 1, 1)}}, func(_ []TopicResult, err error) { lost <- err })
	for appended := false; !appended; { // in flight: written, not committed
		l.mu.Lock()
		appended = l.mu.end > m.Image().Offset()
		l.mu.Unlock()
	}
	l.mu.onFail(errTest)
	if err := <-lost; !errors.Is(err, &Error{Kind: Unavailable}) {
		t.Errorf("in flight: %v", err)
	}
	if _, err := m.AllocateProducerIDs(ctx); !errors.Is(err, &Error{Kind: Unavailable}) {
		t.Errorf("afterwards: %v", err)
	}
	if m.Image().Topic("a") != nil {
		t.Error("an uncommitted topic is visible")
	}
}

func TestManagerClose(t *testing.T) {
	m, err := open(testOptions(t, vfs.NewMem(1)), newMemLog(), testDir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := m.AllocateProducerIDs(ctx); !errors.Is(err, &Error{Kind: Unavailable}) {
		t.Errorf("after Close: %v", err)
	}
}

// TestManagerCloseDoesNotWaitForever: a log that never commits does not keep the broker from stopping.
func TestManagerCloseDoesNotWaitForever(t *testing.T) {
	l := newMemLog()
	m, err := open(testOptions(t, vfs.NewMem(1)), l, testDir, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.hold()
	answer := make(chan error, 1)
	m.AllocateProducerIDsAsync(func(_ ProducerIDBlock, err error) { answer <- err })
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = m.Close(ended)
	if err := <-answer; !errors.Is(err, &Error{Kind: Unavailable}) {
		t.Errorf("in flight at Close: %v", err)
	}
}

func TestManagerTooMuchQueued(t *testing.T) {
	m := openTest(t, testOptions(t, vfs.NewMem(1)), newMemLog())
	gate := make(chan struct{})
	m.Propose(func(*Image) []Record { <-gate; return nil }, func(error) {})
	busy := 0
	for range 2*queuedProposalsMax + 2 { // the proposer may have taken some already
		m.Propose(func(*Image) []Record { return nil }, func(err error) {
			if errors.Is(err, &Error{Kind: Busy}) {
				busy++ // only Propose itself answers Busy
			}
		})
	}
	close(gate)
	if busy == 0 {
		t.Error("the queue has no end")
	}
}

func TestManagerRefusesBadPlans(t *testing.T) {
	m := openTest(t, testOptions(t, vfs.NewMem(1)), newMemLog())
	f := func(kind Kind, records ...Record) {
		t.Helper()
		before := m.Image()
		if err := m.proposeAndWait(ctx, func(*Image) []Record { return records }); !errors.Is(err, &Error{Kind: kind}) {
			t.Errorf("%v, want %v", err, kind)
		}
		if m.Image() != before {
			t.Error("half of it was applied")
		}
	}
	f(KindUnknown, NoOp{}, RemoveTopic{ID: id(1)})
	f(InvalidRequest, ConfigRecord{Resource: BrokerResource, Key: "k", Value: strings.Repeat("x", stringBytesMax+1)})
	var many []Record
	for n := range 10 {
		many = append(many, ConfigRecord{Resource: BrokerResource, Key: fmt.Sprint(n), Value: strings.Repeat("x", stringBytesMax)})
	}
	f(PolicyViolation, many...)
}

func TestDynamicConfigsComeIntoForce(t *testing.T) {
	l := newMemLog()
	o := testOptions(t, vfs.NewMem(1))
	m, err := open(o, l, testDir, 0)
	if err != nil {
		t.Fatal(err)
	}
	register(t, m)
	if err := alterBroker(m, "", "log.retention.ms", "4242"); err != nil {
		t.Fatal(err)
	}
	if err := alterBroker(m, "1", "log.retention.bytes", "77"); err != nil {
		t.Fatal(err)
	}
	check := func(when string, s *config.Set) {
		t.Helper()
		cfg, err := s.Topic(nil)
		if err != nil || cfg.RetentionMs != 4242 || cfg.RetentionBytes != 77 {
			t.Errorf("%s: %+v, %v", when, cfg, err)
		}
	}
	check("at once", o.Config)
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	o = testOptions(t, o.FS)
	openTest(t, o, l.reopen())
	check("after a restart", o.Config)
}

func alterBroker(m *Manager, name, key, value string) error {
	return alterOne(m, BrokerResource, name, key, value)
}

func alterGroup(m *Manager, id, key, value string) error {
	return alterOne(m, GroupResource, id, key, value)
}

func alterOne(m *Manager, kind ResourceType, name, key, value string) error {
	results, err := m.AlterConfigs(ctx, AlterConfigsRequest{Resources: []ResourceConfig{{Type: kind, Name: name, Changes: []ConfigChange{{Name: key, Value: value}}}}})
	if err == nil && results[0].Err != nil {
		return results[0].Err
	}
	return err
}

func TestSubscribeSeesEverything(t *testing.T) {
	m := openTest(t, testOptions(t, vfs.NewMem(1)), newMemLog())
	register(t, m)
	create(t, m, spec("b", 1, 1), spec("a", 1, 1))
	if err := alterGroup(m, "g", "consumer.session.timeout.ms", "50000"); err != nil {
		t.Fatal(err)
	}
	called := 0
	m.Subscribe(func(prev, next *Image, d *Delta) {
		called++
		var names []string
		for _, topic := range d.Created {
			names = append(names, topic.Name)
		}
		if prev.Offset() != 0 || next != m.Image() || !slices.Equal(d.GroupConfigs, []string{"g"}) || !slices.Equal(names, []string{"a", "b"}) || !reflect.DeepEqual(d.Brokers, []int32{1}) {
			t.Errorf("prev %d, created %v, %+v", prev.Offset(), names, d)
		}
	})
	if called != 1 {
		t.Errorf("called %d times", called)
	}
}

func BenchmarkProposals(b *testing.B) {
	m := openTest(b, testOptions(b, vfs.NewMem(1)), newMemLog())
	var answers sync.WaitGroup
	b.ReportAllocs()
	for n := range b.N {
		answers.Add(1)
		m.AllocateProducerIDsAsync(func(_ ProducerIDBlock, err error) { answers.Done() })
		if n%1000 == 999 {
			answers.Wait()
		}
	}
	answers.Wait()
}
