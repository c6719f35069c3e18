package config

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// golden reads the rows of a testdata file, split at tabs.
func golden(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows [][]string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if !strings.HasPrefix(s.Text(), "#") {
			rows = append(rows, strings.Split(s.Text(), "\t"))
		}
	}
	if s.Err() != nil || len(rows) == 0 {
		t.Fatalf("%s: %d rows, error %v", name, len(rows), s.Err())
	}
	return rows
}

// Where leat's table says something else than Kafka's on purpose, with what leat says.
var deviations = map[string]string{
	"broker listeners default":                            "PLAINTEXT://localhost:9092", // nobody gets in from outside unasked
	"broker listeners readonly":                           "true",
	"broker listener.security.protocol.map default":       "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", // the peer's file sets it
	"broker listener.security.protocol.map readonly":      "true",
	"broker log.dirs default":                             "data",
	"broker node.id default":                              "1",
	"broker queued.max.request.bytes default":             "536870912", // memory is limited
	"broker max.connections readonly":                     "true",
	"broker max.connections.per.ip readonly":              "true",
	"broker num.recovery.threads.per.data.dir readonly":   "true",
	"broker log.cleaner.backoff.ms readonly":              "true",
	"broker log.cleaner.dedupe.buffer.size default":       "67108864", // the memory it may take is what it takes
	"broker log.cleaner.dedupe.buffer.size readonly":      "true",
	"broker log.cleaner.io.max.bytes.per.second readonly": "true",
}

// The names, defaults, types, read-only flags and synonyms of every key that leat shares with Kafka 4.4.0, as the real broker describes them.
func TestKeysLikeKafka(t *testing.T) {
	used := map[string]bool{}
	same := func(what, theirs, ours string) {
		t.Helper()
		if want, ok := deviations[what]; ok {
			used[what] = true
			theirs = want
		}
		if ours != theirs {
			t.Errorf("%s: Kafka %q, leat %q", what, theirs, ours)
		}
	}
	set := NewSet()
	topicValues, err := set.EffectiveTopic(nil)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]Value{}
	for _, v := range slices.Concat(set.Effective(), topicValues, set.EffectiveGroup(nil)) {
		values[v.Key.Scope.String()+" "+v.Key.Name] = v
	}
	for _, row := range golden(t, "configs_kafka_4.4.0.txt") {
		scope, name, def, typ, readonly, synonyms := row[0], row[1], row[2], row[3], row[4], row[5]
		v, ok := values[scope+" "+name]
		if !ok {
			notHere := scope == "group" && strings.Contains(hintForGroup(name), "groups are not there")
			if scope == "topic" || !notHere && !isForeign(name) && canonicalName(name) == name {
				t.Errorf("%s key %s of Kafka is neither known nor ignored", scope, name)
			}
			continue
		}
		at := scope + " " + name
		ours := v.Value
		if v.Null {
			ours = "<null>"
		}
		same(at+" default", def, ours)
		same(at+" type", typ, strconv.Itoa(int(v.Key.Type)))
		same(at+" readonly", readonly, strconv.FormatBool(!v.Key.Dynamic))
		if scope != "broker" {
			var list []string
			for _, s := range v.Synonyms {
				list = append(list, strconv.Itoa(int(s.Source.KafkaCode()))+":"+s.Name)
			}
			same(at+" synonyms", synonyms, strings.Join(list, ","))
		}
	}
	for d := range deviations {
		if !used[d] {
			t.Errorf("deviation %q is not one", d)
		}
	}
}

// Every value that Kafka 4.4.0 accepts or refuses for a topic key, tried on the real broker, has the same fate here.
func TestTopicValuesLikeKafka(t *testing.T) {
	unquoted := func(list []string) []string {
		out := make([]string, len(list))
		for i, q := range list {
			var err error
			if out[i], err = strconv.Unquote(q); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	rows := golden(t, "topic_values_kafka_4.4.0.txt")
	tried := unquoted(rows[0][1:])
	set := NewSet()
	for _, row := range rows[1:] {
		accepted := map[string]bool{}
		for _, v := range unquoted(row[1:]) {
			accepted[v] = true
		}
		if row[0] == "min.cleanable.dirty.ratio" {
			delete(accepted, "NaN") // not a number is not a ratio
		}
		for _, v := range tried {
			err := set.ValidateTopic(map[string]string{row[0]: v})
			if accepted[v] != (err == nil) {
				t.Errorf("%s=%q: Kafka accepts: %v, leat: %v", row[0], v, accepted[v], err)
			}
			if err != nil && !strings.Contains(err.Error(), row[0]) {
				t.Errorf("%s=%q: the error does not name the key: %v", row[0], v, err)
			}
		}
	}
}
