package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

func alterRequest(version int16, kind kmsg.ConfigResourceType, name string, op kmsg.IncrementalAlterConfigOp, key, value string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = version
	q := kmsg.NewIncrementalAlterConfigsRequestResource()
	q.ResourceType, q.ResourceName = kind, name
	k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	k.Name, k.Op, k.Value = key, op, &value
	q.Configs = append(q.Configs, k)
	req.Resources = append(req.Resources, q)
	return req
}

// describe returns one key of a resource.
func (c *client) describe(kind kmsg.ConfigResourceType, name, key string) kmsg.DescribeConfigsResponseResourceConfig {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms = 4, true
	q := kmsg.NewDescribeConfigsRequestResource()
	q.ResourceType, q.ResourceName, q.ConfigNames = kind, name, []string{key}
	req.Resources = append(req.Resources, q)
	r := do[*kmsg.DescribeConfigsResponse](c, req).Resources[0]
	if r.ErrorCode != 0 || len(r.Configs) != 1 {
		c.t.Fatalf("describe %s of %q: %+v", key, name, r)
	}
	return r.Configs[0]
}

func (c *client) alter(kind kmsg.ConfigResourceType, name string, op kmsg.IncrementalAlterConfigOp, key, value string) protocol.Code {
	c.t.Helper()
	return protocol.Code(do[*kmsg.IncrementalAlterConfigsResponse](c, alterRequest(1, kind, name, op, key, value)).Resources[0].ErrorCode)
}

func TestTopicConfigs(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	const topic, set, del, add, sub = kmsg.ConfigResourceTypeTopic, kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	for _, s := range []struct {
		op         kmsg.IncrementalAlterConfigOp
		key, value string
		code       protocol.Code
		now        string
	}{
		{set, "max.message.bytes", "500", protocol.None, "500"},
		{set, "max.message.bytes", "many", protocol.InvalidConfig, "500"},
		{set, "cleanup.policy", "compact", protocol.None, "compact"},
		{add, "cleanup.policy", "delete", protocol.None, "compact,delete"},
		{add, "cleanup.policy", "delete", protocol.None, "compact,delete"},
		{sub, "cleanup.policy", "compact", protocol.None, "delete"},
		{add, "max.message.bytes", "1", protocol.InvalidConfig, "500"},
		{del, "max.message.bytes", "", protocol.None, "1048588"},
	} {
		if code := c.alter(topic, "t", s.op, s.key, s.value); code != s.code {
			t.Fatalf("%+v: %s", s, code.Name())
		}
		if got := text(c.describe(topic, "t", s.key).Value); got != s.now {
			t.Fatalf("%+v: now %q", s, got)
		}
	}
	if code := c.alter(topic, "missing", set, "retention.ms", "1"); code != protocol.UnknownTopicOrPartition {
		t.Fatal(code.Name())
	}
	if code := c.alter(topic, "t", set, "no.such.key", "1"); code != protocol.InvalidConfig {
		t.Fatal(code.Name())
	}
	// Effective at once: for the batch that is sent ahead of the answer, too.
	c.send(alterRequest(1, topic, "t", set, "max.message.bytes", "100"))
	c.send(produceRequest(9, -1, "t", 0, plain("a value that makes the batch larger than a hundred bytes")))
	next[*kmsg.IncrementalAlterConfigsResponse](c)
	wantCode(t, onlyProduced(t, next[*kmsg.ProduceResponse](c)).ErrorCode, protocol.MessageTooLarge)
	// AlterConfigs replaces everything.
	req := sample(protocol.KeyAlterConfigs, 2, [16]byte{}).(*kmsg.AlterConfigsRequest)
	req.ValidateOnly = false
	wantCode(t, do[*kmsg.AlterConfigsResponse](c, req).Resources[0].ErrorCode, protocol.None)
	if got := c.describe(topic, "t", "max.message.bytes"); text(got.Value) != "1048588" || got.Source != kmsg.ConfigSourceDefaultConfig {
		t.Fatalf("%+v", got)
	}
	if got := c.describe(topic, "t", "retention.ms"); text(got.Value) != "1000" || got.Source != kmsg.ConfigSourceDynamicTopicConfig {
		t.Fatalf("%+v", got)
	}
	// Named twice: each is refused.
	req.Resources = append(req.Resources, req.Resources[0])
	for _, r := range do[*kmsg.AlterConfigsResponse](c, req).Resources {
		wantCode(t, r.ErrorCode, protocol.InvalidRequest)
	}
}

// Dynamic broker configs work without a restart, for topics as their defaults, and survive one.
func TestDynamicBrokerConfigs(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.create("own", 1, "max.message.bytes=1000000")
	const broker, set = kmsg.ConfigResourceTypeBroker, kmsg.IncrementalAlterConfigOpSet
	value := plain("a value that makes the batch larger than a hundred bytes")
	if code := c.alter(broker, "", set, "message.max.bytes", "100"); code != protocol.None {
		t.Fatal(code.Name())
	}
	wantCode(t, c.produce("t", 0, value).ErrorCode, protocol.MessageTooLarge)
	wantCode(t, c.produce("own", 0, value).ErrorCode, protocol.None)
	if code := c.alter(broker, "1", set, "message.max.bytes", "2000"); code != protocol.None { // this broker's wins
		t.Fatal(code.Name())
	}
	wantCode(t, c.produce("t", 0, value).ErrorCode, protocol.None)
	if got := c.describe(broker, "1", "message.max.bytes"); text(got.Value) != "2000" || got.Source != kmsg.ConfigSourceDynamicBrokerConfig {
		t.Fatalf("%+v", got)
	}
	n = n.restart()
	c = n.dial()
	if got := c.describe(broker, "1", "message.max.bytes"); text(got.Value) != "2000" {
		t.Fatalf("after the restart: %+v", got)
	}
	for _, id := range []string{"", "1"} {
		if code := c.alter(broker, id, kmsg.IncrementalAlterConfigOpDelete, "message.max.bytes", ""); code != protocol.None {
			t.Fatal(code.Name())
		}
	}
	if got := c.describe(broker, "1", "message.max.bytes"); text(got.Value) != "1048588" {
		t.Fatalf("deleted: %+v", got)
	}
	for _, tc := range []struct {
		id, key, value string
		want           protocol.Code
	}{
		{"1", "node.id", "5", protocol.InvalidRequest},
		{"1", "message.max.bytes", "x", protocol.InvalidRequest},
		{"9", "message.max.bytes", "5", protocol.InvalidRequest},
		{"x", "message.max.bytes", "5", protocol.InvalidRequest},
	} {
		if code := c.alter(broker, tc.id, set, tc.key, tc.value); code != tc.want {
			t.Errorf("%+v: %s", tc, code.Name())
		}
	}
}

// A resource named again and again does not make the answer grow with what it would say.
func TestDescribeConfigsNamedTwice(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	q := kmsg.NewDescribeConfigsRequestResource()
	q.ResourceType, q.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	for range maxRepeated + 5 {
		req.Resources = append(req.Resources, q)
	}
	for i, r := range do[*kmsg.DescribeConfigsResponse](c, req).Resources {
		if i <= maxRepeated && (r.ErrorCode != 0 || len(r.Configs) < 20) || i > maxRepeated && (protocol.Code(r.ErrorCode) != protocol.InvalidRequest || len(r.Configs) != 0) {
			t.Errorf("%d: %s, %d configs", i, protocol.Code(r.ErrorCode).Name(), len(r.Configs))
		}
	}
}
