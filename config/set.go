package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Set is a broker's configuration in layers. Safe for use by several goroutines.
//
// Invariant: every value in a layer parses under its key. What only shows when values meet (listeners) is checked by Broker.
type Set struct {
	mu struct {
		sync.RWMutex
		layers   layers
		warnings []string
	}
}

// layers holds values as they were given, by source and by the name they were given under. Default and TopicOverride stay empty; groups have no layer.
type layers [TopicOverride + 1]map[string]string

// strongestFirst are the sources a broker key can have besides its default.
var strongestFirst = [...]Source{DynamicBroker, DynamicDefault, Flag, File}

// NewSet returns a set with nothing but defaults.
func NewSet() *Set { return new(Set) }

// LoadFile reads a Java properties file, such as Kafka's server.properties, into the File layer. Keys of Kafka that mean nothing to leat become
// warnings; unknown keys and wrong values are errors that name file and line.
func (s *Set) LoadFile(path string) error {
	list, err := readProperties(path)
	if err != nil {
		return err
	}
	seen := map[string]int{}
	for _, p := range list {
		if before, ok := seen[p.Name]; ok {
			s.warn(fmt.Sprintf("%s: %s is set in line %d and again in line %d: the last one counts", path, p.Name, before, p.Line))
		}
		seen[p.Name] = p.Line
		if err := s.Override(p.Name, p.Value, File); err != nil {
			return fmt.Errorf("%s:%d: %w", path, p.Line, err)
		}
	}
	return nil
}

// Override sets one broker key in a layer (File, Flag, DynamicDefault or DynamicBroker). Errors are *Error.
func (s *Set) Override(name, raw string, source Source) error {
	if source == Default || source >= TopicOverride {
		panic("BUG: config source " + source.String() + " cannot be overridden")
	}
	name = strings.TrimSpace(name)
	warning, err := checkBrokerValue(name, raw)
	if err != nil {
		return err
	}
	if warning != "" {
		s.warn(warning)
		return nil
	}
	if brokerByName[canonicalName(name)].NoEffect {
		s.warn(fmt.Sprintf("%s has no effect in leat", name))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.layers[source] == nil {
		s.mu.layers[source] = map[string]string{}
	}
	s.mu.layers[source][name] = raw
	return nil
}

// checkBrokerValue says whether a broker key may have a value: a warning when it may but nothing comes of it.
func checkBrokerValue(name, raw string) (warning string, err error) {
	k := brokerByName[canonicalName(name)]
	if k == nil {
		return checkForeign(name, raw)
	}
	if _, err := k.parse(raw); err != nil {
		return "", err
	}
	return "", nil
}

// canonicalName is the name of a key that may also be called otherwise.
func canonicalName(name string) string {
	for i := range brokerKeys {
		if brokerKeys[i].alias == name && name != "" {
			return brokerKeys[i].Name
		}
	}
	return name
}

func (s *Set) warn(w string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.mu.warnings, w) {
		s.mu.warnings = append(s.mu.warnings, w)
	}
}

// Warnings returns sentences about what was accepted and has no effect, in the order it was met.
func (s *Set) Warnings() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.mu.warnings)
}

// SetDynamic replaces a dynamic layer (DynamicDefault or DynamicBroker) as a whole, with the values of the metadata image. A value that was accepted when
// it was set and is not now, because this is another version or because the file has other limits, is left out and returned as the error, so that one bad
// value does not take the others along.
func (s *Set) SetDynamic(source Source, values map[string]string) error {
	if source != DynamicDefault && source != DynamicBroker {
		panic("BUG: " + source.String() + " is not a dynamic config source")
	}
	kept := map[string]string{}
	var first error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := checkDynamic(name, values[name]); err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		kept[name] = values[name]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.layers
	if err := l.fit(source, kept); first == nil {
		first = err
	}
	s.mu.layers = l
	return first
}

// fit makes values a layer, without those that do not go together with the rest.
func (l *layers) fit(source Source, values map[string]string) (first error) {
	l[source] = nil
	_, without := l.broker()
	l[source] = values
	if _, err := l.broker(); err == nil || without != nil { // without: the values are not to blame
		return nil
	}
	l[source] = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		l[source][name] = values[name]
		if _, err := l.broker(); err != nil {
			delete(l[source], name)
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// ValidateDynamic says whether these broker values, and no others, may be set at run time in a dynamic layer. Errors are *Error.
func (s *Set) ValidateDynamic(source Source, values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := checkDynamic(name, values[name]); err != nil {
			return err
		}
	}
	next := s.snapshot()
	next[source] = values
	_, err := next.broker()
	return err
}

func checkDynamic(name, raw string) error {
	k := brokerByName[name]
	if k == nil {
		if isForeign(name) {
			return &Error{Key: name, Msg: fmt.Sprintf("%s is a key of Kafka without an effect in leat: it cannot be set", name)}
		}
		return unknownKey(BrokerScope, name)
	}
	if !k.Dynamic {
		return &Error{Key: name, Msg: fmt.Sprintf("%s cannot be changed while the broker runs: change it in the configuration file and restart", name)}
	}
	_, err := k.parse(raw)
	return err
}

// snapshot copies the layers.
func (s *Set) snapshot() layers {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l := s.mu.layers
	for i := range l {
		l[i] = maps.Clone(l[i])
	}
	return l
}

// Effective returns every broker key's effective value in order of name.
func (s *Set) Effective() []Value {
	l := s.snapshot()
	values := make([]Value, 0, len(brokerKeys))
	for i := range brokerKeys {
		values = append(values, l.effective(&brokerKeys[i]))
	}
	slices.SortFunc(values, func(a, b Value) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	return values
}

// Broker returns the typed configuration of now. Errors are *Error.
func (s *Set) Broker() (*Broker, error) {
	l := s.snapshot()
	return l.broker()
}

// Topic returns the typed configuration of a topic with these overrides. Errors are *Error.
func (s *Set) Topic(overrides map[string]string) (*Topic, error) {
	l := s.snapshot()
	return l.topic(overrides)
}

// ValidateTopic says whether a topic may have these overrides. Errors are *Error.
func (s *Set) ValidateTopic(overrides map[string]string) error {
	_, err := s.Topic(overrides)
	return err
}

// EffectiveTopic returns every topic key's effective value in order of name. Errors are *Error.
func (s *Set) EffectiveTopic(overrides map[string]string) ([]Value, error) {
	l := s.snapshot()
	if _, err := l.topic(overrides); err != nil {
		return nil, err
	}
	values := make([]Value, 0, len(topicKeys))
	for i := range topicKeys {
		values = append(values, l.effectiveTopic(&topicKeys[i], overrides))
	}
	slices.SortFunc(values, func(a, b Value) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	return values, nil
}
