package record

import (
	"fmt"
	"io"
	"math"

	"github.com/leatmq/leat/internal/invariant"
)

// Origin says who sent a batch.
type Origin uint8

const (
	// Client: a producer. Everything is checked; what the broker owns in the header is rewritten.
	Client Origin = iota
	// Replica: fetched from the leader, which has walked the records. Checksum and header are checked, nothing is rewritten.
	Replica
	// Internal: made by this broker, perhaps a control batch. Checksum, header and structure are checked, nothing is rewritten.
	Internal
)

// Rules are a topic's demands on a batch.
type Rules struct {
	MaxBatchBytes   int           // of one batch as stored; 0: no limit. Replica ignores it
	Compacted       bool          // every record needs a key
	TimestampType   TimestampType // the topic's, whatever the client set
	BeforeMaxMs     int64         // how far a CreateTime may lie before now
	AfterMaxMs      int64         // how far a CreateTime may lie after now
	Codec           Codec         // the codec to store with, unless CodecIsProducer
	CodecIsProducer bool          // compression.type=producer: store with the codec it came with
	Level           int           // of Codec, see Compress
	InflateLimit    int64         // bytes a compressed batch may inflate to; 0: DefaultInflateLimit
	Origin          Origin
}

func (r *Rules) inflateLimit() int64 {
	if r.InflateLimit <= 0 {
		return DefaultInflateLimit
	}
	return r.InflateLimit
}

// tooLarge says whether a batch of size bytes is.
func (r *Rules) tooLarge(size int) bool { return r.MaxBatchBytes > 0 && size > r.MaxBatchBytes }

// Validated is an accepted batch, ready for its offset.
type Validated struct {
	Batch                   Batch // aliases the input, or is a copy when Rewritten
	MaxTimestamp            int64 // ms; the log append time when the topic has that
	MaxTimestampOffsetDelta int32 // of the first record with MaxTimestamp; for Replica, which walks no records, the last offset
	Count                   int32
	Rewritten               bool // Batch was recompressed into memory of its own
}

// recordErrorsMax bounds what one refused batch makes us remember and send. Clients treat records that are not listed as
// refused for the sake of the others.
const recordErrorsMax = 1000

// scratchKept is the most memory a Validator keeps from a batch it recompressed.
const scratchKept = 1 << 20

// Validator checks batches. It keeps buffers between calls and is not safe for concurrent use.
//
// The order of the checks, which decides the answer to a batch that is wrong in several ways, is Kafka 4.4's: framing and "exactly
// one batch", base offset, size, checksum, codec, the header's counts, control, sequence, and then the records. A malformed record
// anywhere outweighs refused ones, and a bad timestamp outweighs a missing key.
//
// It is stricter than Kafka where Kafka stores what its own consumers cannot read: record lengths inside a compressed batch must
// be right, and nothing may follow the end of a compressed stream. With a client-set LogAppendTime bit on a CreateTime topic it
// judges and keeps the records' own timestamps, since those are what is stored.
type Validator struct {
	walk    walk
	scratch []byte // decompressed records on their way to another codec
}

// walk is what validation looks for in the records of one batch, and what it learns from them.
type walk struct {
	baseTs    int64
	keyNeeded bool
	earliest  int64  // bounds of a record's own timestamp, both inclusive
	latest    int64  //
	allFault  string // why every record is refused, for reasons in the header; else empty

	maxTs        int64
	maxTsDelta   int32 // offset delta of the first record with maxTs
	maxTsIndex   int32 // and its index
	consecutive  bool  // offset deltas are 0, 1, 2...
	badTimestamp bool  // at least one record was refused for its timestamp
	errCount     int
	errs         []RecordError // the first recordErrorsMax of them
}

// Validate checks the one batch in buf, changes in it what the topic's rules ask for, and cuts stray bytes behind it. It does not
// assign offsets. buf is changed only when the batch is accepted. Errors are *Error.
func (v *Validator) Validate(buf []byte, r *Rules, nowMs int64) (Validated, error) {
	b, err := cutOne(buf)
	if err != nil {
		return Validated{}, err
	}
	if r.Origin == Replica {
		return validateReplica(b)
	}
	if err := checkEnvelope(b, r); err != nil {
		return Validated{}, err
	}
	if err := v.walkRecords(b, r, nowMs); err != nil {
		return Validated{}, err
	}
	if r.Origin == Internal {
		return v.accepted(b, v.walk.maxTs), nil
	}
	got, err := v.rewrite(b, r, nowMs)
	if invariant.Enabled && err == nil {
		err := got.Batch.Check()
		invariant.Check(err == nil, "validation made a batch that does not check: %v", err)
	}
	return got, err
}

