package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/leatmq/leat/client"
	"github.com/leatmq/leat/protocol"
)

// growthCheck is how often a consumer that reads all partitions looks whether there are more.
var growthCheck = 10 * time.Second

const (
	pollRecords    = 2000                   // at most, of one poll
	commitInterval = time.Second            // of a group's offsets
	endCheck       = 100 * time.Millisecond // how often positions are looked at when no records come
	leaveTimeout   = 5 * time.Second        // for the last commit and leaving the group
)

// reading is one run of `leat consume`.
type reading struct {
	*consuming
	consumer *client.Consumer
	w        io.Writer
	now      func() time.Time

	ends  map[client.TopicPartition]int64 // of --exit-at-end
	out   []byte
	shown int64 // records that were printed or counted

	unsaved   bool                                       // something was printed and not committed
	printed   map[client.TopicPartition]client.Committed // how far, since the last commit
	commitAt  time.Time
	broken    bool  // the output could not be written, or nobody reads it any more: what it was given last is not committed
	commitErr error // of the last commit

	growAt     time.Time // when to look for more partitions
	quietSince time.Time // no records since then
	wellAt     time.Time // the cluster could be asked then
}

// begin gives the consumer its partitions and the places to begin at.
func (r *reading) begin(ctx context.Context, partitions []client.TopicPartition) (err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if r.exitAtEnd {
		if r.ends, err = r.consumer.Offsets(ctx, client.Latest, partitions...); err != nil {
			return err
		}
	}
	if r.group != "" {
		return r.consumer.Subscribe(r.topics...)
	}
	starts, err := r.starts(ctx, partitions)
	if err != nil {
		return err
	}
	if err := r.consumer.Assign(partitions...); err != nil {
		return err
	}
	for tp, offset := range starts {
		if err := r.consumer.Seek(tp, client.At(offset)); err != nil {
			return err
		}
	}
	return nil
}

// starts finds the offsets to begin at.
func (r *reading) starts(ctx context.Context, partitions []client.TopicPartition) (map[client.TopicPartition]int64, error) {
	switch r.place.kind {
	case "from-beginning":
		return r.consumer.Offsets(ctx, client.Earliest, partitions...)
	case "from-time":
		return r.consumer.Offsets(ctx, client.AtTime(r.place.when), partitions...)
	case "offset":
		return r.startsAt(ctx, r.place.at, partitions)
	}
	if r.ends != nil {
		return r.ends, nil
	}
	return r.consumer.Offsets(ctx, client.Latest, partitions...)
}

// startsAt is one offset in all partitions, or so many before their ends.
func (r *reading) startsAt(ctx context.Context, at int64, partitions []client.TopicPartition) (map[client.TopicPartition]int64, error) {
	first, err := r.consumer.Offsets(ctx, client.Earliest, partitions...)
	if err != nil {
		return nil, err
	}
	last, err := r.consumer.Offsets(ctx, client.Latest, partitions...)
	if err != nil {
		return nil, err
	}
	starts := map[client.TopicPartition]int64{}
	for _, tp := range partitions {
		switch {
		case at < 0:
			starts[tp] = max(last[tp]+max(at, -last[tp]), first[tp])
		case at < first[tp] || at > last[tp]:
			return nil, fmt.Errorf("partition %d of %s has offsets from %d on and ends at %d; there is no %d", tp.Partition, tp.Topic, first[tp], last[tp], at)
		default:
			starts[tp] = at
		}
	}
	return starts, nil
}

