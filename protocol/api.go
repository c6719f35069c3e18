package protocol

import (
	"fmt"
	"sort"
	"strings"
)

// API is one kind of request that this broker answers.
type API struct {
	Key           int16
	Name          string
	Min, Max      int16 // versions that are answered
	Flexible      int16 // first version with compact lengths and tagged fields; -1 = none
	AdvertisedMin int16 // lowest version that ApiVersions lists: below Min only where clients want to see it
	Note          string
}

// Keys of the requests in APIs.
const (
	KeyProduce                 int16 = 0
	KeyFetch                   int16 = 1
	KeyListOffsets             int16 = 2
	KeyMetadata                int16 = 3
	KeyOffsetCommit            int16 = 8
	KeyOffsetFetch             int16 = 9
	KeyFindCoordinator         int16 = 10
	KeyJoinGroup               int16 = 11
	KeyHeartbeat               int16 = 12
	KeyLeaveGroup              int16 = 13
	KeySyncGroup               int16 = 14
	KeyDescribeGroups          int16 = 15
	KeyListGroups              int16 = 16
	KeyAPIVersions             int16 = 18
	KeyCreateTopics            int16 = 19
	KeyDeleteTopics            int16 = 20
	KeyDeleteRecords           int16 = 21
	KeyInitProducerID          int16 = 22
	KeyOffsetForLeaderEpoch    int16 = 23
	KeyDescribeConfigs         int16 = 32
	KeyAlterConfigs            int16 = 33
	KeyDescribeLogDirs         int16 = 35
	KeyCreatePartitions        int16 = 37
	KeyDeleteGroups            int16 = 42
	KeyIncrementalAlterConfigs int16 = 44
	KeyOffsetDelete            int16 = 47
	KeyDescribeCluster         int16 = 60
	KeyDescribeProducers       int16 = 61
	KeyConsumerGroupHeartbeat  int16 = 68
	KeyConsumerGroupDescribe   int16 = 69
	KeyListConfigResources     int16 = 74
	KeyDescribeTopicPartitions int16 = 75
)

// APIs is everything this broker answers, in order of key. ApiVersions and docs/COMPATIBILITY.md are made from it.
//
// Ranges are exactly those of a Kafka 4.4 broker. What does not work is not listed, with one exception that old librdkafka needs: Produce is listed
// from 0, else it sends everything uncompressed (0-2 are refused all the same).
var APIs = []API{
	{KeyProduce, "Produce", 3, 13, 9, 0, "listed from 0 because old librdkafka wants to see it; 0-2 close the connection, as with Kafka"},
	{KeyFetch, "Fetch", 4, 18, 12, 4, ""},
	{KeyListOffsets, "ListOffsets", 1, 11, 6, 1, ""},
	{KeyMetadata, "Metadata", 0, 13, 9, 0, ""},
	{KeyOffsetCommit, "OffsetCommit", 2, 10, 8, 2, ""},
	{KeyOffsetFetch, "OffsetFetch", 1, 10, 6, 1, ""},
	{KeyFindCoordinator, "FindCoordinator", 0, 6, 3, 0, "of groups; of transactions it answers COORDINATOR_NOT_AVAILABLE until they arrive"},
	{KeyJoinGroup, "JoinGroup", 0, 9, 6, 0, ""},
	{KeyHeartbeat, "Heartbeat", 0, 4, 4, 0, ""},
	{KeyLeaveGroup, "LeaveGroup", 0, 5, 4, 0, ""},
	{KeySyncGroup, "SyncGroup", 0, 5, 4, 0, ""},
	{KeyDescribeGroups, "DescribeGroups", 0, 6, 5, 0, ""},
	{KeyListGroups, "ListGroups", 0, 5, 3, 0, ""},
	{KeyAPIVersions, "ApiVersions", 0, 5, 3, 0, ""},
	{KeyCreateTopics, "CreateTopics", 2, 7, 5, 2, ""},
	{KeyDeleteTopics, "DeleteTopics", 1, 6, 4, 1, ""},
	{KeyDeleteRecords, "DeleteRecords", 0, 2, 2, 0, ""},
	{KeyInitProducerID, "InitProducerId", 0, 5, 2, 0, "without a transactional id: idempotent producers"},
	{KeyOffsetForLeaderEpoch, "OffsetForLeaderEpoch", 2, 4, 4, 2, ""},
	{KeyDescribeConfigs, "DescribeConfigs", 1, 4, 4, 1, ""},
	{KeyAlterConfigs, "AlterConfigs", 0, 2, 2, 0, ""},
	{KeyDescribeLogDirs, "DescribeLogDirs", 1, 5, 2, 1, ""},
	{KeyCreatePartitions, "CreatePartitions", 0, 3, 2, 0, ""},
	{KeyDeleteGroups, "DeleteGroups", 0, 3, 2, 0, ""},
	{KeyIncrementalAlterConfigs, "IncrementalAlterConfigs", 0, 1, 1, 0, ""},
	{KeyOffsetDelete, "OffsetDelete", 0, 0, -1, 0, ""},
	{KeyDescribeCluster, "DescribeCluster", 0, 2, 0, 0, ""},
	{KeyDescribeProducers, "DescribeProducers", 0, 0, 0, 0, ""},
	{KeyConsumerGroupHeartbeat, "ConsumerGroupHeartbeat", 0, 1, 0, 0, ""},
	{KeyConsumerGroupDescribe, "ConsumerGroupDescribe", 0, 1, 0, 0, ""},
	{KeyListConfigResources, "ListConfigResources", 0, 1, 0, 0, ""},
	{KeyDescribeTopicPartitions, "DescribeTopicPartitions", 0, 0, 0, 0, ""},
}

// LookupAPI finds the API of a key; nil when this broker does not answer it.
func LookupAPI(key int16) *API {
	i := sort.Search(len(APIs), func(i int) bool { return APIs[i].Key >= key })
	if i == len(APIs) || APIs[i].Key != key {
		return nil
	}
	return &APIs[i]
}

// IsFlexible reports whether a version has compact lengths and tagged fields.
func (a *API) IsFlexible(version int16) bool { return a.Flexible >= 0 && version >= a.Flexible }

// Supports reports whether a version is answered.
func (a *API) Supports(version int16) bool { return version >= a.Min && version <= a.Max }

// CompatibilityTable is the table of docs/COMPATIBILITY.md: one row per API.
func CompatibilityTable() string {
	var b strings.Builder
	b.WriteString("| key | API | versions | listed by ApiVersions | note |\n| ---: | --- | --- | --- | --- |\n")
	for _, a := range APIs {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", a.Key, a.Name, versions(a.Min, a.Max), versions(a.AdvertisedMin, a.Max), a.Note)
	}
	return b.String()
}

func versions(low, high int16) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d-%d", low, high)
}