// validateReplica trusts the leader's walk and the header it wrote.
func validateReplica(b Batch) (Validated, error) {
	if err := b.Check(); err != nil {
		return Validated{}, err
	}
	return Validated{Batch: b, MaxTimestamp: b.MaxTimestamp(), MaxTimestampOffsetDelta: b.LastOffsetDelta(), Count: b.Count()}, nil
}

func (v *Validator) accepted(b Batch, maxTs int64) Validated {
	delta := min(max(v.walk.maxTsDelta, 0), b.LastOffsetDelta()) // deltas are the client's and may be anything
	return Validated{Batch: b, MaxTimestamp: maxTs, MaxTimestampOffsetDelta: delta, Count: b.Count()}
}

// cutOne frames the one batch of a produce request. Behind it, bytes that do not make a whole batch are dropped, unless they
// claim to be one that cannot exist.
func cutOne(buf []byte) (Batch, error) {
	b, rest, err := Frame(buf)
	if err != nil {
		return nil, frameError(err)
	}
	if len(rest) == 0 {
		return b, nil
	}
	switch _, _, err = Frame(rest); err := err.(type) {
	case nil:
		return nil, errorf(InvalidRecord, "more than one batch for a partition")
	case *Error:
		return nil, errorf(err.Kind, "a second batch: %s", err.Msg)
	}
	if err == ErrEnd {
		return nil, errorf(CorruptMessage, "a second batch has length 0")
	}
	return b, nil
}

// frameError gives the conditions a log reader cares about the meaning they have in a request.
func frameError(err error) error {
	switch err {
	case io.EOF:
		return errorf(InvalidRecord, "no batch")
	case ErrShort:
		return errorf(InvalidRecord, "incomplete batch")
	case ErrEnd:
		return errorf(CorruptMessage, "batch length 0 is less than any batch has")
	}
	return err
}

// checkEnvelope checks everything but the records.
func checkEnvelope(b Batch, r *Rules) error {
	if r.Origin == Client && b.BaseOffset() != 0 {
		return errorf(InvalidRecord, "base offset is %d, not 0", b.BaseOffset())
	}
	if r.tooLarge(len(b)) {
		return errorf(MessageTooLarge, "batch of %d bytes, the limit is %d", len(b), r.MaxBatchBytes)
	}
	if stored, computed := b.CRC(), b.ComputeCRC(); stored != computed {
		return errorf(CorruptMessage, "checksum is %#08x, stored is %#08x", computed, stored)
	}
	if b.Codec() > Zstd {
		return errorf(Unknown, "unknown codec %d", uint8(b.Codec()))
	}
	return checkCounts(b, r)
}

func checkCounts(b Batch, r *Rules) error {
	delta, count := b.LastOffsetDelta(), b.Count()
	switch {
	case delta < 0 || delta == math.MaxInt32:
		return errorf(InvalidRecord, "last offset delta %d is out of range", delta)
	case count <= 0:
		return errorf(InvalidRecord, "record count %d is not positive", count)
	case delta+1 != count:
		return errorf(InvalidRecord, "%d records in %d offsets", count, delta+1)
	case r.Origin != Client:
		return nil
	case b.IsControl():
		return errorf(InvalidRecord, "clients may not write control records")
	case b.ProducerID() > NoProducerID && b.BaseSequence() < 0:
		return errorf(InvalidRecord, "sequence %d of producer %d is negative", b.BaseSequence(), b.ProducerID())
	}
	return nil
}

// walkRecords visits every record and fails when one is malformed or refused.
func (v *Validator) walkRecords(b Batch, r *Rules, nowMs int64) error {
	v.walk.begin(b, r, nowMs)
	err := v.visitAll(b, r)
	if err == ErrInflate {
		return errorf(MessageTooLarge, "batch of %d bytes inflates to more than %d", len(b), r.inflateLimit())
	}
	if err != nil {
		return err
	}
	return v.walk.verdict()
}

func (v *Validator) visitAll(b Batch, r *Rules) error {
	if b.Codec() == None {
		return v.visitPlain(b)
	}
	if b.Codec() == LZ4 && lz4BlocksLinked(b.Payload()) {
		return errorf(Unknown, "lz4 data has linked blocks, which not every client can read")
	}
	s, err := openStream(b.Codec(), b.Payload(), r.inflateLimit())
	if err != nil {
		return err
	}
	defer s.close()
	return v.visitStream(b, s)
}

