package fuzz

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

// fileKind is what a damaged file is, as far as the rules for it differ.
type fileKind uint8

const (
	derivedFile  fileKind = iota // whatever happens to it, nothing is missing afterwards
	dataFile                     // a segment's data
	identityFile                 // meta.properties: a refused start, or nothing is missing
	metadataFile                 // the metadata's log and snapshots: a refused start, or nothing is missing
)

func kindOf(name string) fileKind {
	base := filepath.Base(name)
	inMetadata := strings.Contains(name, metadata.MetadataTopic)
	switch {
	case inMetadata && (strings.HasSuffix(base, ".log") || metadata.IsSnapshotFile(base)):
		return metadataFile
	case strings.HasSuffix(base, ".log"):
		return dataFile
	case base == "meta.properties":
		return identityFile
	}
	return derivedFile
}

// smallFileBytes: of files up to this size every byte and every length is tried.
const smallFileBytes = 600

// damages lists what is done to one file.
func (s *sample) damages(name string) (list []damage) {
	data := s.content[name]
	size := int64(len(data))
	for _, pos := range s.interesting(name, smallFileBytes) {
		if pos < size {
			list = append(list, flipByte(name, pos, 1<<(pos%8)))
		}
		list = append(list, cutFile(name, min(pos, size)))
	}
	list = append(list, removeFile(name), cutFile(name, 0), overwrite("zeros", name, 0, make([]byte, size)),
		overwrite("garbage behind", name, size, garbage(300)), overwrite("zeros behind", name, size, make([]byte, 300)),
		overwrite("garbage", name, 0, garbage(int(size))))
	if size > 4096 {
		list = append(list, overwrite("a page of zeros", name, 0, make([]byte, 4096)))
	}
	return list
}

// interesting returns the positions of a file at which it is damaged: all of a small one; of a large one those in headers, the last ones of
// batches, and some in between.
func (s *sample) interesting(name string, small int) (list []int64) {
	size := len(s.content[name])
	if size <= small {
		for pos := range size {
			list = append(list, int64(pos))
		}
		return list
	}
	seen := map[int64]bool{}
	add := func(pos int64) {
		if pos >= 0 && pos < int64(size) && !seen[pos] {
			seen[pos] = true
			list = append(list, pos)
		}
	}
	_, _ = record.Walk(s.content[name], func(at int, b record.Batch) error {
		for i := range record.HeaderSize + 3 {
			add(int64(at + i))
		}
		for i := record.HeaderSize; i < len(b); i += 67 {
			add(int64(at + i))
		}
		add(int64(at+len(b)) - 1)
		return nil
	})
	for pos := 0; pos < size; pos += 211 {
		add(int64(pos))
	}
	return list
}

func garbage(n int) []byte {
	p := make([]byte, n)
	for i, x := range p {
		p[i] = x + byte(i*i*7+i*13+0x5a)
	}
	return p
}

// envCorruption, set to "full", makes TestCorruption try everything instead of a sample.
const envCorruption = "LEAT_CORRUPTION"

// corruptionSample is which part of the damages is tried otherwise.
func corruptionSample() int {
	switch {
	case os.Getenv(envCorruption) == "full":
		return 1
	case testing.Short() || invariant.Enabled:
		return 64
	}
	return 16
}

// TestCorruption damages every file of a data directory in every way that matters and starts a broker on it. What derives from other files is made again
// and never keeps the broker from starting; a data file's damage costs at most what lies at or behind it in that file; damage is never served, never
// repaired by deleting, and always logged. A10, A20, A23, A27, A28, B-A4, B-A10, B-A11, B-A18, B-A19, D1, R6.
func TestCorruption(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(map[bool]string{true: "after a clean stop", false: "after an unclean stop"}[clean], func(t *testing.T) {
			s := makeSample(t, clean)
			s.mustBeGood(t)
			var list []damage
			for _, name := range s.files {
				list = append(list, s.damages(name)...)
			}
			runDamages(t, s, everyNth(list, corruptionSample()))
		})
	}
}

func everyNth(list []damage, n int) (some []damage) {
	for i := 0; i < len(list); i += n {
		some = append(some, list[i])
	}
	return some
}

// mustBeGood checks the sample itself: undamaged, everything is served.
func (s *sample) mustBeGood(t *testing.T) {
	t.Helper()
	c := outcome{s: s, fsys: s.copy()}
	if err := c.run(); err != nil || c.refused != nil || len(c.errors) > 0 {
		t.Fatalf("the sample itself: %v, start %v, errors %v", err, c.refused, c.errors)
	}
}

