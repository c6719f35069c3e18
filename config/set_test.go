package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func override(t *testing.T, s *Set, name, value string, source Source) {
	t.Helper()
	if err := s.Override(name, value, source); err != nil {
		t.Fatal(err)
	}
}

func effective(s *Set, name string) Value {
	for _, v := range s.Effective() {
		if v.Key.Name == name {
			return v
		}
	}
	panic("no key " + name)
}

func effectiveTopic(t *testing.T, s *Set, overrides map[string]string, name string) Value {
	t.Helper()
	values, err := s.EffectiveTopic(overrides)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if v.Key.Name == name {
			return v
		}
	}
	panic("no key " + name)
}

func synonyms(v Value) string {
	var list []string
	for _, s := range v.Synonyms {
		list = append(list, fmt.Sprintf("%d:%s=%s", s.Source.KafkaCode(), s.Name, s.Value))
	}
	return strings.Join(list, " ")
}

// Defaults as the typed structures show them.
func TestDefaults(t *testing.T) {
	b, err := NewSet().Broker()
	if err != nil {
		t.Fatal(err)
	}
	want := Topic{Delete: true, RetentionMs: 604800000, RetentionBytes: -1, SegmentBytes: 1 << 30, SegmentMs: 604800000, SegmentIndexBytes: 10 << 20,
		IndexIntervalBytes: 4096, FileDeleteDelayMs: 60000, MaxMessageBytes: 1048588, MaxDecompressedMessageBytes: 2147483639,
		TimestampBeforeMaxMs: NoLimit, TimestampAfterMaxMs: 3600000, CompressionType: "producer", GzipLevel: -1, LZ4Level: 9, ZstdLevel: 3,
		MinInsyncReplicas: 1, MinCleanableDirtyRatio: 0.5, DeleteRetentionMs: 86400000, MaxCompactionLagMs: NoLimit, FlushMessages: NoLimit, FlushMs: NoLimit,
		RemoteCopyLagBytes: -1, LocalRetentionMs: -2, LocalRetentionBytes: -2}
	if fmt.Sprintf("%+v", b.TopicDefaults) != fmt.Sprintf("%+v", want) {
		t.Errorf("topic defaults\n%+v, want\n%+v", b.TopicDefaults, want)
	}
	if fmt.Sprint(b.Listeners) != "[PLAINTEXT://localhost:9092]" || len(b.AdvertisedListeners) != 0 || b.NodeID != 1 || fmt.Sprint(b.LogDirs) != "[data]" {
		t.Errorf("%+v", b)
	}
	if b.SocketRequestMaxBytes != 100<<20 || b.FetchMaxBytes != 55<<20 || !b.AutoCreateTopics || b.OffsetsRetentionMs != 604800000 || b.LogSyncMethod != "auto" {
		t.Errorf("%+v", b)
	}
}

// Every key says what it is for; every field of the typed structures is filled from the table (that a default is what it says is tested above).
func TestKeysDocumented(t *testing.T) {
	keys := Keys()
	if len(keys) != len(brokerKeys)+len(topicKeys)+len(groupKeys) {
		t.Fatalf("%d keys", len(keys))
	}
	for i, k := range keys {
		if len(k.Doc) < 20 || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%s %s: doc %q", k.Scope, k.Name, k.Doc)
		}
		if found, ok := Lookup(k.Scope, k.Name); !ok || found.Name != k.Name || found.Scope != k.Scope {
			t.Errorf("%s %s is not found", k.Scope, k.Name)
		}
		if i > 0 && keys[i-1].Scope == k.Scope && keys[i-1].Name >= k.Name {
			t.Errorf("%s is behind %s", k.Name, keys[i-1].Name)
		}
		if isForeign(k.Name) && k.Scope == BrokerScope {
			t.Errorf("%s is in the table and ignored", k.Name)
		}
	}
	if _, ok := Lookup(BrokerScope, "retention.ms"); ok {
		t.Error("retention.ms is no broker key")
	}
}

