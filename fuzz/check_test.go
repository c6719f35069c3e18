package fuzz

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/replication"
	"github.com/leatmq/leat/segment"
)

// stopKind says how the node that ran before had stopped: how much of what was not on stable storage must be there.
type stopKind uint8

const (
	powerCut stopKind = iota // what was promised
	killed                   // all that was written
	stopped                  // everything
)

// check compares a node that was just started with what the world may expect of it, and makes the world believe what it sees: from
// now on that is what readers were shown. No requests are under way.
func (w *world) check(n *node, how stopKind) error {
	seen := w.clone() // reading may write (an index that is made again), and then the power may fail: no lock is held
	if err := seen.judge(n, how); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.topics, w.pidEnd, w.config = seen.topics, seen.pidEnd, seen.config
	return w.failed
}

func (w *world) judge(n *node, how stopKind) error {
	if c := n.journal.complaint(); c != "" {
		return fmt.Errorf("the start complains: %s", c)
	}
	for _, d := range n.e.Dirs() {
		if d.Err != nil {
			return fmt.Errorf("log directory: %w", d.Err)
		}
	}
	image := n.meta.Image()
	if image.NextProducerID() < w.pidEnd {
		return fmt.Errorf("producer ids would be given out again: next is %d, %d was given out", image.NextProducerID(), w.pidEnd-1)
	}
	w.pidEnd = image.NextProducerID()
	if got := image.BrokerConfig(fmt.Sprint(nodeID)); !w.config.allows(got) {
		return fmt.Errorf("broker configs are %v; set were %v, or %v", got, w.config.acked, w.config.tried)
	}
	w.config = configs{acked: image.BrokerConfig(fmt.Sprint(nodeID))}
	known := map[[16]byte]bool{}
	var after []*topic
	for _, t := range w.topics {
		next, err := w.checkTopic(n, image, t, how)
		if err != nil {
			return fmt.Errorf("topic %s: %w", t.name, err)
		}
		if next {
			known[t.id] = t.state == live
			after = append(after, t)
		}
	}
	w.topics = after
	for _, t := range image.Topics() {
		if !known[t.ID] {
			return fmt.Errorf("there is a topic %s that nobody made, or whose deletion was answered", t.Name)
		}
	}
	return checkLogs(n, known)
}

// checkLogs says whether the engine holds a log that no topic has.
func checkLogs(n *node, known map[[16]byte]bool) error {
	for _, l := range n.e.Logs() {
		if l.TP().Topic != metadata.MetadataTopic && !known[l.TopicID()] {
			return fmt.Errorf("log %v of topic %x is there, its topic is not", l.TP(), l.TopicID())
		}
	}
	return nil
}

// checkTopic checks a topic and settles what was not answered. false: it was never there, so forget it.
func (w *world) checkTopic(n *node, image *metadata.Image, t *topic, how stopKind) (bool, error) {
	it := image.TopicByID(t.id)
	if t.state == creating {
		if it = image.Topic(t.name); it == nil || w.byID(it.ID) != nil {
			return false, nil
		}
		t.id, t.state = it.ID, live
		for range t.tried {
			t.addPart()
		}
		if len(it.Partitions) != len(t.parts) {
			return false, fmt.Errorf("has %d partitions, %d were asked for", len(it.Partitions), len(t.parts))
		}
	}
	switch {
	case t.state == deleted && it != nil:
		return false, errors.New("its deletion was answered and it is there")
	case t.state == deleted:
		return true, nil
	case it == nil && t.state == deleting:
		t.state = deleted
		return true, nil
	case it == nil:
		return false, errors.New("it is gone")
	}
	t.state = live // a deletion that was not answered has not happened
	if it.Name != t.name || !t.config.allows(it.Config) {
		return false, fmt.Errorf("is called %q and has configs %v; set were %v, or %v", it.Name, it.Config, t.config.acked, t.config.tried)
	}
	t.config = configs{acked: maps.Clone(it.Config)}
	if len(it.Partitions) != len(t.parts) && len(it.Partitions) != int(t.tried) {
		return false, fmt.Errorf("has %d partitions, answered were %d, asked for %d", len(it.Partitions), len(t.parts), t.tried)
	}
	t.tried = int32(len(it.Partitions))
	for len(t.parts) < len(it.Partitions) {
		t.addPart()
	}
	for _, p := range t.parts {
		if err := p.check(n, t, how, w.hadFaults); err != nil {
			return false, fmt.Errorf("partition %d: %w", p.number, err)
		}
	}
	return true, nil
}

