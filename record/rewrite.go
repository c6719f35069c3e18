package record

import "encoding/binary"

// rewrite makes an accepted batch what the topic's rules want to store.
func (v *Validator) rewrite(b Batch, r *Rules, nowMs int64) (Validated, error) {
	maxTs := v.walk.maxTs
	if r.TimestampType == LogAppendTime {
		maxTs, v.walk.maxTsDelta, v.walk.maxTsIndex = nowMs, 0, 0
	}
	if !r.CodecIsProducer && r.Codec != b.Codec() {
		return v.recompress(b, r, maxTs)
	}
	if b.Codec() != None && !v.walk.consecutive {
		return Validated{}, errorf(Unknown, "offsets in a compressed batch are not consecutive")
	}
	stamp(b, r.TimestampType, maxTs)
	return v.accepted(b, maxTs), nil
}

// stamp sets the timestamp type and the greatest timestamp, and the checksum if one of them changed.
func stamp(b Batch, t TimestampType, maxTs int64) {
	if b.TimestampType() == t && b.MaxTimestamp() == maxTs {
		return
	}
	b.SetTimestampType(t)
	b.SetMaxTimestamp(maxTs)
	b.UpdateCRC()
}

// recompress makes a copy of the batch with the codec of the rules. The records stay byte for byte what they are, except that
// offset deltas become consecutive if they were not; so do base timestamp and producer fields.
func (v *Validator) recompress(b Batch, r *Rules, maxTs int64) (Validated, error) {
	records, err := v.plainRecords(b, r)
	if err != nil {
		return Validated{}, err
	}
	out := make(Batch, HeaderSize, HeaderSize+len(records)/2)
	copy(out, b)
	out, err = Compress(out, records, r.Codec, r.Level)
	if err != nil {
		return Validated{}, errorf(Unknown, "cannot compress with %s: %v", r.Codec, err)
	}
	if r.tooLarge(len(out)) {
		return Validated{}, errorf(MessageTooLarge, "batch of %d bytes after compression with %s, the limit is %d", len(out), r.Codec, r.MaxBatchBytes)
	}
	finish(out, r, maxTs)
	delta := min(max(v.walk.maxTsIndex, 0), out.LastOffsetDelta())
	return Validated{Batch: out, MaxTimestamp: maxTs, MaxTimestampOffsetDelta: delta, Count: out.Count(), Rewritten: true}, nil
}

// finish completes the header of a recompressed batch. Of the attributes only what has a meaning here is kept, as in Kafka.
func finish(out Batch, r *Rules, maxTs int64) {
	binary.BigEndian.PutUint32(out[offBatchLength:], uint32(len(out)-LogOverhead))
	out[offAttributes] = 0
	out[offAttributes+1] = out[offAttributes+1]&attrTransactional | byte(r.Codec)
	out.SetTimestampType(r.TimestampType)
	out.SetMaxTimestamp(maxTs)
	out.UpdateCRC()
}

// plainRecords is the batch's records, decompressed and with consecutive offset deltas. The result is valid until the next call.
func (v *Validator) plainRecords(b Batch, r *Rules) ([]byte, error) {
	records := b.Payload()
	if cap(v.scratch) > scratchKept {
		v.scratch = nil
	}
	if b.Codec() != None {
		var err error
		v.scratch, err = Decompress(v.scratch[:0], records, b.Codec(), r.inflateLimit())
		if err != nil {
			return nil, errorf(Unknown, "%v", err) // unlikely: the walk has just read the same bytes
		}
		records = v.scratch
	}
	if v.walk.consecutive {
		return records, nil
	}
	return renumber(records, b.Count()), nil
}

// renumber writes the records anew with offset deltas 0, 1, 2...
func renumber(records []byte, count int32) []byte {
	out := make([]byte, 0, len(records)+len(records)/8)
	var r Record
	for i := range count {
		if f := parseRecord(records, &r); f != "" {
			panic("BUG: a validated record is malformed: " + string(f))
		}
		out = appendView(out, r.TimestampDelta, i, &r)
		records = records[r.Size:]
	}
	return out
}
