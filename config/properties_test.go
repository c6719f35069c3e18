package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Kafka's own server.properties (4.x, combined mode) loads: what means nothing here becomes a warning.
func TestLoadKafkaFile(t *testing.T) {
	s := NewSet()
	if err := s.LoadFile("testdata/server.properties"); err != nil {
		t.Fatal(err)
	}
	b, err := s.Broker()
	if err != nil {
		t.Fatal(err)
	}
	if b.NodeID != 7 || fmt.Sprint(b.Listeners) != "[PLAINTEXT://:9092]" || fmt.Sprint(b.AdvertisedListeners) != "[PLAINTEXT://broker7.example.com:9092]" ||
		fmt.Sprint(b.LogDirs) != "[/var/lib/kafka/a /var/lib/kafka/b]" || b.NumPartitions != 3 || b.TopicDefaults.RetentionMs != 72*3600_000 {
		t.Errorf("%+v", b)
	}
	warnings := strings.Join(s.Warnings(), "\n")
	for _, name := range []string{"process.roles", "num.network.threads", "zookeeper.connect", "listener.name.internal.ssl.keystore.location", "share.coordinator.state.topic.min.isr"} {
		if !strings.Contains(warnings, name+" is a key of Kafka without an effect in leat: ignored") {
			t.Errorf("no warning about %s in\n%s", name, warnings)
		}
	}
	if strings.Contains(warnings, "node.id") {
		t.Error(warnings)
	}
}

func TestLoadFileErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"node.id=1\n\nnum.partitions=x\n", `:3: num.partitions: "x" is not allowed; expected a whole number from 1 to 2147483647`},
		{"log.dri=/data\n", `:1: unknown broker config key "log.dri"; did you mean log.dirs?`},
		{"\n=x", `:2: "=x" is not name=value`},
	} {
		path := write(t, c.text)
		if err := NewSet().LoadFile(path); err == nil || err.Error() != path+c.want {
			t.Errorf("got %v, want %s%s", err, path, c.want)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if err := NewSet().LoadFile(missing); !os.IsNotExist(err) || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
	if err := NewSet().LoadFile(write(t, strings.Repeat("#", fileBytesMax+1))); err == nil || !strings.Contains(err.Error(), "hardly a configuration file") {
		t.Errorf("%v", err)
	}
	s := NewSet()
	if err := s.LoadFile(write(t, "num.partitions=1\nnum.partitions=2\n")); err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "num.partitions is set in line 1 and again in line 2") {
		t.Errorf("%v", w)
	}
	if b, err := s.Broker(); err != nil || b.NumPartitions != 2 {
		t.Errorf("%+v %v", b, err)
	}
}

// A key that does nothing here is taken, for it is Kafka's, and said.
func TestKeysWithoutEffectWarn(t *testing.T) {
	s := NewSet()
	if err := s.LoadFile(write(t, "socket.listen.backlog.size=5\nlog.local.retention.ms=7\nnum.partitions=2\n")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.Warnings(), "; "); got != "socket.listen.backlog.size has no effect in leat; log.local.retention.ms has no effect in leat" {
		t.Error(got)
	}
}