// Layers: default < file < flag < dynamic default < dynamic broker, shown with all their places.
func TestLayers(t *testing.T) {
	s := NewSet()
	steps := []struct {
		source   Source
		value    string
		synonyms string
	}{
		{File, "2000000", "4:message.max.bytes=2000000 5:message.max.bytes=1048588"},
		{Flag, "3000000", "4:message.max.bytes=3000000 4:message.max.bytes=2000000 5:message.max.bytes=1048588"},
		{DynamicDefault, "4000000", "3:message.max.bytes=4000000 4:message.max.bytes=3000000 4:message.max.bytes=2000000 5:message.max.bytes=1048588"},
		{DynamicBroker, "5000000", "2:message.max.bytes=5000000 3:message.max.bytes=4000000 4:message.max.bytes=3000000 4:message.max.bytes=2000000 5:message.max.bytes=1048588"},
	}
	if v := effective(s, "message.max.bytes"); v.Value != "1048588" || v.Source != Default {
		t.Errorf("%+v", v)
	}
	for _, step := range steps {
		override(t, s, "message.max.bytes", step.value, step.source)
		v := effective(s, "message.max.bytes")
		if v.Value != step.value || v.Source != step.source || synonyms(v) != step.synonyms {
			t.Errorf("after %s: %s from %s, synonyms %s", step.source, v.Value, v.Source, synonyms(v))
		}
		b, err := s.Broker()
		if err != nil || fmt.Sprint(b.TopicDefaults.MaxMessageBytes) != step.value {
			t.Errorf("after %s: %v %v", step.source, b, err)
		}
		if tv := effectiveTopic(t, s, nil, "max.message.bytes"); tv.Value != step.value || tv.Source != step.source || synonyms(tv) != step.synonyms {
			t.Errorf("after %s the topic has %+v", step.source, tv)
		}
	}
	tv := effectiveTopic(t, s, map[string]string{"max.message.bytes": " 7 "}, "max.message.bytes")
	if tv.Value != " 7 " || tv.Source != TopicOverride || synonyms(tv) != "1:max.message.bytes= 7  "+steps[3].synonyms {
		t.Errorf("%+v", tv)
	}
	if err := s.SetDynamic(DynamicBroker, nil); err != nil {
		t.Fatal(err)
	}
	if v := effective(s, "message.max.bytes"); v.Value != "4000000" {
		t.Errorf("after removing the broker's: %+v", v)
	}
}

// Times may be given in three units; the finest that is set counts, wherever it is set.
func TestUnits(t *testing.T) {
	check := func(settings string, topic string, want int64) {
		t.Helper()
		s := NewSet()
		for kv := range strings.FieldsSeq(settings) {
			name, value, _ := strings.Cut(kv, "=")
			override(t, s, name, value, File)
		}
		v := effectiveTopic(t, s, nil, topic)
		if v.Value != fmt.Sprint(want) {
			t.Errorf("%s: %s is %s, want %d", settings, topic, v.Value, want)
		}
	}
	check("", "retention.ms", 604800000)
	check("log.retention.hours=2", "retention.ms", 7200000)
	check("log.retention.hours=2 log.retention.minutes=3", "retention.ms", 180000)
	check("log.retention.hours=2 log.retention.minutes=3 log.retention.ms=4", "retention.ms", 4)
	check("log.retention.hours=-1", "retention.ms", -1)
	check("log.retention.minutes=-1", "retention.ms", -1)
	check("log.retention.hours=2147483647", "retention.ms", 2147483647*3600000)
	check("log.roll.hours=1", "segment.ms", 3600000)
	check("log.roll.hours=1 log.roll.ms=5", "segment.ms", 5)
	check("log.roll.jitter.hours=1", "segment.jitter.ms", 3600000)
	check("log.flush.scheduler.interval.ms=7", "flush.ms", 7)
	check("log.flush.scheduler.interval.ms=7 log.flush.interval.ms=8", "flush.ms", 8)

	s := NewSet()
	override(t, s, "log.retention.hours", "2", File)
	if v := effectiveTopic(t, s, nil, "retention.ms"); v.Source != File || synonyms(v) != "4:log.retention.hours=2" {
		t.Errorf("%+v", v)
	}
	if v := effective(s, "log.retention.ms"); !v.Null || v.Value != "" || len(v.Synonyms) != 0 {
		t.Errorf("%+v", v)
	}
}

// The other names of two keys: the proper one counts when both are in a layer.
func TestAliases(t *testing.T) {
	s := NewSet()
	override(t, s, "broker.id", "4", File)
	override(t, s, "log.dir", "/a", File)
	b, err := s.Broker()
	if err != nil || b.NodeID != 4 || fmt.Sprint(b.LogDirs) != "[/a]" {
		t.Errorf("%+v %v", b, err)
	}
	override(t, s, "log.dirs", " /b, /c ,/b", File)
	override(t, s, "broker.id", "5", Flag)
	if b, err = s.Broker(); err != nil || b.NodeID != 5 || fmt.Sprint(b.LogDirs) != "[/b /c]" {
		t.Errorf("%+v %v", b, err)
	}
	if err := s.Override("broker.id", "x", File); err == nil || !strings.Contains(err.Error(), "node.id") {
		t.Errorf("%v", err)
	}
}

