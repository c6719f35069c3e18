package broker

import (
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// Before the flexible versions a string has 2 bytes for its length: texts that quote a long name or value must not break the answer.
func TestTextsOfOldVersionsFit(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	long := strings.Repeat("\u00fc", 16_380)
	for version := int16(2); version <= 5; version++ {
		req := sample(protocol.KeyCreateTopics, version, [16]byte{}).(*kmsg.CreateTopicsRequest)
		req.Topics[0].Topic = long
		if got := do[*kmsg.CreateTopicsResponse](c, req).Topics[0]; got.Topic != long || protocol.Code(got.ErrorCode) != protocol.InvalidTopicException || got.ErrorMessage == nil {
			t.Errorf("CreateTopics v%d: %d", version, got.ErrorCode)
		}
	}
	for version := int16(0); version <= 2; version++ {
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Version = version
		req.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t",
			Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: &long}}}}
		if got := do[*kmsg.AlterConfigsResponse](c, req).Resources[0]; protocol.Code(got.ErrorCode) != protocol.InvalidConfig || got.ErrorMessage == nil {
			t.Errorf("AlterConfigs v%d: %d", version, got.ErrorCode)
		}
	}
	for version := int16(1); version <= 4; version++ {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version = version
		req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: long}}
		if got := do[*kmsg.DescribeConfigsResponse](c, req).Resources[0]; protocol.Code(got.ErrorCode) != protocol.InvalidTopicException {
			t.Errorf("DescribeConfigs v%d: %d", version, got.ErrorCode)
		}
	}
}

// A value that was set with a new version may be too long for an old one: that resource is an error, not a broken answer.
func TestLongValueInOldVersion(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	const key = "leader.replication.throttled.replicas"
	var items []string
	for i := range 10_000 {
		items = append(items, strconv.Itoa(i)+":1")
	}
	value := strings.Join(items, ",")
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Version = 1
	alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t",
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Value: &value}}}}
	if got := do[*kmsg.IncrementalAlterConfigsResponse](c, alter).Resources[0]; got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	for version := int16(1); version <= 4; version++ {
		for names, short := range map[string]bool{"": false, key: false, "retention.ms": true} {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.Version, req.IncludeSynonyms = version, true
			r := kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}
			if names != "" {
				r.ConfigNames = []string{names}
			}
			req.Resources = append(req.Resources, r)
			got := do[*kmsg.DescribeConfigsResponse](c, req).Resources[0]
			if ok := short || version >= 4; ok != (got.ErrorCode == 0) || ok != (len(got.Configs) > 0) {
				t.Errorf("v%d, names %q: code %d, %d configs", version, names, got.ErrorCode, len(got.Configs))
			}
		}
	}
}

// "01" and "+1" name broker 1 as "1" does, so they are repetitions: else a short request could have an answer without bounds.
func TestBrokerNamedInManyWays(t *testing.T) {
	n := start(t)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	for i := range 2 * maxRepeated {
		req.Resources = append(req.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: strings.Repeat("0", i) + "1"})
	}
	answered := 0
	for _, r := range do[*kmsg.DescribeConfigsResponse](n.dial(), req).Resources {
		if r.ErrorCode == 0 {
			answered++
		}
	}
	if answered != maxRepeated+1 {
		t.Errorf("%d resources were answered", answered)
	}
}
