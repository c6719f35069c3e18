package protocol

import "testing"

// fuzzDecode feeds the decoder of one API: an error or a request, never a panic, no more memory than the limit, and all readers agree.
func fuzzDecode(f *testing.F, key int16) {
	a := LookupAPI(key)
	for version := a.Min; version <= a.Max; version++ {
		for seed := range uint64(3) {
			f.Add(version, filledRequest(key, version, newRand(seed)).AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if !a.Supports(version) || len(body) > 1<<16 {
			return
		}
		h := Header{Key: key, Version: version}
		req, err := Decode(h, body)
		checkAgreement(t, h, body, err)
		if err == nil {
			again, err := Decode(h, req.AppendTo(nil))
			if err != nil {
				t.Fatalf("what was read cannot be written and read again: %v", err)
			}
			_ = again
		}
	})
}

func FuzzDecodeProduce(f *testing.F)                 { fuzzDecode(f, KeyProduce) }
func FuzzDecodeFetch(f *testing.F)                   { fuzzDecode(f, KeyFetch) }
func FuzzDecodeListOffsets(f *testing.F)             { fuzzDecode(f, KeyListOffsets) }
func FuzzDecodeMetadata(f *testing.F)                { fuzzDecode(f, KeyMetadata) }
func FuzzDecodeOffsetCommit(f *testing.F)            { fuzzDecode(f, KeyOffsetCommit) }
func FuzzDecodeOffsetFetch(f *testing.F)             { fuzzDecode(f, KeyOffsetFetch) }
func FuzzDecodeJoinGroup(f *testing.F)               { fuzzDecode(f, KeyJoinGroup) }
func FuzzDecodeHeartbeat(f *testing.F)               { fuzzDecode(f, KeyHeartbeat) }
func FuzzDecodeLeaveGroup(f *testing.F)              { fuzzDecode(f, KeyLeaveGroup) }
func FuzzDecodeSyncGroup(f *testing.F)               { fuzzDecode(f, KeySyncGroup) }
func FuzzDecodeDescribeGroups(f *testing.F)          { fuzzDecode(f, KeyDescribeGroups) }
func FuzzDecodeListGroups(f *testing.F)              { fuzzDecode(f, KeyListGroups) }
func FuzzDecodeDeleteGroups(f *testing.F)            { fuzzDecode(f, KeyDeleteGroups) }
func FuzzDecodeOffsetDelete(f *testing.F)            { fuzzDecode(f, KeyOffsetDelete) }
func FuzzDecodeFindCoordinator(f *testing.F)         { fuzzDecode(f, KeyFindCoordinator) }
func FuzzDecodeApiVersions(f *testing.F)             { fuzzDecode(f, KeyAPIVersions) }
func FuzzDecodeCreateTopics(f *testing.F)            { fuzzDecode(f, KeyCreateTopics) }
func FuzzDecodeDeleteTopics(f *testing.F)            { fuzzDecode(f, KeyDeleteTopics) }
func FuzzDecodeDeleteRecords(f *testing.F)           { fuzzDecode(f, KeyDeleteRecords) }
func FuzzDecodeInitProducerId(f *testing.F)          { fuzzDecode(f, KeyInitProducerID) }
func FuzzDecodeOffsetForLeaderEpoch(f *testing.F)    { fuzzDecode(f, KeyOffsetForLeaderEpoch) }
func FuzzDecodeDescribeConfigs(f *testing.F)         { fuzzDecode(f, KeyDescribeConfigs) }
func FuzzDecodeAlterConfigs(f *testing.F)            { fuzzDecode(f, KeyAlterConfigs) }
func FuzzDecodeDescribeLogDirs(f *testing.F)         { fuzzDecode(f, KeyDescribeLogDirs) }
func FuzzDecodeCreatePartitions(f *testing.F)        { fuzzDecode(f, KeyCreatePartitions) }
func FuzzDecodeIncrementalAlterConfigs(f *testing.F) { fuzzDecode(f, KeyIncrementalAlterConfigs) }
func FuzzDecodeDescribeCluster(f *testing.F)         { fuzzDecode(f, KeyDescribeCluster) }
func FuzzDecodeDescribeProducers(f *testing.F)       { fuzzDecode(f, KeyDescribeProducers) }
func FuzzDecodeConsumerGroupHeartbeat(f *testing.F)  { fuzzDecode(f, KeyConsumerGroupHeartbeat) }
func FuzzDecodeConsumerGroupDescribe(f *testing.F)   { fuzzDecode(f, KeyConsumerGroupDescribe) }
func FuzzDecodeListConfigResources(f *testing.F)     { fuzzDecode(f, KeyListConfigResources) }
func FuzzDecodeDescribeTopicPartitions(f *testing.F) { fuzzDecode(f, KeyDescribeTopicPartitions) }