// addPart adds the topic's next partition.
func (t *topic) addPart() { t.parts = append(t.parts, newPart(int32(len(t.parts)))) }

func newPart(number int32) *part { return &part{number: number, line: &timeline{}, epoch: -1} }

func (w *world) byID(id [16]byte) *topic {
	for _, t := range w.topics {
		if t.id == id {
			return t
		}
	}
	return nil
}

// check checks a partition: there, led, and what readers were shown is there, in its place, unchanged; nothing else is but what was sent
// right behind it.
func (p *part) check(n *node, t *topic, how stopKind, hadFaults bool) error {
	q := n.repl.PartitionByID(t.id, p.number)
	if q == nil {
		return errors.New("is not here")
	}
	if err := q.Check(-1); err != nil {
		return fmt.Errorf("does not serve: %w", err)
	}
	if q != n.repl.Partition(t.name, p.number) || q.Log().TopicID() != t.id {
		return errors.New("is found under another name or id")
	}
	if q.LeaderEpoch() <= p.epoch {
		return fmt.Errorf("leader epoch %d after %d", q.LeaderEpoch(), p.epoch)
	}
	start, hw, end := q.LogStart(), q.HighWatermark(), q.LogEnd()
	if hw != end || q.Log().FlushedOffset() != end {
		return fmt.Errorf("high watermark %d, flushed %d, log end %d: a start makes all it accepts durable and visible", hw, q.Log().FlushedOffset(), end)
	}
	least := p.least(t, how)
	if end < least {
		return fmt.Errorf("ends at %d; %d was promised (shown %d, sent up to %d)", end, least, p.shown, p.line.end())
	}
	if start > p.ceil || start < p.floor && !t.kind.caching {
		return fmt.Errorf("starts at %d; it must be from %d to %d", start, p.floor, p.ceil)
	}
	if hadFaults && end > p.line.end() {
		if err := p.adopt(q, t, end); err != nil {
			return err
		}
	}
	line, ok := p.line.until(end)
	if !ok {
		return fmt.Errorf("ends at %d, where no batch ends; %d were sent", end, p.line.end())
	}
	if err := compare(q, t, line, start, end); err != nil {
		return err
	}
	p.line, p.placed = line, len(line.batches)
	p.shown, p.floor, p.ceil, p.epoch = hw, start, start, q.LeaderEpoch()
	return nil
}

// adopt adds to the timeline what is stored behind its end: batches that were answered with an error, which may be there all the same.
func (p *part) adopt(q *replication.Partition, t *topic, end int64) error {
	p.line = &timeline{batches: slices.Clone(p.line.batches)}
	for at := p.line.end(); at < end; at = p.line.end() {
		stored, err := batchAt(q, at)
		if err != nil {
			return fmt.Errorf("batch at %d: %w", at, err)
		}
		i := slices.IndexFunc(p.inflight, func(b *batch) bool {
			_, there := p.line.where(b)
			return !there && asSent(stored, b, t.kind.rewrites) == nil
		})
		if i < 0 || stored.BaseOffset() != at {
			return fmt.Errorf("a batch at offset %d, which nobody sent", stored.BaseOffset())
		}
		p.line.batches = append(p.line.batches, placement{at, p.inflight[i]})
	}
	return nil
}

// least is the lowest log end that keeps what was promised.
func (p *part) least(t *topic, how stopKind) int64 {
	switch {
	case how == stopped:
		return p.line.end()
	case how == killed && p.placed > 0:
		last := p.line.batches[p.placed-1]
		return last.base + int64(last.batch.records)
	case t.kind.caching:
		return 0
	}
	return p.shown
}