// all reads until it is enough.
func (r *reading) all(ctx context.Context) error {
	r.quietSince, r.wellAt = r.now(), r.now()
	for !r.enough() {
		if err := r.grow(ctx); err != nil {
			return err
		}
		records, err := r.poll(ctx)
		switch {
		case len(records) > 0: // also when it was interrupted meanwhile: what Poll returns counts as read, and is committed
			if err := r.show(records); err != nil {
				r.broken = true
				return err
			}
			if r.quietSince, r.wellAt = r.now(), r.now(); ctx.Err() != nil {
				return ctx.Err()
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			if over, err := r.nothing(err); over || err != nil {
				return err
			}
		case err != nil:
			return err
		}
		if err := r.commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// nothing is called when no records came: it is over when that lasts for too long, and wrong when the cluster cannot be asked for too long.
func (r *reading) nothing(err error) (over bool, _ error) {
	now := r.now()
	if err == context.DeadlineExceeded { //nolint:errorlint // with nothing else in it, all is well
		r.wellAt = now
	}
	if now.Sub(r.wellAt) >= r.timeout {
		return false, err
	}
	return r.idle > 0 && now.Sub(r.quietSince) >= r.idle, nil
}

// poll waits for records until there is something else to look at.
func (r *reading) poll(ctx context.Context) ([]client.Record, error) {
	wait := max(r.timeout/4, time.Millisecond) // so that trouble that has just begun does not count for long
	if r.idle > 0 {
		wait = min(wait, r.quietSince.Add(r.idle).Sub(r.now()))
	}
	if r.ends != nil {
		wait = min(wait, endCheck)
	}
	if r.unsaved && r.group != "" {
		wait = min(wait, commitInterval)
	}
	if r.followsGrowth() {
		wait = min(wait, growthCheck)
	}
	ctx, cancel := context.WithTimeout(ctx, max(wait, 0))
	defer cancel()
	return r.consumer.Poll(ctx, r.most())
}

// followsGrowth says whether partitions that are added are read, too. (A group sees to that itself.)
func (r *reading) followsGrowth() bool {
	return r.group == "" && len(r.partitions) == 0 && r.ends == nil
}

// grow takes partitions that were added to the topics, from their beginning.
func (r *reading) grow(ctx context.Context) error {
	if !r.followsGrowth() || r.now().Before(r.growAt) {
		return nil
	}
	r.growAt = r.now().Add(growthCheck)
	had := r.consumer.Assignment()
	all := had
	ctx, cancel := context.WithTimeout(ctx, endCheck)
	defer cancel()
	for _, topic := range r.topics {
		now, err := r.consumer.Partitions(ctx, topic)
		if _, gone := errors.AsType[*client.UnknownTopicError](err); gone {
			return err
		}
		for _, tp := range now {
			if _, has := slices.BinarySearchFunc(had, tp, client.TopicPartition.Compare); !has {
				all = append(all, tp)
			}
		}
	}
	if len(all) == len(had) {
		return nil
	}
	if err := r.consumer.Assign(all...); err != nil {
		return err
	}
	for _, tp := range all[len(had):] {
		if err := r.consumer.Seek(tp, client.Earliest); err != nil {
			return err
		}
	}
	return nil
}

// most is how many records one poll may bring: what is behind the last one that is printed must not be committed.
func (r *reading) most() int {
	switch {
	case r.maxMessages > 0 && r.only == nil:
		return int(min(pollRecords, r.maxMessages-r.shown))
	case r.maxMessages > 0 && r.group != "":
		return 1
	}
	return pollRecords
}

// enough says whether that was all that was asked for.
func (r *reading) enough() bool {
	if r.maxMessages > 0 && r.shown >= r.maxMessages {
		return true
	}
	return r.ends != nil && r.atEnds()
}

// atEnds says whether every partition is where it ended at the beginning.
func (r *reading) atEnds() bool {
	had := r.consumer.Assignment()
	for _, tp := range had {
		gone, cancel := context.WithCancel(context.Background())
		cancel() // what is known at once
		if at, err := r.consumer.Position(gone, tp); err != nil || at < r.ends[tp] {
			return false
		}
	}
	return len(had) > 0
}

// show prints records.
func (r *reading) show(records []client.Record) error {
	r.out = r.out[:0]
	for i := range records {
		rec := &records[i]
		if r.only != nil && (rec.Key == nil || !bytes.Equal(rec.Key, r.only)) {
			continue
		}
		if r.maxMessages > 0 && r.shown >= r.maxMessages {
			break
		}
		if r.shown++; !r.count {
			r.out = r.format(r.out, rec)
		}
	}
	if len(r.out) > 0 {
		if _, err := r.w.Write(r.out); err != nil {
			return err
		}
		if cap(r.out) > 8<<20 {
			r.out = nil
		}
	}
	r.note(records)
	return nil
}

// note remembers how far records were printed.
func (r *reading) note(records []client.Record) {
	if r.group == "" {
		return
	}
	r.unsaved = true
	if r.printed == nil {
		r.printed = map[client.TopicPartition]client.Committed{}
	}
	for i := range records {
		rec := &records[i]
		if i+1 == len(records) || records[i+1].Partition != rec.Partition || records[i+1].Topic != rec.Topic {
			r.printed[client.TopicPartition{Topic: rec.Topic, Partition: rec.Partition}] = client.Committed{Offset: rec.Offset + 1, LeaderEpoch: rec.LeaderEpoch}
		}
	}
}

// saved notes how a commit went.
func (r *reading) saved(err error) error {
	if r.unsaved = err != nil; !r.unsaved {
		clear(r.printed)
	}
	return err
}

// commit commits the group's offsets of what was printed, now and then. Where the member is in the middle of a rebalance, or out of the group, others may read that again.
func (r *reading) commit(ctx context.Context) error {
	if r.group == "" || !r.unsaved || r.now().Before(r.commitAt) {
		return nil
	}
	r.commitAt = r.now().Add(commitInterval)
	err := r.consumer.Commit(ctx)
	switch client.Code(err) {
	case protocol.RebalanceInProgress, protocol.IllegalGeneration, protocol.UnknownMemberID, protocol.StaleMemberEpoch, protocol.FencedMemberEpoch:
		return nil
	}
	return r.saved(err)
}

// revoked commits before partitions are given up, to another member or at the end. The consumer calls it within Poll and Close.
func (r *reading) revoked([]client.TopicPartition) {
	if !r.unsaved {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(r.timeout, leaveTimeout))
	defer cancel()
	if r.broken {
		r.commitErr = r.saved(r.consumer.CommitOffsets(ctx, r.printed))
		return
	}
	r.commitErr = r.saved(r.consumer.Commit(ctx))
	clear(r.printed) // they are somebody else's now
}

// quiet is nil for an error that is a way to end: Ctrl-C, or nobody reads the output any more.
func (r *reading) quiet(ctx context.Context, err error) error {
	if brokenPipe(err) || ctx.Err() != nil {
		return nil
	}
	return err
}

// brokenPipe says whether an error is that of writing to a pipe that nobody reads.
func brokenPipe(err error) bool {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return true
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	return runtime.GOOS == "windows" && ok && (errno == 109 || errno == 232) // ERROR_BROKEN_PIPE, ERROR_NO_DATA
}

// end commits what was printed, and leaves the group.
func (r *reading) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(r.timeout, leaveTimeout))
	defer cancel()
	r.commitErr = nil
	err := r.consumer.Close(ctx)
	if r.commitErr != nil {
		return fmt.Errorf("the offsets of the last records are not committed, others of the group will read them again: %w", r.commitErr)
	}
	return err
}
