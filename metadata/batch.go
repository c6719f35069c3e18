package metadata

import (
	"errors"
	"fmt"

	"github.com/leatmq/leat/record"
)

// encode encodes the records of one proposal. Every encoding is read back, so that what could not be replayed is refused
// here and not at the next start.
func encode(records []Record) (encoded [][]byte, size int, err *Error) {
	encoded = make([][]byte, len(records))
	for n, r := range records {
		encoded[n] = AppendRecord(nil, r)
		if _, err := DecodeRecord(encoded[n]); err != nil {
			return nil, 0, errorf(InvalidRequest, "The change cannot be stored: %v", err)
		}
		size += len(encoded[n]) + record.MaxRecordOverhead
	}
	if size > batchBytesMax/2 {
		return nil, 0, excessive()
	}
	return encoded, size, nil
}

// decodeBatch calls visit for each record of a batch with its offset.
func decodeBatch(b record.Batch, visit func(offset int64, r Record) error) error {
	return b.Records(func(raw *record.Record) error {
		offset := b.BaseOffset() + int64(raw.OffsetDelta)
		r, err := DecodeRecord(raw.Value)
		if err == nil {
			return visit(offset, r)
		}
		if errors.Is(err, errNewer) {
			return &FormatError{Where: logPlace(offset), Newer: true, Msg: err.Error(),
				Fix: "start the version of leat that wrote it, or a newer one"}
		}
		return &FormatError{Where: logPlace(offset), Msg: fmt.Sprintf("damaged record: %v", err), Fix: "restore " + MetadataTopic + "-0 from a backup"}
	})
}

// replay applies a batch to the editor; records below the editor's offset are in it already.
func (e *editor) replay(b record.Batch) error {
	err := decodeBatch(b, func(offset int64, r Record) error {
		switch {
		case offset < e.next.offset:
			return nil
		case offset > e.next.offset:
			return &FormatError{Where: logPlace(e.next.offset), Msg: fmt.Sprintf("records are missing up to offset %d", offset),
				Fix: "restore " + MetadataTopic + "-0 from a backup"}
		}
		if err := e.apply(r); err != nil {
			return &FormatError{Where: logPlace(offset), Newer: errors.Is(err, errNewer), Msg: err.Error(),
				Fix: "restore " + MetadataTopic + "-0 from a backup"}
		}
		return nil
	})
	e.next.epoch = max(e.next.epoch, b.PartitionLeaderEpoch())
	return err
}