// compare reads [start, end) as a consumer does and compares it with the timeline.
func compare(q *replication.Partition, t *topic, line *timeline, start, end int64) error {
	next := line.find(start)
	at := start
	for at < end {
		r, err := q.Read(at, 1<<20, true, false)
		if err != nil {
			return fmt.Errorf("read at %d: %w", at, err)
		}
		buf := make([]byte, r.N)
		_, err = r.ReadAt(buf, 0)
		r.Release()
		if err != nil {
			return fmt.Errorf("read at %d: %w", at, err)
		}
		if len(buf) == 0 {
			return fmt.Errorf("nothing to read at %d, below the high watermark %d", at, end)
		}
		for len(buf) > 0 {
			b, rest, err := record.Frame(buf)
			if err == nil {
				err = b.Check()
			}
			if err != nil {
				return fmt.Errorf("batch at %d: %w", at, err)
			}
			if next >= len(line.batches) || b.BaseOffset() != line.batches[next].base {
				return fmt.Errorf("a batch at offset %d, which nobody sent there", b.BaseOffset())
			}
			if err := asSent(b, line.batches[next].batch, t.kind.rewrites); err != nil {
				return fmt.Errorf("batch at %d: %w", b.BaseOffset(), err)
			}
			next, at, buf = next+1, b.NextOffset(), rest
		}
	}
	return nil
}

// asSent compares a stored batch with what was sent.
func asSent(stored record.Batch, sent *batch, rewritten bool) error {
	was := record.Batch(sent.bytes)
	if stored.CRC() == was.CRC() {
		return nil // it covers everything but offset and leader epoch
	}
	if !rewritten || stored.Count() != sent.records || stored.ProducerID() != was.ProducerID() || stored.BaseSequence() != was.BaseSequence() {
		return fmt.Errorf("is not batch %d as it was sent", sent.number)
	}
	a, err := values(stored)
	if err != nil {
		return err
	}
	b, err := values(was)
	if err != nil {
		return err
	}
	for i := range b {
		if !bytes.Equal(a[i], b[i]) {
			return fmt.Errorf("record %d is %.40q, was %.40q", i, a[i], b[i])
		}
	}
	return nil
}

func values(b record.Batch) (list [][]byte, err error) {
	err = b.Records(func(r *record.Record) error {
		list = append(list, bytes.Clone(r.Value))
		return nil
	})
	return list, err
}

// resendMax is how many batches of an idempotent producer may be unanswered when the broker goes down: as many as clients have on the way.
const resendMax = 5

// resend does what idempotent producers do after a restart of the broker: they send again what was not answered, in order. Answered batches are sent again,
// too, as by a client that has not heard the answer: in all the newest resendMax, also those whose records are deleted. Others forget what they don't know about.
func (w *world) resend(n *node) error {
	for _, t := range w.alive() {
		for _, p := range t.parts {
			for _, b := range w.unheard(p) {
				c := w.send(n, t, p, b, -1)
				if <-c.done; c.Err != nil {
					break // the next one would come out of order
				}
			}
		}
	}
	return w.err()
}

// unheard returns what the partition's idempotent producer may send again.
func (w *world) unheard(p *part) []*batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	again := p.inflight
	p.inflight = nil
	list := slices.Clone(p.answered)
	for _, b := range again {
		if b.idempotent {
			p.inflight = append(p.inflight, b)
			list = append(list, b)
		}
	}
	return list[max(0, len(list)-resendMax):]
}

// verifyFiles checks every segment on the disk of a node that was stopped.
func verifyFiles(fsys vfs.FS) error {
	dirs, err := fsys.ReadDir(dataDir)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if !d.IsDir {
			if engine.IsSideFile(d.Name) {
				if _, err := engine.ReadSideFile(fsys, filepath.Join(dataDir, d.Name)); err != nil {
					return err
				}
			}
			continue
		}
		if strings.HasSuffix(d.Name, "-delete") {
			continue
		}
		if err := verifyDir(fsys, filepath.Join(dataDir, d.Name)); err != nil {
			return err
		}
	}
	return nil
}

func verifyDir(fsys vfs.FS, dir string) error {
	files, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Name)
		switch {
		case engine.IsSideFile(f.Name):
			_, err = engine.ReadSideFile(fsys, name)
		case strings.HasSuffix(f.Name, segment.LogSuffix), strings.HasSuffix(f.Name, segment.IndexSuffix), strings.HasSuffix(f.Name, segment.TimeIndexSuffix):
			base, _, _ := segment.ParseFileName(name)
			if _, missing := fsys.Stat(filepath.Join(dir, segment.FileName(base, segment.LogSuffix))); missing != nil {
				continue // an index whose segment did not survive: a segment that begins there takes its place
			}
			err = segment.Verify(fsys, name, false, func(p segment.Problem) error {
				if p.Harmless() {
					return nil // a segment that was rolled exactly at the recovery point and not trimmed before the power cut
				}
				return errors.New(p.String())
			})
		}
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	return nil
}