// runDamages tries each on a copy of the sample, on all processors.
func runDamages(t *testing.T, s *sample, list []damage) {
	t.Helper()
	var mu sync.Mutex
	counts := map[string]int{}
	failures := 0
	queue := make(chan *damage)
	var wg sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for d := range queue {
				what, err := s.try(d)
				mu.Lock()
				counts[what]++
				if err != nil {
					if failures++; failures <= 40 {
						t.Errorf("%s at %d of %s (%d bytes): %v", d.what, d.pos, d.file, len(s.content[d.file]), err)
					}
				}
				mu.Unlock()
			}
		})
	}
	for i := range list {
		queue <- &list[i]
	}
	close(queue)
	wg.Wait()
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%6d %s", counts[what], what)
	}
	if failures > 0 {
		t.Errorf("%d of %d failed", failures, len(list))
	}
}

// outcome is what a start on a damaged directory did.
type outcome struct {
	s       *sample
	fsys    *vfs.Mem
	refused error
	logs    string
	served  map[string][]bool // by topic: which of the batches were served
	errors  []readFailure
	ends    map[string]int64 // high watermarks
	starts  map[string]int64
	after   map[string][]byte // files when the start was over, before anything was written
}

type readFailure struct {
	topic  string
	offset int64
	code   protocol.Code
}

// try damages a copy, starts, reads everything, and says what happened; the error is what should not have.
func (s *sample) try(d *damage) (what string, err error) {
	c := outcome{s: s, fsys: s.copy()}
	if err := d.do(c.fsys); err != nil {
		return "not done", err
	}
	before := contents(c.fsys, sampleDir)
	if bytes.Equal(before[d.file], s.content[d.file]) && before[d.file] != nil {
		return "no change", nil
	}
	if err := c.run(); err != nil {
		return "failed", fmt.Errorf("%w\n%s", err, c.logs)
	}
	what, err = c.judge(d, before)
	if err == nil && kindOf(d.file) == dataFile && !c.harmless(d) && !strings.HasPrefix(d.what, "zeros behind") {
		damaged := s.copy()
		if err = d.do(damaged); err == nil && !verified(damaged, d.file) && !s.untold(d) {
			err = errors.New("leat log verify finds nothing")
		}
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, c.logs)
	}
	return what, err
}

// untold: the first file of a log is missing, or the damage is to the last one and leaves a shorter log or moves the last batch's offset: no file tells.
func (s *sample) untold(d *damage) bool {
	for _, list := range s.topics {
		end := list[len(list)-1]
		switch {
		case list[0].segment == d.file && d.what == "missing":
			return true
		case end.segment == d.file:
			return !strings.HasPrefix(d.what, "flip") || d.pos >= end.pos && d.pos < end.pos+8
		}
	}
	return false
}

// contents reads all files of a directory.
func contents(fsys vfs.FS, dir string) map[string][]byte {
	all := map[string][]byte{}
	entries, _ := fsys.ReadDir(dir)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name)
		if e.IsDir {
			maps.Copy(all, contents(fsys, name))
			continue
		}
		if e.Name == reserveFile {
			continue
		}
		data, err := vfs.ReadFile(fsys, name, 1<<26)
		if err == nil {
			if data == nil {
				data = []byte{}
			}
			all[name] = data
		}
	}
	return all
}

// run starts a broker, reads every partition, stops.
func (c *outcome) run() error {
	n, err := startSample(c.fsys, c.s.nowMs)
	c.logs = n.logs.String()
	if err != nil {
		c.refused = err
		c.after = contents(c.fsys, sampleDir)
		return nil
	}
	c.after = contents(c.fsys, sampleDir)
	c.served, c.ends, c.starts = map[string][]bool{}, map[string]int64{}, map[string]int64{}
	for topic := range c.s.topics {
		if err == nil {
			err = c.read(n, topic)
		}
	}
	if cerr := n.close(); err == nil && cerr != nil && !errors.Is(cerr, engine.ErrStorage) {
		err = fmt.Errorf("close: %w", cerr)
	}
	c.logs = n.logs.String()
	if strings.Contains(c.logs, "BUG") || strings.Contains(c.logs, "panic") {
		err = errors.Join(err, errors.New("the broker logged a bug"))
	}
	return err
}