// Every error is a sentence that names key, value and what was expected.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"num.partitions", "many", `num.partitions: "many" is not allowed; expected a whole number from 1 to 2147483647`},
		{"num.partitions", "0", `num.partitions: "0" is not allowed; expected a whole number from 1 to 2147483647`},
		{"log.retention.ms", "1s", `log.retention.ms: "1s" is not allowed; expected a whole number of milliseconds, at least -1`},
		{"log.retention.ms", "-2", `log.retention.ms: "-2" is not allowed; expected a whole number of milliseconds, at least -1`},
		{"log.segment.bytes", "1000", `log.segment.bytes: "1000" is not allowed; expected a whole number of bytes from 1048576 to 2147483647`},
		{"log.retention.bytes", "1GB", `log.retention.bytes: "1GB" is not allowed; expected a whole number of bytes`},
		{"auto.create.topics.enable", "yes", `auto.create.topics.enable: "yes" is not allowed; expected true or false`},
		{"log.cleanup.policy", "delete,keep", `log.cleanup.policy: "delete,keep" is not allowed; expected a list of compact, delete`},
		{"log.dirs", "/a,,/b", `log.dirs: "/a,,/b" is not allowed; expected a list without empty items`},
		{"compression.type", "gz", `compression.type: "gz" is not allowed; expected one of producer, uncompressed, gzip, snappy, lz4, zstd`},
		{"compression.gzip.level", "0", `compression.gzip.level: "0" is not allowed; expected a whole number from -1 to 9, but not 0`},
		{"log.cleaner.min.cleanable.ratio", "2", `log.cleaner.min.cleanable.ratio: "2" is not allowed; expected a number from 0 to 1`},
		{"offsets.topic.replication.factor", "40000", `offsets.topic.replication.factor: "40000" is not allowed; expected a whole number from 1 to 32767`},
		{"log.sync.method", "fsync", `log.sync.method: "fsync" is not allowed; expected one of auto, fdatasync, syncfs`},
		{"num.partitons", "1", `unknown broker config key "num.partitons"; did you mean num.partitions?`},
		{"numpartitions", "1", `unknown broker config key "numpartitions"; did you mean num.partitions?`},
		{"log.retention.m", "1", `unknown broker config key "log.retention.m"; did you mean log.retention.ms?`},
		{"retention.ms", "1", `unknown broker config key "retention.ms": it is a topic key; the broker key that sets it for all topics is log.retention.ms`},
		{"remote.storage.enable", "true", `unknown broker config key "remote.storage.enable": it is a topic key and has no default for all topics`},
		{"what.is.this.thing", "1", `unknown broker config key "what.is.this.thing"`},
		{"", "1", `unknown broker config key ""`},
		{"num.network.thread", "1", `unknown broker config key "num.network.thread"`},
		{"authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer", `authorizer.class.name cannot be used: leat has no authorizer so far, and everybody who reaches a listener may do everything. Remove the key to go on without it`},
	} {
		err := NewSet().Override(c.name, c.value, Flag)
		var ce *Error
		if !errors.As(err, &ce) || err.Error() != c.want {
			t.Errorf("%s=%s:\n got %v\nwant %s", c.name, c.value, err, c.want)
		}
	}
	for _, c := range []struct{ name, value, want string }{
		{"retention", "1", `unknown topic config key "retention"; did you mean retention.ms?`},
		{"log.retention.hours", "1", `unknown topic config key "log.retention.hours": it is a broker key; the topic key is retention.ms`},
		{"num.partitions", "1", `unknown topic config key "num.partitions": it is a broker key`},
		{"remote.storage.enable", "true", `remote.storage.enable: leat has no tiered storage; expected false`},
		{"leader.replication.throttled.replicas", "1-2", `leader.replication.throttled.replicas: "1-2" is not allowed; expected * or a list of PARTITION:BROKER`},
	} {
		if err := NewSet().ValidateTopic(map[string]string{c.name: c.value}); err == nil || err.Error() != c.want {
			t.Errorf("%s=%s:\n got %v\nwant %s", c.name, c.value, err, c.want)
		}
	}
	long := strings.Repeat("x", 1<<20)
	if err := NewSet().ValidateTopic(map[string]string{long: "1"}); err == nil || len(err.Error()) > 1000 {
		t.Error("a very long key makes a very long error")
	}
	err := NewSet().ValidateTopic(map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
	if err == nil || err.Error() != "min.compaction.lag.ms: 10 is above max.compaction.lag.ms, which is 5" {
		t.Errorf("%v", err)
	}
}