func (v *Validator) visitPlain(b Batch) error {
	p := b.Payload()
	var l layout
	for i := range b.Count() {
		if f := l.parse(p); f != "" {
			return recordFault(i, f)
		}
		v.walk.visit(i, &l)
		p = p[l.size:]
	}
	if len(p) > 0 {
		return errSurplus
	}
	return nil
}

func (v *Validator) visitStream(b Batch, s *stream) error {
	var l layout
	for i := range b.Count() {
		if err := s.passRecord(i, &l); err != nil {
			return err
		}
		v.walk.visit(i, &l)
	}
	return s.end()
}

// passRecord takes the next record off the stream; a large one without holding it.
func (s *stream) passRecord(index int32, l *layout) error {
	size, err := s.recordSize(index)
	if err != nil {
		return err
	}
	if size > windowSize {
		return s.skimRecord(index, size, l)
	}
	if err := s.bringRecord(index, size, l); err != nil {
		return err
	}
	s.take(size)
	return nil
}

func (w *walk) begin(b Batch, r *Rules, nowMs int64) {
	*w = walk{baseTs: b.BaseTimestamp(), maxTs: NoTimestamp, consecutive: true, earliest: math.MinInt64, latest: math.MaxInt64}
	if r.Origin != Client {
		return
	}
	w.keyNeeded = r.Compacted
	if r.TimestampType == CreateTime {
		w.earliest, w.latest = subSaturating(nowMs, r.BeforeMaxMs), addSaturating(nowMs, r.AfterMaxMs)
	}
	if b.TimestampType() == LogAppendTime {
		w.judgeHeader(b.MaxTimestamp(), r)
	}
}

// judgeHeader looks at a client's LogAppendTime bit, with which every record claims the header's maximum as its timestamp.
func (w *walk) judgeHeader(ts int64, r *Rules) {
	if r.TimestampType == LogAppendTime || ts == NoTimestamp {
		w.allFault = "A producer must not set the timestamp type to LogAppendTime."
	} else if w.outOfRange(ts) {
		w.allFault = w.rangeFault(ts)
	}
}

func (w *walk) visit(index int32, l *layout) {
	ts := w.baseTs + l.timestampDelta
	if ts > w.maxTs {
		w.maxTs, w.maxTsDelta, w.maxTsIndex = ts, l.offsetDelta, index
	}
	if l.offsetDelta != index {
		w.consecutive = false
	}
	if w.suspicious(ts, l) {
		w.judge(index, ts, l)
	}
}

// suspicious is the quick test that honest records pass.
func (w *walk) suspicious(ts int64, l *layout) bool {
	return l.keyLen < 0 && w.keyNeeded || ts < w.earliest || ts > w.latest || w.allFault != ""
}

// judge refuses the record, or not.
func (w *walk) judge(index int32, ts int64, l *layout) {
	switch {
	case w.keyNeeded && l.keyNull():
		w.refuse(index, "A compacted topic cannot accept a message without a key.")
	case w.allFault != "":
		w.badTimestamp = true
		w.refuse(index, w.allFault)
	case ts != NoTimestamp && w.outOfRange(ts):
		w.badTimestamp = true
		w.refuse(index, w.rangeFault(ts))
	}
}

func (w *walk) refuse(index int32, msg string) {
	w.errCount++
	if len(w.errs) < recordErrorsMax {
		w.errs = append(w.errs, RecordError{Index: index, Msg: msg})
	}
}

func (w *walk) outOfRange(ts int64) bool { return ts < w.earliest || ts > w.latest }

func subSaturating(a, b int64) int64 {
	if b > 0 && a < math.MinInt64+b {
		return math.MinInt64
	}
	return a - b
}

func addSaturating(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// rangeFault says what is wrong with ts; nothing when nobody will be told.
func (w *walk) rangeFault(ts int64) string {
	if len(w.errs) == recordErrorsMax {
		return ""
	}
	return fmt.Sprintf("Timestamp %d is out of range. The timestamp should be within [%d, %d].", ts, w.earliest, w.latest)
}

// verdict is nil when no record was refused.
func (w *walk) verdict() error {
	if w.errCount == 0 {
		return nil
	}
	kind, cause := InvalidRecord, "a missing key"
	if w.badTimestamp {
		kind, cause = InvalidTimestamp, "an invalid timestamp"
	}
	err := errorf(kind, "%d records of the batch have been rejected because of %s.", w.errCount, cause)
	err.Records = w.errs
	return err
}