// read fetches all that a topic has: what is served must be what was written, byte for byte but for the leader epoch, which no checksum covers.
func (c *outcome) read(n *sampleNode, topic string) error {
	list := c.s.topics[topic]
	served := make([]bool, len(list))
	c.served[topic] = served
	for offset := int64(0); ; {
		p, err := n.fetch(topic, offset)
		if err != nil {
			return fmt.Errorf("fetch %s at %d: %w", topic, offset, err)
		}
		code := protocol.Code(p.ErrorCode)
		if code == protocol.None {
			c.ends[topic], c.starts[topic] = p.HighWatermark, p.LogStartOffset
		}
		if code == protocol.OffsetOutOfRange && offset >= c.ends[topic] && c.ends[topic] > 0 {
			return nil
		}
		if code != protocol.None {
			c.errors = append(c.errors, readFailure{topic, offset, code})
			i := slices.IndexFunc(list, func(b sampleBatch) bool { return b.base > offset })
			if i < 0 {
				return nil
			}
			offset = list[i].base
			continue
		}
		if len(p.RecordBatches) == 0 {
			if offset < p.HighWatermark {
				return fmt.Errorf("%s at %d: nothing and no error below the high watermark %d", topic, offset, p.HighWatermark)
			}
			return nil
		}
		if offset, err = checkServed(list, served, offset, p.RecordBatches); err != nil {
			return fmt.Errorf("%s: %w", topic, err)
		}
	}
}

// checkServed compares what was served with what was written and returns the next offset.
func checkServed(list []sampleBatch, served []bool, offset int64, data []byte) (int64, error) {
	first := true
	for len(data) > 0 {
		b, rest, err := record.Frame(data)
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			return 0, fmt.Errorf("damaged bytes are served as data at offset %d: %w", offset, err)
		}
		i := slices.IndexFunc(list, func(w sampleBatch) bool { return w.base == b.BaseOffset() })
		if i < 0 || !sameBatch(b, list[i].data) {
			return 0, fmt.Errorf("a batch that was never written is served at offset %d (asked for %d)", b.BaseOffset(), offset)
		}
		if first && (offset < list[i].base || offset >= list[i].next) || !first && offset != list[i].base {
			return 0, fmt.Errorf("the batch at %d is served where %d is wanted", list[i].base, offset)
		}
		first, served[i], offset, data = false, true, list[i].next, rest
	}
	return offset, nil
}

// sameBatch compares all bytes but those of the partition leader epoch.
func sameBatch(a, b []byte) bool {
	return len(a) == len(b) && bytes.Equal(a[:12], b[:12]) && bytes.Equal(a[16:], b[16:])
}

// judge decides whether the outcome is one that the damage may have.
func (c *outcome) judge(d *damage, before map[string][]byte) (what string, err error) {
	kind := kindOf(d.file)
	name := kindName(d.file) + ": "
	if c.refused != nil {
		return name + "refused start", c.judgeRefusal(kind, d, before)
	}
	if err := c.nothingDeleted(d, before); err != nil {
		return name + "deleted", err
	}
	lost := c.lost()
	switch {
	case len(lost) == 0:
		return name + "everything served", c.judgeWhole(d)
	case kind != dataFile:
		return name + "lost", fmt.Errorf("not served: %v; errors %v", lost, c.errors)
	}
	return name + "part of the data not served", c.judgeDamage(d, lost)
}

func kindName(name string) string {
	base := filepath.Base(name)
	if strings.Contains(name, metadata.MetadataTopic) {
		return "metadata " + strings.TrimLeft(base, "0123456789-")
	}
	return strings.TrimLeft(base, "0123456789")
}

// judgeRefusal: only what says whose data it is, and the metadata, may refuse the start; nothing on disk changes by it and the file is named.
func (c *outcome) judgeRefusal(kind fileKind, d *damage, before map[string][]byte) error {
	if kind != identityFile && kind != metadataFile {
		return fmt.Errorf("refused start: %w", c.refused)
	}
	if !strings.Contains(c.refused.Error(), filepath.Base(d.file)) && !strings.Contains(c.refused.Error(), filepath.Dir(d.file)) &&
		!strings.Contains(c.refused.Error(), filepath.Base(filepath.Dir(d.file))) {
		return fmt.Errorf("the refusal does not name the file: %w", c.refused)
	}
	return c.nothingDeleted(d, before)
}