func TestTopicTyped(t *testing.T) {
	topic, err := NewSet().Topic(map[string]string{"cleanup.policy": "compact, delete", "retention.bytes": "-5", "message.timestamp.type": "LogAppendTime",
		"write.caching": "TRUE", "follower.replication.throttled.replicas": "*", "leader.replication.throttled.replicas": "0:1,1:2", "min.cleanable.dirty.ratio": "1"})
	if err != nil {
		t.Fatal(err)
	}
	if !topic.Compact || !topic.Delete || topic.RetentionBytes != -1 || !topic.LogAppendTime || !topic.WriteCaching || topic.MinCleanableDirtyRatio != 1 ||
		fmt.Sprint(topic.FollowerThrottledReplicas, topic.LeaderThrottledReplicas) != "[*] [0:1 1:2]" {
		t.Errorf("%+v", topic)
	}
	topic, err = NewSet().Topic(map[string]string{"cleanup.policy": ""})
	if err != nil || topic.Compact || topic.Delete {
		t.Errorf("%+v %v", topic, err)
	}
	if v := effectiveTopic(t, NewSet(), map[string]string{"min.cleanable.dirty.ratio": "1"}, "min.cleanable.dirty.ratio"); v.Value != "1" { // as it was set
		t.Errorf("%+v", v)
	}
}

func TestDynamic(t *testing.T) {
	s := NewSet()
	for _, c := range []struct{ name, value, want string }{
		{"listeners", "PLAINTEXT://:1", "listeners cannot be changed while the broker runs: change it in the configuration file and restart"},
		{"num.network.threads", "3", "num.network.threads is a key of Kafka without an effect in leat: it cannot be set"},
		{"message.max.byte", "3", `unknown broker config key "message.max.byte"; did you mean message.max.bytes?`},
		{"message.max.bytes", "-1", `message.max.bytes: "-1" is not allowed; expected a whole number of bytes from 0 to 2147483647`},
		{"log.cleaner.min.compaction.lag.ms", "9223372036854775807", ""},
		{"log.retention.ms", "5", ""},
	} {
		err := s.ValidateDynamic(DynamicDefault, map[string]string{c.name: c.value})
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s=%s: %v, want %s", c.name, c.value, err, c.want)
		}
	}
	// Values are checked together, and with the layers below.
	override(t, s, "log.cleaner.max.compaction.lag.ms", "5", File)
	if err := s.ValidateDynamic(DynamicDefault, map[string]string{"log.cleaner.min.compaction.lag.ms": "6"}); err == nil {
		t.Error("a lag above the maximum is allowed")
	}
	// One value that is not allowed any more does not take the others along.
	err := s.SetDynamic(DynamicDefault, map[string]string{"message.max.bytes": "5", "gone.key": "1", "log.retention.ms": "x"})
	if err == nil || !strings.Contains(err.Error(), "gone.key") {
		t.Errorf("%v", err)
	}
	if v := effective(s, "message.max.bytes"); v.Value != "5" || v.Source != DynamicDefault {
		t.Errorf("%+v", v)
	}
	if v := effective(s, "log.retention.ms"); !v.Null {
		t.Errorf("%+v", v)
	}
}

// What was set at run time and no longer goes together with the file is left out: the rest is in force, and there is a configuration.
func TestDynamicBesideAnotherFile(t *testing.T) {
	s := NewSet()
	override(t, s, "group.consumer.max.assignment.interval.ms", "5000", File)
	override(t, s, "log.cleaner.max.compaction.lag.ms", "1000", File)
	err := s.SetDynamic(DynamicDefault, map[string]string{"group.consumer.assignment.interval.ms": "12000", "log.cleaner.min.compaction.lag.ms": "2000", "message.max.bytes": "5"})
	if err == nil || !strings.Contains(err.Error(), "group.consumer.assignment.interval.ms") {
		t.Errorf("%v", err)
	}
	b, err := s.Broker()
	if err != nil || b.GroupConsumerAssignmentIntervalMs != 1000 || b.TopicDefaults.MinCompactionLagMs != 0 || b.TopicDefaults.MaxMessageBytes != 5 {
		t.Errorf("%+v, %v", b, err)
	}
	// Two that go together only with one another.
	if err := s.SetDynamic(DynamicBroker, map[string]string{"log.cleaner.min.compaction.lag.ms": "2000", "log.cleaner.max.compaction.lag.ms": "3000"}); err != nil {
		t.Error(err)
	}
	if b, err = s.Broker(); err != nil || b.TopicDefaults.MinCompactionLagMs != 2000 {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestConcurrentUse(t *testing.T) {
	s := NewSet()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 50 {
				if err := s.SetDynamic(DynamicDefault, map[string]string{"message.max.bytes": fmt.Sprint(1000 + i)}); err != nil {
					t.Error(err)
				}
				if _, err := s.Broker(); err != nil {
					t.Error(err)
				}
				s.Effective()
			}
		})
	}
	wg.Wait()
}
