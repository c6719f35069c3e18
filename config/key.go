package config

import (
	"slices"
	"strings"
)

// Scope says what a key configures. The same name may exist in both scopes (min.insync.replicas): the broker's is the topic's default.
type Scope uint8

// The scopes.
const (
	BrokerScope Scope = iota
	TopicScope
	GroupScope
)

func (s Scope) String() string { return [...]string{"broker", "topic", "group"}[s] }

// Type is a key's type, with the numbers of DescribeConfigs v3+.
type Type uint8

// Kafka's types.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// Source is where a value comes from, weakest first: a later source wins over an earlier one.
type Source uint8

// The sources, weakest first.
const (
	Default        Source = iota
	File                  // the file given with --config
	Flag                  // the command line
	DynamicDefault        // set at run time for all brokers
	DynamicBroker         // set at run time for this broker
	TopicOverride         // set on the topic
	GroupOverride         // set on the group
)

// String names the source as `leat config` shows it.
func (s Source) String() string {
	return [...]string{"default", "file", "flag", "dynamic default", "dynamic broker", "topic", "group"}[s]
}

// KafkaCode is the number of the source in DescribeConfigs: file and flag are both its "static broker".
func (s Source) KafkaCode() int8 {
	return [...]int8{5, 4, 4, 3, 2, 1, 8}[s]
}

// Key describes one configuration key.
type Key struct {
	Name      string
	Scope     Scope
	Type      Type
	Default   string // as it would be written in a file
	Nullable  bool   // broker keys: may be not set at all, and is not by default; DescribeConfigs shows null
	Doc       string
	BrokerKey string // topic and group keys: the broker key that gives the default first; "" = none
	Dynamic   bool   // may be changed while the broker runs; true for every topic and group key
	Sensitive bool   // the value is never shown
	NoEffect  bool   // accepted for the sake of Kafka's files: setting it gives a warning
	Values    []string
	AnyCase   bool    // of Values
	Min, Max  int64   // limits of Int, Short, Long and Double
	holes     []int64 // numbers between them that are not allowed
}

// Value is one key's effective value.
type Value struct {
	Key      Key
	Value    string // as Kafka would print it
	Null     bool   // there is no value
	Source   Source
	Synonyms []Synonym // every place that gives a value, strongest first, as DescribeConfigs lists them
}

// Synonym is one of the places a value could come from.
type Synonym struct {
	Name   string
	Value  string
	Source Source
}

// Error is a configuration that cannot be used, said so that the reader can fix it.
type Error struct {
	Key string
	Msg string // a whole sentence, naming the key
}

func (e *Error) Error() string { return e.Msg }

// tables are the key tables by name; the topics' rows are completed from the broker's (default, Dynamic, BrokerKey).
var (
	brokerByName = indexBrokerKeys()
	topicByName  = indexTopicKeys()
)

func indexBrokerKeys() map[string]*brokerKey {
	m := make(map[string]*brokerKey, len(brokerKeys))
	for i := range brokerKeys {
		m[brokerKeys[i].Name] = &brokerKeys[i]
	}
	return m
}

func indexTopicKeys() map[string]*topicKey {
	m := make(map[string]*topicKey, len(topicKeys))
	for i := range topicKeys {
		k := &topicKeys[i]
		k.Scope, k.Dynamic = TopicScope, true
		if len(k.chain) > 0 {
			k.BrokerKey = k.chain[0].broker
			k.Default = chainDefault(k)
		}
		m[k.Name] = k
	}
	return m
}

// chainDefault is what a topic key is when nothing is set anywhere.
func chainDefault(k *topicKey) string {
	for _, l := range k.chain {
		b := brokerByName[l.broker]
		if b.Nullable {
			continue
		}
		v, err := b.parse(b.Default)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return b.print(v.scaled(l.times))
	}
	panic("BUG: no link of " + k.Name + " has a default")
}

// Keys returns every key, brokers first, then topics, then groups, each scope in order of name.
func Keys() []Key {
	keys := make([]Key, 0, len(brokerKeys)+len(topicKeys)+len(groupKeys))
	for i := range brokerKeys {
		keys = append(keys, brokerKeys[i].Key)
	}
	for i := range topicKeys {
		keys = append(keys, topicKeys[i].Key)
	}
	for i := range groupKeys {
		keys = append(keys, groupKeys[i].Key)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		if a.Scope != b.Scope {
			return int(a.Scope) - int(b.Scope)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return keys
}

// Lookup finds a key by scope and name.
func Lookup(scope Scope, name string) (Key, bool) {
	switch scope {
	case TopicScope:
		if k := topicByName[name]; k != nil {
			return k.Key, true
		}
	case GroupScope:
		if k := groupByName[name]; k != nil {
			return k.Key, true
		}
	default:
		if k := brokerByName[name]; k != nil {
			return k.Key, true
		}
	}
	return Key{}, false
}
