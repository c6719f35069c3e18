package client

import (
	"time"

	"github.com/leatmq/leat/client/assign"
	"github.com/leatmq/leat/protocol"
)

// TopicPartition is a partition of a topic.
type TopicPartition = assign.TopicPartition

// position is the offset of the next record, and the leader epoch of the batch before it: -1 when that is not known.
type position struct {
	offset int64
	epoch  int32
}

// partitionState is what a partition of a consumer waits for.
//
//	committed  the offset that the group has committed
//	locate     an offset for a time, or for one of the ends (ListOffsets)
//	validate   the leader is another one: does it have what the position is behind (OffsetForLeaderEpoch)?
//	fetch      nothing: it can be fetched
//	stuck      the user: there is no position, and no policy to find one
type partitionState uint8

const (
	awaitCommitted partitionState = iota
	awaitLocate
	awaitValidate
	fetching
	stuck
)

// partition is a partition that a consumer has. It is pure: its methods say what follows from what. Everything is guarded by the consumer's mu, but for tp.
type partition struct {
	tp     TopicPartition
	state  partitionState
	paused bool

	// version changes whenever the position is set from outside: an answer to a question of before is dropped.
	version uint64
	pos     position // of the next record for the user
	next    position // of the next fetch; not before pos
	lookFor int64    // in awaitLocate: a timestamp of ListOffsets
	orLast  bool     // in awaitLocate: when no record is as late as lookFor, the end will do

	topicID     [16]byte
	leader      int32 // -1: not known
	leaderEpoch int32 // -1: not known
	replica     int32 // that the leader prefers us to read from; -1: none
	replicaTill time.Time

	buffered  int       // bytes fetched and not handed out
	asked     bool      // a question about its position is on its way
	gone      bool      // the consumer does not have it any more
	notBefore time.Time // after an error
	failures  int

	highWatermark, lastStable, logStart int64 // -1: not known
	err                                 error // that the user is to know
	told                                bool  // and does
}

func newPartition(tp TopicPartition, version uint64) *partition {
	return &partition{
		tp: tp, version: version, pos: position{-1, -1}, next: position{-1, -1}, leader: -1, leaderEpoch: -1, replica: -1,
		highWatermark: -1, lastStable: -1, logStart: -1,
	}
}

// set gives the partition a position. One with an epoch is compared with the leader's log before anything is fetched, unless it comes from there.
func (p *partition) set(version uint64, to position, compare bool) {
	p.version, p.pos, p.next = version, to, to
	p.state = fetching
	if compare && to.epoch >= 0 {
		p.state = awaitValidate
	}
	p.clean()
}

// locate makes the partition look for a position.
func (p *partition) locate(version uint64, timestamp int64, orLast bool) {
	p.version, p.pos, p.next = version, position{-1, -1}, position{-1, -1}
	p.state, p.lookFor, p.orLast = awaitLocate, timestamp, orLast
	p.clean()
}

// fail leaves the partition to the user. Its position stays for him to look at.
func (p *partition) fail(version uint64, err error) {
	p.version, p.state = version, stuck
	p.clean()
	p.err = err
}

// clean forgets what belongs to the position of before.
func (p *partition) clean() {
	p.buffered, p.failures, p.notBefore = 0, 0, time.Time{}
	p.replica = -1
	p.err, p.told = nil, false
}

// positioned says whether there is a position.
func (p *partition) positioned() bool { return p.pos.offset >= 0 }

// led tells the partition who leads it. A new epoch may have lost what was read; a position that knows its epoch is compared.
func (p *partition) led(leader, epoch int32) {
	if epoch >= 0 && epoch < p.leaderEpoch {
		return // older news
	}
	if p.leader != leader || p.leaderEpoch != epoch {
		p.replica = -1
		p.notBefore, p.failures = time.Time{}, 0
	}
	if p.state == fetching && epoch > p.leaderEpoch && p.leaderEpoch >= 0 && p.next.epoch >= 0 {
		p.state = awaitValidate
	}
	p.leader, p.leaderEpoch = leader, epoch
}

// from is the broker to fetch from; -1: not known.
func (p *partition) from(now time.Time) int32 {
	if p.replica >= 0 {
		if now.Before(p.replicaTill) {
			return p.replica
		}
		p.replica = -1
	}
	return p.leader
}

// fetched moves the next fetch behind what was fetched.
func (p *partition) fetched(to position, size int) {
	if to.offset > p.next.offset {
		p.next = to
	}
	p.buffered += size
	p.failures, p.notBefore = 0, time.Time{}
	if p.state == fetching {
		p.err, p.told = nil, false
	}
}

// drained takes back what fetched has added.
func (p *partition) drained(size int) { p.buffered -= size }

// consumed moves the user's position.
func (p *partition) consumed(to position) {
	if to.offset > p.pos.offset {
		p.pos = to
	}
}

// validated takes the leader's answer about next: the epoch of next or, when the leader does not have it, the one before, and where its records end there. False: the
// log of the leader parts from what was read before next, at the position returned; an offset of -1 says that it is not known where.
func (p *partition) validated(epoch int32, endOffset int64) (parts position, same bool) {
	if endOffset < 0 || epoch < 0 {
		return position{-1, -1}, false
	}
	if endOffset < p.next.offset {
		return position{endOffset, epoch}, false
	}
	p.next.epoch = min(p.next.epoch, epoch) // it has other records of the same offsets; which of them, nobody knows
	p.state = fetching
	return position{}, true
}

// backOff puts the partition off after its n-th failure in a row.
func (p *partition) backOff(now time.Time, after func(failures int) time.Duration) {
	p.failures++
	p.notBefore = now.Add(after(p.failures))
}

// verdict is what follows from an error code of a partition.
type verdict uint8

const (
	verdictTake    verdict = iota // no error
	verdictMoved                  // the leader, the topic or the epoch may be another: look again
	verdictRetry                  // later
	verdictRange                  // the offset is not in the log
	verdictTell                   // tell the user and try again later
	verdictCorrupt                // tell the user: it does not get better
)

// fetchVerdict sorts the codes that a fetch may have, and those of ListOffsets and OffsetForLeaderEpoch.
func fetchVerdict(code protocol.Code) verdict {
	switch code {
	case protocol.None:
		return verdictTake
	case protocol.NotLeaderOrFollower, protocol.FencedLeaderEpoch, protocol.UnknownLeaderEpoch, protocol.LeaderNotAvailable, protocol.ReplicaNotAvailable,
		protocol.UnknownTopicOrPartition, protocol.UnknownTopicID, protocol.InconsistentTopicID, protocol.KafkaStorageError:
		return verdictMoved
	case protocol.OffsetOutOfRange:
		return verdictRange
	case protocol.CorruptMessage, protocol.UnsupportedForMessageFormat:
		return verdictCorrupt
	}
	if code.Retriable() {
		return verdictRetry
	}
	return verdictTell
}
