package config

// Scope says what a key configures. The same name may exist in both scopes (min.insync.replicas): the broker's is the topic's default.
type Scope uint8

const (
	BrokerScope Scope = iota
	TopicScope
)

// Type is a key's type, with the numbers of DescribeConfigs v3+.
type Type uint8

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

const (
	Default        Source = iota
	File                  // the file given with --config
	Flag                  // the command line
	DynamicDefault        // set at run time for all brokers
	DynamicBroker         // set at run time for this broker
	TopicOverride         // set on the topic
)

// Key describes one configuration key.
type Key struct {
	Name      string
	Scope     Scope
	Type      Type
	Default   string // as it would be written in a file; "" may also mean "not set": see Nullable
	Nullable  bool   // no value is a value: DescribeConfigs shows null
	Doc       string
	BrokerKey string // topic keys: the broker key that gives the default; "" = none
	Dynamic   bool   // broker keys: may be changed while the broker runs. Topic keys always may
	Sensitive bool   // the value is never shown
	Values    []string
	Min, Max  int64 // Int, Short, Long; both 0 = the whole range of the type
}

// Value is one key's effective value.
type Value struct {
	Key      Key
	Value    string
	Null     bool // no value
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

// Keys returns every key, brokers first, each scope in order of name.
func Keys() []Key { panic("stub") }

// Lookup finds a key by scope and name.
func Lookup(scope Scope, name string) (Key, bool) { panic("stub") }

// Nearest returns the known key of a scope whose name is closest to name; "" when nothing is near.
func Nearest(scope Scope, name string) string { panic("stub") }

// KafkaCode is the number of the source in DescribeConfigs.
func (s Source) KafkaCode() int8 { panic("stub") }

// String names the source for people.
func (s Source) String() string { panic("stub") }
