package protocol

// Code is a Kafka error code as it stands in answers.
type Code int16

// Every error code of Kafka 4.4.
const (
	UnknownServerError                     Code = -1
	None                                   Code = 0
	OffsetOutOfRange                       Code = 1
	CorruptMessage                         Code = 2
	UnknownTopicOrPartition                Code = 3
	InvalidFetchSize                       Code = 4
	LeaderNotAvailable                     Code = 5
	NotLeaderOrFollower                    Code = 6
	RequestTimedOut                        Code = 7
	BrokerNotAvailable                     Code = 8
	ReplicaNotAvailable                    Code = 9
	MessageTooLarge                        Code = 10
	StaleControllerEpoch                   Code = 11
	OffsetMetadataTooLarge                 Code = 12
	NetworkException                       Code = 13
	CoordinatorLoadInProgress              Code = 14
	CoordinatorNotAvailable                Code = 15
	NotCoordinator                         Code = 16
	InvalidTopicException                  Code = 17
	RecordListTooLarge                     Code = 18
	NotEnoughReplicas                      Code = 19
	NotEnoughReplicasAfterAppend           Code = 20
	InvalidRequiredAcks                    Code = 21
	IllegalGeneration                      Code = 22
	InconsistentGroupProtocol              Code = 23
	InvalidGroupID                         Code = 24
	UnknownMemberID                        Code = 25
	InvalidSessionTimeout                  Code = 26
	RebalanceInProgress                    Code = 27
	InvalidCommitOffsetSize                Code = 28
	TopicAuthorizationFailed               Code = 29
	GroupAuthorizationFailed               Code = 30
	ClusterAuthorizationFailed             Code = 31
	InvalidTimestamp                       Code = 32
	UnsupportedSASLMechanism               Code = 33
	IllegalSASLState                       Code = 34
	UnsupportedVersion                     Code = 35
	TopicAlreadyExists                     Code = 36
	InvalidPartitions                      Code = 37
	InvalidReplicationFactor               Code = 38
	InvalidReplicaAssignment               Code = 39
	InvalidConfig                          Code = 40
	NotController                          Code = 41
	InvalidRequest                         Code = 42
	UnsupportedForMessageFormat            Code = 43
	PolicyViolation                        Code = 44
	OutOfOrderSequenceNumber               Code = 45
	DuplicateSequenceNumber                Code = 46
	InvalidProducerEpoch                   Code = 47
	InvalidTxnState                        Code = 48
	InvalidProducerIDMapping               Code = 49
	InvalidTransactionTimeout              Code = 50
	ConcurrentTransactions                 Code = 51
	TransactionCoordinatorFenced           Code = 52
	TransactionalIDAuthorizationFailed     Code = 53
	SecurityDisabled                       Code = 54
	OperationNotAttempted                  Code = 55
	KafkaStorageError                      Code = 56
	LogDirNotFound                         Code = 57
	SASLAuthenticationFailed               Code = 58
	UnknownProducerID                      Code = 59
	ReassignmentInProgress                 Code = 60
	DelegationTokenAuthDisabled            Code = 61
	DelegationTokenNotFound                Code = 62
	DelegationTokenOwnerMismatch           Code = 63
	DelegationTokenRequestNotAllowed       Code = 64
	DelegationTokenAuthorizationFailed     Code = 65
	DelegationTokenExpired                 Code = 66
	InvalidPrincipalType                   Code = 67
	NonEmptyGroup                          Code = 68
	GroupIDNotFound                        Code = 69
	FetchSessionIDNotFound                 Code = 70
	InvalidFetchSessionEpoch               Code = 71
	ListenerNotFound                       Code = 72
	TopicDeletionDisabled                  Code = 73
	FencedLeaderEpoch                      Code = 74
	UnknownLeaderEpoch                     Code = 75
	UnsupportedCompressionType             Code = 76
	StaleBrokerEpoch                       Code = 77
	OffsetNotAvailable                     Code = 78
	MemberIDRequired                       Code = 79
	PreferredLeaderNotAvailable            Code = 80
	GroupMaxSizeReached                    Code = 81
	FencedInstanceID                       Code = 82
	EligibleLeadersNotAvailable            Code = 83
	ElectionNotNeeded                      Code = 84
	NoReassignmentInProgress               Code = 85
	GroupSubscribedToTopic                 Code = 86
	InvalidRecord                          Code = 87
	UnstableOffsetCommit                   Code = 88
	ThrottlingQuotaExceeded                Code = 89
	ProducerFenced                         Code = 90
	ResourceNotFound                       Code = 91
	DuplicateResource                      Code = 92
	UnacceptableCredential                 Code = 93
	InconsistentVoterSet                   Code = 94
	InvalidUpdateVersion                   Code = 95
	FeatureUpdateFailed                    Code = 96
	PrincipalDeserializationFailure        Code = 97
	SnapshotNotFound                       Code = 98
	PositionOutOfRange                     Code = 99
	UnknownTopicID                         Code = 100
	DuplicateBrokerRegistration            Code = 101
	BrokerIDNotRegistered                  Code = 102
	InconsistentTopicID                    Code = 103
	InconsistentClusterID                  Code = 104
	TransactionalIDNotFound                Code = 105
	FetchSessionTopicIDError               Code = 106
	IneligibleReplica                      Code = 107
	NewLeaderElected                       Code = 108
	OffsetMovedToTieredStorage             Code = 109
	FencedMemberEpoch                      Code = 110
	UnreleasedInstanceID                   Code = 111
	UnsupportedAssignor                    Code = 112
	StaleMemberEpoch                       Code = 113
	MismatchedEndpointType                 Code = 114
	UnsupportedEndpointType                Code = 115
	UnknownControllerID                    Code = 116
	UnknownSubscriptionID                  Code = 117
	TelemetryTooLarge                      Code = 118
	InvalidRegistration                    Code = 119
	TransactionAbortable                   Code = 120
	InvalidRecordState                     Code = 121
	ShareSessionNotFound                   Code = 122
	InvalidShareSessionEpoch               Code = 123
	FencedStateEpoch                       Code = 124
	InvalidVoterKey                        Code = 125
	DuplicateVoter                         Code = 126
	VoterNotFound                          Code = 127
	InvalidRegularExpression               Code = 128
	RebootstrapRequired                    Code = 129
	StreamsInvalidTopology                 Code = 130
	StreamsInvalidTopologyEpoch            Code = 131
	StreamsTopologyFenced                  Code = 132
	ShareSessionLimitReached               Code = 133
	GroupDeletionFailed                    Code = 134
	StreamsTopologyDescriptionUpdateFailed Code = 135
	ControllerIDNotRegistered              Code = 136
)

