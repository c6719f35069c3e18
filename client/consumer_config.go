package client

import (
	"fmt"
	"time"

	"github.com/leatmq/leat/client/assign"
)

// IsolationLevel says which records of transactions a consumer sees.
type IsolationLevel int8

const (
	// ReadUncommitted: all, as soon as they are in the log.
	ReadUncommitted IsolationLevel = iota
	// ReadCommitted: those of committed transactions, and those that belong to none; what is behind an open transaction has to wait for its end.
	ReadCommitted
)

// ResetPolicy says where a consumer begins in a partition for which it has no offset, or one that is not in the log (any more).
type ResetPolicy struct {
	kind resetKind
	age  time.Duration
}

type resetKind uint8

const (
	resetLatest resetKind = iota
	resetEarliest
	resetNone
	resetByDuration
)

var (
	// ResetLatest begins at the end: with what is written from then on.
	ResetLatest = ResetPolicy{kind: resetLatest}
	// ResetEarliest begins at the oldest record there is.
	ResetEarliest = ResetPolicy{kind: resetEarliest}
	// ResetNone makes it an error of Poll; Seek is the way out.
	ResetNone = ResetPolicy{kind: resetNone}
)

// ResetByDuration begins at the oldest record that is not older than age.
func ResetByDuration(age time.Duration) ResetPolicy {
	return ResetPolicy{kind: resetByDuration, age: age}
}

func (r ResetPolicy) String() string {
	switch r.kind {
	case resetEarliest:
		return "earliest"
	case resetNone:
		return "none"
	case resetByDuration:
		return fmt.Sprintf("by_duration:%v", r.age)
	}
	return "latest"
}

// Timestamps of ListOffsets that are none.
const (
	timestampLatest   = -1
	timestampEarliest = -2
)

// target is what ListOffsets is asked for; false when there is no policy.
func (r ResetPolicy) target(now time.Time) (timestamp int64, orLast, ok bool) {
	switch r.kind {
	case resetLatest:
		return timestampLatest, false, true
	case resetEarliest:
		return timestampEarliest, false, true
	case resetByDuration:
		return max(now.Add(-r.age).UnixMilli(), 0), true, true
	}
	return 0, false, false
}

// GroupProtocol is how a group agrees on who reads what.
type GroupProtocol uint8

const (
	// ClassicProtocol: the members assign, and all that move stop for it (or, with cooperative assignors, only what moves).
	ClassicProtocol GroupProtocol = iota
	// ConsumerProtocol (KIP-848): the coordinator assigns, and members change over one by one.
	ConsumerProtocol
)

// ConsumerConfig makes a Consumer. Nothing must be given; what is zero has the default that stands beside it.
type ConsumerConfig struct {
	MinBytes          int           // that a broker gathers before it answers a fetch; 1
	MaxWait           time.Duration // that it gathers for at most; 500 ms
	MaxBytes          int           // of one answer; 50 MiB. A batch that is larger comes all the same
	MaxPartitionBytes int           // of one partition in one answer; 1 MiB
	BufferMemory      int           // of what is fetched and not yet polled; 64 MiB. It can be exceeded by a batch for each broker

	// ReuseMemory makes what Poll returns valid until Poll or Close is called again, and no longer, neither the slice nor the keys, values and headers of its records: their memory is
	// used again. It saves a good part of the CPU time of reading much; what is needed for longer must be copied.
	ReuseMemory bool

	IsolationLevel IsolationLevel // ReadUncommitted
	OffsetReset    ResetPolicy    // ResetLatest
	Rack           string         // client.rack: read from a replica there, where the cluster offers it; "": from leaders

	// Group is the consumer group: whose offsets Commit commits, and whose members share topics that are subscribed to. Without one, Subscribe reads all partitions.
	Group              string
	Protocol           GroupProtocol     // ClassicProtocol
	InstanceID         string            // group.instance.id: a member that comes back with it gets what it had; "": none
	SessionTimeout     time.Duration     // without a heartbeat, after which a member is taken for dead; 45 s. Classic only: brokers have their own for ConsumerProtocol
	HeartbeatInterval  time.Duration     // 3 s. Classic only
	MaxPollInterval    time.Duration     // between two calls of Poll, after which the member leaves the group by itself; 5 min
	Assignors          []assign.Assignor // by preference; Range, then CooperativeSticky. Classic only
	ServerAssignor     string            // of the broker; "": the broker's choice. ConsumerProtocol only
	DisableAutoCommit  bool              // else offsets are committed of what earlier calls of Poll have returned: every AutoCommitInterval, when partitions are given up, and at Close
	AutoCommitInterval time.Duration     // 5 s

	// OnAssigned, OnRevoked and OnLost are called within Poll (and Close) when the group changes what this member has: it has the partitions now; it must give them up, and may still commit; they
	// are somebody else's already, and nothing can be committed. Any may be nil. They must not call Poll or Close.
	OnAssigned, OnRevoked, OnLost func([]TopicPartition)
}

