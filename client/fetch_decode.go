package client

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/record"
)

// chunk is what one fetch brought of one partition, and how far it has been handed out. It is pure. Records alias the bytes of the fetch, or those that a
// compressed batch inflates to; what has been handed out is never written again.
type chunk struct {
	p       *partition
	by      *fetcher
	lease   *lease // the memory that batches lie in
	version uint64 // of p's position when it was asked for
	end     position
	size    int    // bytes
	rest    []byte // batches that have not been begun
	records int    // that are left, by the word of the batches; an estimate
	next    position
	err     error // why there is no more

	open struct {
		record.Cursor
		ok    bool
		base  int64    // offset that deltas count from
		epoch int32    // leader epoch of the batch
		after position // behind the batch
	}
	aborted abortedTxns
	headers []Header // room for headers to come
}

// newChunk looks over what was fetched from an offset. Its end is where the next fetch begins: behind the last whole batch.
func newChunk(p *partition, by *fetcher, version uint64, from position, batches []byte, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction) *chunk {
	k := &chunk{p: p, by: by, version: version, next: from, end: from, aborted: newAbortedTxns(aborted)}
	whole := batches
	for len(whole) > 0 {
		b, rest, err := record.Frame(whole)
		if err != nil {
			if !errors.Is(err, record.ErrShort) {
				rest, k.records = nil, k.records+1 // read will meet it and say what it is
			}
			break
		}
		k.end = position{max(b.NextOffset(), k.end.offset), b.PartitionLeaderEpoch()}
		k.records += int(min(uint32(b.Count()), recordsGuessMax))
		whole = rest
	}
	k.rest = batches
	k.size = len(batches)
	return k
}

// recordsGuessMax bounds what is believed of a batch's count before its records are seen.
const recordsGuessMax = 1 << 16

// done says whether everything has been handed out.
func (k *chunk) done() bool { return !k.open.ok && len(k.rest) == 0 }

// read appends up to most records to dst, and passes what is behind them and has nothing for the user, so that the position is at the next record or at
// the end. An error concerns the record or batch at k.next; nothing behind it can be read, and every further read says the same.
func (k *chunk) read(dst []Record, most int) ([]Record, error) {
	limit := len(dst) + most
	for k.err == nil && !k.done() {
		switch {
		case !k.open.ok:
			k.err = k.openBatch()
		case k.open.Done():
			k.open.ok = false
			k.passTo(k.open.after)
		case len(dst) >= limit:
			return dst, nil
		default:
			dst, k.err = k.readBatch(dst, limit-len(dst))
		}
	}
	return dst, k.err
}

// openBatch begins the next batch, or passes one that has nothing for the user.
func (k *chunk) openBatch() error {
	b, rest, err := record.Frame(k.rest)
	if errors.Is(err, record.ErrShort) || errors.Is(err, record.ErrEnd) {
		k.rest = nil // a broker may cut the last batch anywhere
		return nil
	}
	if err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return err
	}
	after := position{b.NextOffset(), b.PartitionLeaderEpoch()}
	if after.offset <= k.next.offset || k.aborted.skips(b) || b.IsControl() || b.Count() == 0 {
		k.rest = rest
		k.passTo(after)
		return nil
	}
	payload := b.Payload()
	if b.Codec() != record.None {
		if payload, err = record.Decompress(nil, payload, b.Codec(), record.DefaultInflateLimit); err != nil {
			return err
		}
	}
	k.rest = rest
	k.open.Cursor, k.open.ok = b.Cursor(payload), true
	k.open.base, k.open.epoch, k.open.after = b.BaseOffset(), b.PartitionLeaderEpoch(), after
	return nil
}

func (k *chunk) passTo(after position) {
	if after.offset > k.next.offset {
		k.next = after
	}
}

// readBatch hands out records of the open batch.
func (k *chunk) readBatch(dst []Record, most int) ([]Record, error) {
	var f record.Fields
	tp := k.p.tp
	for ; most > 0; most-- {
		more, err := k.open.Next(&f)
		if err != nil {
			return dst, err
		}
		if !more {
			return dst, nil
		}
		offset := k.open.base + int64(f.OffsetDelta)
		if offset < k.next.offset {
			most++
			continue // the broker sends whole batches
		}
		k.next = position{offset + 1, k.open.epoch}
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(most, max(k.open.Left(), 1)))
		}
		dst = dst[:len(dst)+1]
		r := &dst[len(dst)-1]
		r.Topic, r.Partition, r.Offset, r.LeaderEpoch = tp.Topic, tp.Partition, offset, k.open.epoch
		r.Timestamp, r.Key, r.Value, r.Headers = time.UnixMilli(f.Timestamp), f.Key, f.Value, nil
		if f.HeaderCount > 0 {
			r.Headers = k.takeHeaders(&f)
		}
	}
	return dst, nil
}

const headerSlab = 64

// takeHeaders makes the headers of a record, many of them from one allocation.
func (k *chunk) takeHeaders(f *record.Fields) []Header {
	n := int(f.HeaderCount)
	if len(k.headers) < n {
		k.headers = make([]Header, max(n, headerSlab))
	}
	hs := k.headers[:n:n]
	k.headers = k.headers[n:]
	it := f.Headers()
	for i := range hs {
		key, value, _ := it.Next()
		hs[i] = Header{Key: string(key), Value: value}
	}
	return hs
}

// abortedTxns tells which batches belong to aborted transactions: read_committed fetches bring, beside the batches, who aborted from which offset on.
type abortedTxns struct {
	begin []kmsg.FetchResponseTopicPartitionAbortedTransaction // not yet reached, by first offset
	open  map[int64]struct{}                                   // producers in an aborted transaction
}

func newAbortedTxns(list []kmsg.FetchResponseTopicPartitionAbortedTransaction) abortedTxns {
	byOffset := func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	}
	if !slices.IsSortedFunc(list, byOffset) {
		slices.SortFunc(list, byOffset)
	}
	return abortedTxns{begin: list}
}

// skips says whether a batch is part of an aborted transaction. It must be asked about every batch, in order.
func (a *abortedTxns) skips(b record.Batch) bool {
	if len(a.begin) == 0 && len(a.open) == 0 {
		return false
	}
	for len(a.begin) > 0 && a.begin[0].FirstOffset <= b.LastOffset() {
		if a.open == nil {
			a.open = make(map[int64]struct{})
		}
		a.open[a.begin[0].ProducerID] = struct{}{}
		a.begin = a.begin[1:]
	}
	_, open := a.open[b.ProducerID()]
	if !open || !b.IsTransactional() {
		return false
	}
	if b.IsControl() {
		delete(a.open, b.ProducerID()) // the marker that ends it, whatever it says: the broker said that it was aborted
	}
	return true
}