const (
	codeMin = UnknownServerError
	codeMax = ControllerIDNotRegistered
)

type codeFacts struct {
	name      string
	message   string
	retriable bool
}

// codes has one row per code, from codeMin to codeMax.
var codes = [...]codeFacts{
	{"UNKNOWN_SERVER_ERROR", "the broker met an error it has no better name for", false},
	{"NONE", "", false},
	{"OFFSET_OUT_OF_RANGE", "the offset is below the log's start or beyond its end", false},
	{"CORRUPT_MESSAGE", "the batch fails its checksum or its length is impossible", true},
	{"UNKNOWN_TOPIC_OR_PARTITION", "there is no such topic or partition here", true},
	{"INVALID_FETCH_SIZE", "the fetch size is not allowed", false},
	{"LEADER_NOT_AVAILABLE", "the partition has no leader right now", true},
	{"NOT_LEADER_OR_FOLLOWER", "this broker neither leads nor follows the partition", true},
	{"REQUEST_TIMED_OUT", "the request did not finish in its time", true},
	{"BROKER_NOT_AVAILABLE", "the broker is not available", false},
	{"REPLICA_NOT_AVAILABLE", "the replica is not available", true},
	{"MESSAGE_TOO_LARGE", "the batch is larger than the topic allows", false},
	{"STALE_CONTROLLER_EPOCH", "the controller has moved on to a newer epoch", false},
	{"OFFSET_METADATA_TOO_LARGE", "the metadata string of the committed offset is too long", false},
	{"NETWORK_EXCEPTION", "the connection ended before the answer came", true},
	{"COORDINATOR_LOAD_IN_PROGRESS", "the coordinator is still loading its state", true},
	{"COORDINATOR_NOT_AVAILABLE", "there is no coordinator right now", true},
	{"NOT_COORDINATOR", "this broker is not the coordinator", true},
	{"INVALID_TOPIC_EXCEPTION", "the topic name is not allowed, or the topic may not be written by clients", false},
	{"RECORD_LIST_TOO_LARGE", "the batch does not fit into a segment", false},
	{"NOT_ENOUGH_REPLICAS", "fewer replicas are in sync than the topic demands", true},
	{"NOT_ENOUGH_REPLICAS_AFTER_APPEND", "the batch is in the log, but fewer replicas are in sync than the topic demands", true},
	{"INVALID_REQUIRED_ACKS", "acks must be -1, 0 or 1", false},
	{"ILLEGAL_GENERATION", "the group is at another generation", false},
	{"INCONSISTENT_GROUP_PROTOCOL", "the member shares no protocol with its group", false},
	{"INVALID_GROUP_ID", "the group id is not allowed", false},
	{"UNKNOWN_MEMBER_ID", "the group does not know this member", false},
	{"INVALID_SESSION_TIMEOUT", "the session timeout is outside the broker's limits", false},
	{"REBALANCE_IN_PROGRESS", "the group is rebalancing: join again", false},
	{"INVALID_COMMIT_OFFSET_SIZE", "the offset commit is too large", false},
	{"TOPIC_AUTHORIZATION_FAILED", "not allowed on this topic", false},
	{"GROUP_AUTHORIZATION_FAILED", "not allowed on this group", false},
	{"CLUSTER_AUTHORIZATION_FAILED", "not allowed on the cluster", false},
	{"INVALID_TIMESTAMP", "the record's timestamp is too far from the broker's clock", false},
	{"UNSUPPORTED_SASL_MECHANISM", "the SASL mechanism is not enabled here", false},
	{"ILLEGAL_SASL_STATE", "the request does not fit the state of the SASL exchange", false},
	{"UNSUPPORTED_VERSION", "this version of the request is not supported", false},
	{"TOPIC_ALREADY_EXISTS", "a topic of this name exists already", false},
	{"INVALID_PARTITIONS", "the number of partitions is not allowed", false},
	{"INVALID_REPLICATION_FACTOR", "the replication factor is below 1 or above the number of brokers", false},
	{"INVALID_REPLICA_ASSIGNMENT", "the replica assignment is not allowed", false},
	{"INVALID_CONFIG", "the configuration is not allowed", false},
	{"NOT_CONTROLLER", "this broker is not the controller", true},
	{"INVALID_REQUEST", "the request contradicts itself or the protocol", false},
	{"UNSUPPORTED_FOR_MESSAGE_FORMAT", "the log's record format cannot do this", false},
	{"POLICY_VIOLATION", "a policy of this cluster forbids the request", false},
	{"OUT_OF_ORDER_SEQUENCE_NUMBER", "the batch's sequence does not follow the producer's last one", false},
	{"DUPLICATE_SEQUENCE_NUMBER", "the batch was appended before", false},
	{"INVALID_PRODUCER_EPOCH", "the producer's epoch is older than the known one", false},
	{"INVALID_TXN_STATE", "the transaction is not in a state that allows this", false},
	{"INVALID_PRODUCER_ID_MAPPING", "the producer id does not belong to this transactional id", false},
	{"INVALID_TRANSACTION_TIMEOUT", "the transaction timeout is above the broker's maximum", false},
	{"CONCURRENT_TRANSACTIONS", "another step of this transaction is still running", true},
	{"TRANSACTION_COORDINATOR_FENCED", "the marker comes from a coordinator that has been replaced", false},
	{"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "not allowed on this transactional id", false},
	{"SECURITY_DISABLED", "security is not enabled here", false},
	{"OPERATION_NOT_ATTEMPTED", "not tried, because another part of the request failed", false},
	{"KAFKA_STORAGE_ERROR", "the disk of this partition has failed", true},
	{"LOG_DIR_NOT_FOUND", "there is no such log directory", false},
	{"SASL_AUTHENTICATION_FAILED", "authentication failed", false},
	{"UNKNOWN_PRODUCER_ID", "nothing is known about this producer id any more", false},
	{"REASSIGNMENT_IN_PROGRESS", "the partition is being reassigned", false},
	{"DELEGATION_TOKEN_AUTH_DISABLED", "delegation tokens are not enabled here", false},
	{"DELEGATION_TOKEN_NOT_FOUND", "there is no such delegation token", false},
	{"DELEGATION_TOKEN_OWNER_MISMATCH", "the principal neither owns nor may renew the token", false},
	{"DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "delegation tokens cannot be handled on this kind of connection", false},
	{"DELEGATION_TOKEN_AUTHORIZATION_FAILED", "not allowed on this delegation token", false},
	{"DELEGATION_TOKEN_EXPIRED", "the delegation token has expired", false},
	{"INVALID_PRINCIPAL_TYPE", "the principal type is not supported", false},
	{"NON_EMPTY_GROUP", "the group still has members", false},
	{"GROUP_ID_NOT_FOUND", "there is no such group", false},
	{"FETCH_SESSION_ID_NOT_FOUND", "the fetch session is not known: start a new one", true},
	{"INVALID_FETCH_SESSION_EPOCH", "the fetch session is at another epoch", true},
	{"LISTENER_NOT_FOUND", "the leader has no listener like the one of this connection", true},
	{"TOPIC_DELETION_DISABLED", "this broker does not delete topics", false},
	{"FENCED_LEADER_EPOCH", "the leader epoch of the request is older than the broker's", true},
	{"UNKNOWN_LEADER_EPOCH", "the leader epoch of the request is newer than the broker's", true},
	{"UNSUPPORTED_COMPRESSION_TYPE", "the request's version does not allow this compression", false},
	{"STALE_BROKER_EPOCH", "the broker has registered again since", false},
	{"OFFSET_NOT_AVAILABLE", "the new leader does not know its high watermark yet", true},
	{"MEMBER_ID_REQUIRED", "join again with the member id of this answer", false},
	{"PREFERRED_LEADER_NOT_AVAILABLE", "the preferred leader is not available", true},
	{"GROUP_MAX_SIZE_REACHED", "the group is full", false},
	{"FENCED_INSTANCE_ID", "another member has taken this group instance id", false},
	{"ELIGIBLE_LEADERS_NOT_AVAILABLE", "no replica that may lead is available", true},
	{"ELECTION_NOT_NEEDED", "the partition needs no election", true},
	{"NO_REASSIGNMENT_IN_PROGRESS", "the partition is not being reassigned", false},
	{"GROUP_SUBSCRIBED_TO_TOPIC", "the group is subscribed to the topic", false},
	{"INVALID_RECORD", "a record does not obey the rules of the topic or of the format", false},
	{"UNSTABLE_OFFSET_COMMIT", "an open transaction may still change these offsets", true},
	{"THROTTLING_QUOTA_EXCEEDED", "the quota is used up", true},
	{"PRODUCER_FENCED", "a newer producer uses this transactional id", false},
	{"RESOURCE_NOT_FOUND", "there is no such resource", false},
	{"DUPLICATE_RESOURCE", "the request names a resource twice", false},
	{"UNACCEPTABLE_CREDENTIAL", "the credential is too weak or malformed", false},
	{"INCONSISTENT_VOTER_SET", "sender or receiver is not one of the expected voters", false},
	{"INVALID_UPDATE_VERSION", "the update carries a wrong version", false},
	{"FEATURE_UPDATE_FAILED", "the feature levels could not be changed", false},
	{"PRINCIPAL_DESERIALIZATION_FAILURE", "the forwarded principal cannot be read", false},
	{"SNAPSHOT_NOT_FOUND", "there is no such snapshot", false},
	{"POSITION_OUT_OF_RANGE", "the position is outside the snapshot", false},
	{"UNKNOWN_TOPIC_ID", "there is no topic with this id here", true},
	{"DUPLICATE_BROKER_REGISTRATION", "another broker uses this id", false},
	{"BROKER_ID_NOT_REGISTERED", "no broker with this id is registered", false},
	{"INCONSISTENT_TOPIC_ID", "the log belongs to a topic with another id", true},
	{"INCONSISTENT_CLUSTER_ID", "the request is meant for another cluster", false},
	{"TRANSACTIONAL_ID_NOT_FOUND", "there is no such transactional id", false},
	{"FETCH_SESSION_TOPIC_ID_ERROR", "the fetch session mixes topic names and topic ids", true},
	{"INELIGIBLE_REPLICA", "a replica of the new in-sync set may not be in it", false},
	{"NEW_LEADER_ELECTED", "the change was made and gave the partition another leader", false},
	{"OFFSET_MOVED_TO_TIERED_STORAGE", "the offset lies in tiered storage", false},
	{"FENCED_MEMBER_EPOCH", "the member is fenced: give up all partitions and join again", false},
	{"UNRELEASED_INSTANCE_ID", "another member still holds this instance id", false},
	{"UNSUPPORTED_ASSIGNOR", "the group cannot use this assignor", false},
	{"STALE_MEMBER_EPOCH", "the member must learn its new epoch by a heartbeat first", false},
	{"MISMATCHED_ENDPOINT_TYPE", "the request went to the wrong kind of endpoint", false},
	{"UNSUPPORTED_ENDPOINT_TYPE", "this kind of endpoint is not supported", false},
	{"UNKNOWN_CONTROLLER_ID", "there is no controller with this id", false},
	{"UNKNOWN_SUBSCRIPTION_ID", "the telemetry subscription is not known or outdated", false},
	{"TELEMETRY_TOO_LARGE", "the telemetry is larger than the broker takes", false},
	{"INVALID_REGISTRATION", "the broker's registration is not allowed", false},
	{"TRANSACTION_ABORTABLE", "the transaction cannot go on: abort it, then continue", false},
	{"INVALID_RECORD_STATE", "the record is in a state that does not allow this acknowledgement", false},
	{"SHARE_SESSION_NOT_FOUND", "there is no such share session", true},
	{"INVALID_SHARE_SESSION_EPOCH", "the share session is at another epoch", true},
	{"FENCED_STATE_EPOCH", "the state has a newer epoch", false},
	{"INVALID_VOTER_KEY", "the voter key is not the one of the receiver", false},
	{"DUPLICATE_VOTER", "the voter is in the set already", false},
	{"VOTER_NOT_FOUND", "the voter is not in the set", false},
	{"INVALID_REGULAR_EXPRESSION", "the regular expression cannot be used", false},
	{"REBOOTSTRAP_REQUIRED", "the client knows another cluster: it must start from its bootstrap addresses", false},
	{"STREAMS_INVALID_TOPOLOGY", "the topology is not allowed", false},
	{"STREAMS_INVALID_TOPOLOGY_EPOCH", "the topology epoch is not allowed", false},
	{"STREAMS_TOPOLOGY_FENCED", "a newer topology is in use", false},
	{"SHARE_SESSION_LIMIT_REACHED", "there are too many share sessions", true},
	{"GROUP_DELETION_FAILED", "the group could not be deleted", false},
	{"STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", "the description of the topology could not be stored", false},
	{"CONTROLLER_ID_NOT_REGISTERED", "no controller with this id is registered", false},
}

func (c Code) facts() (codeFacts, bool) {
	if c < codeMin || c > codeMax {
		return codeFacts{}, false
	}
	return codes[c-codeMin], true
}

// Name returns Kafka's name of the code, like UNKNOWN_TOPIC_OR_PARTITION; a code that Kafka does not have is UNKNOWN_SERVER_ERROR, as clients
// take it.
func (c Code) Name() string {
	f, ok := c.facts()
	if !ok {
		return codes[0].name
	}
	return f.name
}

// Message says in a few words what the code means; "" for None. An answer with an error message of its own replaces it.
func (c Code) Message() string {
	f, ok := c.facts()
	if !ok {
		return codes[0].message
	}
	return f.message
}

// Retriable reports whether a client may send the same request again and hope.
func (c Code) Retriable() bool {
	f, ok := c.facts()
	return ok && f.retriable
}

func (c Code) String() string { return c.Name() }

// Error makes a code usable where Go wants an error; None is not an error and must not be returned as one.
func (c Code) Error() string {
	return c.Name() + ": " + c.Message()
}