// Limits of a consumer's settings.
const (
	fetchBytesMax  = 1 << 30
	bufferBytesMin = 64 << 10
)

// withDefaults is the configuration as it is used, or what is wrong with it.
func (c ConsumerConfig) withDefaults() (ConsumerConfig, error) {
	orDefault(&c.MinBytes, 1)
	orDefault(&c.MaxWait, 500*time.Millisecond)
	orDefault(&c.MaxBytes, 50<<20)
	orDefault(&c.MaxPartitionBytes, 1<<20)
	orDefault(&c.BufferMemory, 64<<20)
	orDefault(&c.SessionTimeout, 45*time.Second)
	orDefault(&c.HeartbeatInterval, min(3*time.Second, c.SessionTimeout/3))
	orDefault(&c.MaxPollInterval, 5*time.Minute)
	orDefault(&c.AutoCommitInterval, 5*time.Second)
	if len(c.Assignors) == 0 {
		c.Assignors = []assign.Assignor{assign.Range, assign.CooperativeSticky}
	}
	for _, n := range []struct {
		name            string
		value, min, max int
	}{
		{"MinBytes", c.MinBytes, 0, fetchBytesMax}, {"MaxBytes", c.MaxBytes, 1, fetchBytesMax}, {"MaxPartitionBytes", c.MaxPartitionBytes, 1, fetchBytesMax},
		{"BufferMemory", c.BufferMemory, bufferBytesMin, 1 << 40},
	} {
		if n.value < n.min || n.value > n.max {
			return c, &ConfigError{n.name, fmt.Sprintf("is %d: %d to %d", n.value, n.min, n.max)}
		}
	}
	for _, d := range []struct {
		name            string
		value, min, max time.Duration
	}{
		{"MaxWait", c.MaxWait, 0, time.Hour}, {"SessionTimeout", c.SessionTimeout, time.Millisecond, 24 * time.Hour},
		{"HeartbeatInterval", c.HeartbeatInterval, time.Millisecond, 24 * time.Hour}, {"MaxPollInterval", c.MaxPollInterval, time.Millisecond, 24 * 24 * time.Hour},
		{"AutoCommitInterval", c.AutoCommitInterval, time.Millisecond, 24 * time.Hour},
	} {
		if d.value < d.min || d.value > d.max {
			return c, &ConfigError{d.name, fmt.Sprintf("is %v: %v to %v", d.value, d.min, d.max)}
		}
	}
	return c, c.check()
}

// check looks for what does not go together.
func (c *ConsumerConfig) check() error {
	switch {
	case c.IsolationLevel != ReadUncommitted && c.IsolationLevel != ReadCommitted:
		return &ConfigError{"IsolationLevel", fmt.Sprintf("is %d: ReadUncommitted or ReadCommitted", c.IsolationLevel)}
	case c.OffsetReset.age < 0:
		return &ConfigError{"OffsetReset", fmt.Sprintf("is by a duration of %v: that is in the future", c.OffsetReset.age)}
	case c.Protocol > ConsumerProtocol:
		return &ConfigError{"Protocol", fmt.Sprintf("is %d: ClassicProtocol or ConsumerProtocol", c.Protocol)}
	case c.HeartbeatInterval >= c.SessionTimeout:
		return &ConfigError{"HeartbeatInterval", fmt.Sprintf("is %v: it must be less than SessionTimeout (%v), a third of it is usual", c.HeartbeatInterval, c.SessionTimeout)}
	case c.InstanceID != "" && c.Group == "":
		return &ConfigError{"InstanceID", "is set, and Group is not"}
	}
	names := map[string]bool{}
	for i, a := range c.Assignors {
		if a == nil || a.Name() == "" || names[a.Name()] {
			return &ConfigError{fmt.Sprintf("Assignors[%d]", i), "is nil, has no name, or the name of another one"}
		}
		names[a.Name()] = true
	}
	return nil
}

// Offset is a place in a partition for Seek.
type Offset struct {
	timestamp int64 // of ListOffsets when at is -1
	at        int64
	epoch     int32
}

var (
	// Earliest is the oldest record there is.
	Earliest = Offset{timestamp: timestampEarliest, at: -1}
	// Latest is the end.
	Latest = Offset{timestamp: timestampLatest, at: -1}
)

// At is an offset.
func At(offset int64) Offset { return Offset{at: max(offset, 0), epoch: -1} }

// AfterRecord is the offset behind a record. The leader epoch goes with it, so that a log that has lost the record since is noticed.
func AfterRecord(r *Record) Offset { return Offset{at: r.Offset + 1, epoch: r.LeaderEpoch} }

// AtTime is the first record with a timestamp of t or later, or the end when there is none.
func AtTime(t time.Time) Offset { return Offset{timestamp: max(t.UnixMilli(), 0), at: -1} }
