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
}
