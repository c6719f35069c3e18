package replication

import "errors"

// The reasons a partition refuses a request; broker maps each to one Kafka code. Storage failures are engine.ErrStorage.
var (
	ErrUnknownTopic       = errors.New("replication: this node has no such partition")
	ErrNotLeader          = errors.New("replication: this node does not lead the partition")
	ErrFencedLeaderEpoch  = errors.New("replication: the request's leader epoch is older than the leader's")
	ErrUnknownLeaderEpoch = errors.New("replication: the request's leader epoch is newer than the leader's")
	ErrNotEnoughReplicas  = errors.New("replication: fewer in-sync replicas than min.insync.replicas")
	ErrTimedOut           = errors.New("replication: the batch is in the log, but was not stable on every in-sync replica in time")
)
