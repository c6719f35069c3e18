package differential

// Accepted lists the differences from Kafka that leat has on purpose. Rows that share an ID are one row of the document.
var Accepted = []Acceptance{
	{
		ID:     "D-1",
		What:   "ApiVersions lists only what leat implements; features are those that it has",
		Reason: "a broker must not promise what it does not do",
		Script: "ApiVersions/.*", Path: `ApiKeys(\.len|\[.*)|SupportedFeatures.*|FinalizedFeatures.*`, Got: `\(absent\)|\d+`,
	},
	{
		ID:     "D-2",
		What:   "FindCoordinator answers COORDINATOR_NOT_AVAILABLE",
		Reason: "groups and transactions are not there yet; the API is listed because librdkafka turns lz4 off without it",
		Script: "FindCoordinator/.*",
	},
	{
		ID:     "D-3",
		What:   "Produce with null record data is answered with INVALID_RECORD",
		Reason: "Kafka never answers such a request; a client would hang until its time limit",
		Script: "Produce/null-records", Path: "outcome", Want: "no answer",
	},
	{
		ID:     "D-4",
		What:   "AlterConfigs that names a resource twice is answered with INVALID_REQUEST",
		Reason: "Kafka never answers it",
		Script: "AlterConfigs/duplicate-resource", Path: "outcome", Want: "no answer",
	},
	{
		ID:     "D-5",
		What:   "an error has a message where Kafka leaves it null",
		Reason: "a person reads it; no client acts on it",
		Path:   `.*ErrorMessage`, Want: "null", Got: `\$message`,
	},
	{
		ID:     "D-6",
		What:   "min.insync.replicas of a fresh cluster is a default, not a dynamic broker config",
		Reason: "Kafka stores it when it turns eligible leader replicas on; the value is the same",
		Path:   `.*Configs\[min\.insync\.replicas\]\.(Source|ConfigSynonyms.*)`,
	},
	{
		ID:     "D-7",
		What:   "topics have the config write.caching",
		Reason: "leat's own: acknowledge before the disk has the data",
		Path:   `.*Configs\[write\.caching\]`,
	},
	{
		ID:     "D-7",
		What:   "topics have the config write.caching",
		Reason: "leat's own: acknowledge before the disk has the data",
		Script: "(CreateTopics|DescribeConfigs)/.*", Path: `.*Configs\.len`, Want: "37", Got: "38",
	},
	{
		ID:     "D-8",
		What:   "a topic that Metadata creates is in the same answer",
		Reason: "Kafka says UNKNOWN_TOPIC_OR_PARTITION first and clients ask again",
		Script: "Metadata/created-on-demand.*", Step: ".*(first|new again).*", Path: `Topics\[\$(auto\d+|new)\].*`,
	},
	{
		ID:     "D-9",
		What:   "values that make no sense and that Kafka answers with UNKNOWN_SERVER_ERROR are answered as the next sensible value or with a fitting code",
		Reason: "UNKNOWN_SERVER_ERROR is an uncaught exception there, not a decision",
		Path:   `.*ErrorCode`, Want: `-1 UNKNOWN_SERVER_ERROR`, Got: `(42|17|2|87) .*`,
	},
	{
		ID:     "D-9",
		What:   "values that make no sense and that Kafka answers with UNKNOWN_SERVER_ERROR are answered as the next sensible value or with a fitting code",
		Reason: "UNKNOWN_SERVER_ERROR is an uncaught exception there, not a decision",
		Script: `Metadata/(by-id|null-name)`, Step: `(zero|null) v1[23]`,
	},
	{
		ID:     "D-9",
		What:   "values that make no sense and that Kafka answers with UNKNOWN_SERVER_ERROR are answered as the next sensible value or with a fitting code",
		Reason: "UNKNOWN_SERVER_ERROR is an uncaught exception there, not a decision",
		Script: `Fetch/(isolation)`, Step: `level (2|-1|127) .*`,
	},
	{
		ID:     "D-9",
		What:   "values that make no sense and that Kafka answers with UNKNOWN_SERVER_ERROR are answered as the next sensible value or with a fitting code",
		Reason: "UNKNOWN_SERVER_ERROR is an uncaught exception there, not a decision",
		Script: `Fetch/(partition-max-bytes|max-bytes)`, Step: `.*limit -1.*`,
	},
	{
		ID:     "D-9",
		What:   "values that make no sense and that Kafka answers with UNKNOWN_SERVER_ERROR are answered as the next sensible value or with a fitting code",
		Reason: "UNKNOWN_SERVER_ERROR is an uncaught exception there, not a decision",
		Script: `ListOffsets/isolation`, Step: `level (2|-1) .*`,
	},
	{
		ID:     "D-10",
		What:   "CreateTopics with a negative time limit succeeds",
		Reason: "Kafka makes the topic too but says REQUEST_TIMED_OUT",
		Script: `CreateTopics/timeout`, Step: `timeout -1.*`,
	},
	{
		ID:     "D-11",
		What:   "names that are not UTF-8 come back as they were sent",
		Reason: "Kafka puts replacement characters; both refuse the name",
		Script: `Framing/invalid-utf8`,
	},
	{
		ID:     "D-12",
		What:   "two topics of one CreateTopics whose names collide (c.d and c_d) are refused as those of two requests are",
		Reason: "Kafka looks only at topics that are there already",
		Script: `CreateTopics/colliding-names`, Step: `both at once.*`, Path: `Topics\[\$c_d\].*`,
	},
	{
		ID:     "D-13",
		What:   "min.cleanable.dirty.ratio=NaN is refused",
		Reason: "not a number is not between 0 and 1",
		Script: `CreateTopics/config/min\.cleanable\.dirty\.ratio`, Step: `case 6 .*`,
	},
	{
		ID:     "D-14",
		What:   "an unknown broker config is refused",
		Reason: "Kafka stores it; here a typing error is told, with the nearest known key",
		Script: `IncrementalAlterConfigs/broker-bad-values`, Step: `no\.such\.key.*`, Path: `.*ErrorCode`, Got: `42 .*`,
	},
	{
		ID:     "D-15",
		What:   "the record with the largest timestamp (ListOffsets -3) is one that can be read",
		Reason: "Kafka may name one below the log start, or one without a timestamp",
		Script: `ListOffsets/(by-time-after-delete-records|no-timestamps)`, Step: `(cut at 10 max|timestamp T-3).*`,
	},
	{
		ID:     "D-9",
		What:   "values that make no sense and that Kafka answers with UNKNOWN_SERVER_ERROR are answered as the next sensible value or with a fitting code",
		Reason: "UNKNOWN_SERVER_ERROR is an uncaught exception there, not a decision",
		Script: `OffsetForLeaderEpoch/epochs`, Step: `epoch -2.*`,
	},
	{
		ID:     "D-6",
		What:   "min.insync.replicas of a fresh cluster is a default, not a dynamic broker config",
		Reason: "Kafka stores it when it turns eligible leader replicas on; the value is the same",
		Script: `DescribeConfigs/broker-keys`, Step: `cluster default, all.*`,
	},
	{
		ID:     "D-16",
		What:   "a batch that is compressed again keeps the attribute bytes of its records",
		Reason: "no bit of them has a meaning; Kafka sets them to 0 then and keeps them otherwise",
		Script: `Produce/compression-types-odd-batches`, Path: `.*RecordBatches\.batch[78]`,
	},
	{
		ID:     "D-17",
		What:   "node.id shows its default among its synonyms",
		Reason: "Kafka has no default for it; a broker without settings must have one",
		Script: `DescribeConfigs/broker-keys`, Path: `Resources\[1\]\.Configs\[node\.id\]\.ConfigSynonyms.*`,
	},
}