// lost lists the batches that were not served.
func (c *outcome) lost() (list []string) {
	for topic, served := range c.served {
		for i, ok := range served {
			if !ok {
				list = append(list, fmt.Sprintf("%s@%d", topic, c.s.topics[topic][i].base))
			}
		}
	}
	return list
}

// nothingDeleted: every data file is still there and begins with the bytes it had, up to what was promised.
func (c *outcome) nothingDeleted(d *damage, before map[string][]byte) error {
	for topic, list := range c.s.topics {
		for i := range list {
			b := &list[i]
			if b.next > c.s.promised[topic] {
				continue
			}
			was, is := before[b.segment], c.after[b.segment]
			if was == nil || int64(len(was)) < b.end() {
				continue
			}
			if int64(len(is)) < b.end() || !bytes.Equal(was[b.pos:b.end()], is[b.pos:b.end()]) {
				return fmt.Errorf("the start removed or changed bytes at position %d of %s, which were on stable storage", b.pos, b.segment)
			}
		}
	}
	return nil
}

// judgeWhole: all is served. Damage that nothing but a check of the file would find is fine; a damaged data file must be found by that.
func (c *outcome) judgeWhole(d *damage) error {
	if kindOf(d.file) == dataFile && d.pos >= 0 && !c.harmless(d) {
		return errors.New("all is served from a damaged file")
	}
	return nil
}

// harmless: the damage is in a leader epoch, or behind the last batch.
func (c *outcome) harmless(d *damage) bool {
	for _, list := range c.s.topics {
		for i := range list {
			b := &list[i]
			if b.segment == d.file && d.pos < b.end() {
				return d.pos >= b.pos+12 && d.pos < b.pos+16
			}
		}
	}
	return true
}

// judgeDamage: a data file was damaged. Everything outside of it is served, and everything before the damage.
func (c *outcome) judgeDamage(d *damage, lost []string) error {
	for topic, served := range c.served {
		for i, ok := range served {
			b := &c.s.topics[topic][i]
			if ok {
				continue
			}
			if b.segment != d.file {
				if d.file < b.segment && filepath.Dir(d.file) == filepath.Dir(b.segment) && !c.s.clean && b.next > c.s.promised[topic] {
					continue // behind the end of the log
				}
				return fmt.Errorf("the batch at %d of %s is not served; it is not in the damaged file. errors %v", b.base, topic, c.errors)
			}
			if b.end() <= d.pos {
				return fmt.Errorf("the batch at %d of %s is not served; it is before the damage. errors %v", b.base, topic, c.errors)
			}
		}
	}
	for _, f := range c.errors {
		if f.code == protocol.OffsetOutOfRange && f.offset < c.starts[f.topic] && d.what == "missing" {
			continue // the log begins behind what is missing, and says so
		}
		if f.code != protocol.KafkaStorageError && f.code != protocol.CorruptMessage {
			return fmt.Errorf("the damage is answered with %s at offset %d of %s", f.code.Name(), f.offset, f.topic)
		}
	}
	if c.onlyZerosLeft(d) {
		return nil
	}
	said := []string{filepath.Base(d.file), "cut the tail", "removing a segment behind the end"}
	if d.what == "missing" {
		said = append(said, "missing", "a log is damaged")
	}
	if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(c.logs, s) }) {
		return errors.New("nothing is logged about it")
	}
	return nil
}

// onlyZerosLeft: after an unclean stop, what was not known to be on stable storage became zeros, was cut or is gone: like what was never written.
func (c *outcome) onlyZerosLeft(d *damage) bool {
	if c.s.clean || !slices.Contains([]string{"cut", "zeros", "a page of zeros", "missing"}, d.what) {
		return false
	}
	for topic, served := range c.served {
		for i, ok := range served {
			if !ok && c.s.topics[topic][i].base < c.s.promised[topic] {
				return false
			}
		}
	}
	return true
}

// verified tells whether `leat log verify` finds something in the file.
func verified(fsys vfs.FS, name string) bool {
	found := false
	note := func(p segment.Problem) error {
		found = found || !p.Harmless()
		return nil
	}
	if _, err := fsys.Stat(name); err == nil {
		if err := segment.Verify(fsys, name, true, note); err != nil {
			return true
		}
	}
	return segment.VerifyOrder(fsys, filepath.Dir(name), note) != nil || found
}
