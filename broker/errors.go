package broker

import (
	"errors"
	"strings"

	"github.com/leatmq/leat/coordinator"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/replication"
)

// codes maps the typed errors of the lower layers to Kafka's codes; the first that errors.Is finds wins. It is the only place that does.
var codes = []struct {
	err  error
	code protocol.Code
}{
	{replication.ErrNotLeader, protocol.NotLeaderOrFollower},
	{replication.ErrFencedLeaderEpoch, protocol.FencedLeaderEpoch},
	{replication.ErrUnknownLeaderEpoch, protocol.UnknownLeaderEpoch},
	{replication.ErrUnknownTopic, protocol.UnknownTopicOrPartition},
	{replication.ErrTimedOut, protocol.RequestTimedOut},
	{replication.ErrNotEnoughReplicas, protocol.NotEnoughReplicas},
	{engine.ErrOffsetOutOfRange, protocol.OffsetOutOfRange},
	{engine.ErrOutOfOrderSequence, protocol.OutOfOrderSequenceNumber},
	{engine.ErrInvalidProducerEpoch, protocol.InvalidProducerEpoch},
	{engine.ErrInvalidTxnState, protocol.InvalidTxnState},
	{engine.ErrRecordListTooLarge, protocol.RecordListTooLarge},
	{engine.ErrPolicyViolation, protocol.PolicyViolation},
	// A full disk is a state that passes, and the batch is not in the log: KAFKA_STORAGE_ERROR is the one code of that meaning which all clients retry
	// without a new sequence. Java (an InvalidMetadataException) and franz-go ask for metadata and send again; librdkafka does too and counts the message
	// as not persisted. UNKNOWN_SERVER_ERROR and POLICY_VIOLATION end a delivery, REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND say that the
	// batch may be there.
	{engine.ErrDiskFull, protocol.KafkaStorageError},
	// Said before the offset that the client asks for: it, or a person, decides whether to go on behind the damage.
	{engine.ErrDamaged, protocol.CorruptMessage},
	{engine.ErrStorage, protocol.KafkaStorageError},
	// A partition that was deleted, or a broker that stops: the client asks for metadata and tries again.
	{engine.ErrDeleted, protocol.UnknownTopicOrPartition},
	{engine.ErrClosed, protocol.NotLeaderOrFollower},
	{coordinator.ErrNotCoordinator, protocol.NotCoordinator},
	{coordinator.ErrLoading, protocol.CoordinatorLoadInProgress},
	{coordinator.ErrFailed, protocol.CoordinatorNotAvailable},
	{coordinator.ErrOverloaded, protocol.CoordinatorNotAvailable},
}

// recordCodes are the codes of what can be wrong with a batch.
var recordCodes = map[record.Kind]protocol.Code{
	record.CorruptMessage:         protocol.CorruptMessage,
	record.InvalidRecord:          protocol.InvalidRecord,
	record.InvalidTimestamp:       protocol.InvalidTimestamp,
	record.MessageTooLarge:        protocol.MessageTooLarge,
	record.UnsupportedCompression: protocol.UnsupportedCompressionType,
	record.Unknown:                protocol.UnknownServerError,
}

// kindCodes are the codes of refused metadata changes.
var kindCodes = map[metadata.Kind]protocol.Code{
	metadata.KindUnknown:                 protocol.UnknownServerError,
	metadata.InvalidTopic:                protocol.InvalidTopicException,
	metadata.TopicExists:                 protocol.TopicAlreadyExists,
	metadata.InvalidPartitions:           protocol.InvalidPartitions,
	metadata.InvalidReplicationFactor:    protocol.InvalidReplicationFactor,
	metadata.InvalidAssignment:           protocol.InvalidReplicaAssignment,
	metadata.InvalidConfig:               protocol.InvalidConfig,
	metadata.InvalidRequest:              protocol.InvalidRequest,
	metadata.PolicyViolation:             protocol.PolicyViolation,
	metadata.UnknownTopic:                protocol.UnknownTopicOrPartition,
	metadata.UnknownTopicID:              protocol.UnknownTopicID,
	metadata.TopicAuthorizationFailed:    protocol.TopicAuthorizationFailed,
	metadata.TopicDeletionDisabled:       protocol.TopicDeletionDisabled,
	metadata.DuplicateBrokerRegistration: protocol.DuplicateBrokerRegistration,
	metadata.StaleBrokerEpoch:            protocol.StaleBrokerEpoch,
	metadata.BrokerIDNotRegistered:       protocol.BrokerIDNotRegistered,
	metadata.FeatureUpdateFailed:         protocol.FeatureUpdateFailed,
	metadata.UnsupportedVersion:          protocol.UnsupportedVersion,
	metadata.NotController:               protocol.NotController,
	metadata.Unavailable:                 protocol.KafkaStorageError,
	metadata.Busy:                        protocol.RequestTimedOut,
}

// codeOf returns the Kafka code of an error of a lower layer. What has no code of its own is UNKNOWN_SERVER_ERROR: it makes clients give up, so
// every error that can happen in normal life is in one of the tables (B-E14).
func codeOf(err error) protocol.Code {
	if err == nil {
		return protocol.None
	}
	for i := range codes {
		if errors.Is(err, codes[i].err) {
			return codes[i].code
		}
	}
	if e, ok := errors.AsType[*record.Error](err); ok {
		return recordCodes[e.Kind]
	}
	if e, ok := errors.AsType[*metadata.Error](err); ok {
		return kindCodes[e.Kind]
	}
	return protocol.UnknownServerError
}

// message returns the text that goes with an error, nil for none.
func message(err error) *string {
	if err == nil {
		return nil
	}
	s := short(err.Error())
	return &s
}

// textBytesMax bounds the texts of answers: they quote what was asked, and before the flexible versions no string may be longer than 32,767 bytes.
const textBytesMax = 1000

// short is a text that goes into any answer.
func short(text string) string {
	if len(text) <= textBytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:textBytesMax], "") + "..."
}
