package record

import "encoding/binary"

// Filter takes records out of a stored batch, as compaction does. It keeps its buffers and is not safe for concurrent use.
//
// What stays keeps its offset: base offset, last offset delta, sequence numbers and all attributes of the batch remain, only the records between them
// get fewer.
type Filter struct {
	kept []byte // records, uncompressed
	out  []byte
	plan Filtered
}

// Filtered tells what Filter.Run kept.
type Filtered struct {
	Kept, Dropped int32
	Tombstones    bool  // among the kept
	maxTs         int64 // of the kept
}

// Run asks keep about every record of b, decompressing up to inflateLimit bytes, and remembers those that stay for Rewrite. The record is a view that is
// valid during the call.
func (f *Filter) Run(b Batch, inflateLimit int64, keep func(r *Record) bool) (Filtered, error) {
	if cap(f.kept) > scratchKept {
		f.kept = nil
	}
	f.kept, f.plan = f.kept[:0], Filtered{maxTs: NoTimestamp}
	base := b.BaseTimestamp()
	err := b.RecordsLimit(inflateLimit, func(r *Record) error {
		if !keep(r) {
			f.plan.Dropped++
			return nil
		}
		f.plan.Kept++
		f.plan.Tombstones = f.plan.Tombstones || r.ValueNull()
		f.plan.maxTs = max(f.plan.maxTs, base+r.TimestampDelta)
		f.kept = append(f.kept, r.Raw...)
		return nil
	})
	return f.plan, err
}

// Rewrite returns the batch that Run was given with the records it kept, at least one, compressed as they were (level as for Compress). horizonMs >= 0
// makes it the batch's delete horizon: the base timestamp, which the records' timestamps then count from (KIP-534). The result is valid until the
// next call.
func (f *Filter) Rewrite(b Batch, horizonMs int64, level int) (Batch, error) {
	if f.plan.Kept == 0 {
		panic("BUG: record.Filter: a batch without records is made by AppendEmpty")
	}
	if cap(f.out) > scratchKept {
		f.out = nil
	}
	records := f.kept
	if horizonMs >= 0 {
		records = rebase(records, f.plan.Kept, b.BaseTimestamp()-horizonMs)
	}
	out, err := Compress(append(f.out[:0], b[:HeaderSize]...), records, b.Codec(), level)
	if err != nil {
		return nil, errorf(Unknown, "cannot compress with %s: %v", b.Codec(), err)
	}
	f.out = out
	res := Batch(out)
	be := binary.BigEndian
	be.PutUint32(res[offBatchLength:], uint32(len(res)-LogOverhead))
	be.PutUint32(res[offCount:], uint32(f.plan.Kept))
	if b.TimestampType() == CreateTime {
		res.SetMaxTimestamp(f.plan.maxTs)
	}
	if horizonMs >= 0 {
		res[offAttributes+1] |= attrDeleteHorizon
		be.PutUint64(res[offBaseTimestamp:], uint64(horizonMs))
	}
	res.UpdateCRC()
	return res, nil
}

// rebase writes the records anew with shift added to their timestamp deltas.
func rebase(records []byte, count int32, shift int64) []byte {
	out := make([]byte, 0, len(records)+int(count)*varintSizeMax)
	var r Record
	for range count {
		if f := parseRecord(records, &r); f != "" {
			panic("BUG: a record that was walked is malformed: " + string(f))
		}
		out = appendView(out, r.TimestampDelta+shift, r.OffsetDelta, &r)
		records = records[r.Size:]
	}
	return out
}

// AppendEmpty appends to dst what is left of b when all its records are gone: its header, with offsets, producer and sequence numbers. Nothing is
// compressed, and there is no base timestamp and so no delete horizon.
func AppendEmpty(dst []byte, b Batch) []byte {
	head := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	e := Batch(dst[head:])
	be := binary.BigEndian
	be.PutUint32(e[offBatchLength:], HeaderSize-LogOverhead)
	e[offAttributes+1] &^= attrCodec | attrDeleteHorizon
	be.PutUint64(e[offBaseTimestamp:], ^uint64(0)) // NoTimestamp
	be.PutUint32(e[offCount:], 0)
	e.UpdateCRC()
	return dst
}
