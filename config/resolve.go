package config

import (
	"fmt"
	"maps"
	"slices"
)

// in returns what a layer says about a broker key, under its own name or the other one.
func (l *layers) in(source Source, k *brokerKey) (raw string, ok bool) {
	if raw, ok = l[source][k.Name]; !ok && k.alias != "" {
		raw, ok = l[source][k.alias]
	}
	return raw, ok
}

// resolve returns a broker key's value and source. Values in layers parse: Set sees to it.
func (l *layers) resolve(k *brokerKey) (value, Source) {
	for _, source := range strongestFirst {
		if raw, ok := l.in(source, k); ok {
			return k.must(raw), source
		}
	}
	if k.Nullable {
		return value{null: true}, Default
	}
	return k.must(k.Default), Default
}

func (k *Key) must(raw string) value {
	v, err := k.parse(raw)
	if err != nil {
		panic("BUG: unchecked config value: " + err.Error())
	}
	return v
}

// synonyms lists every layer that has a broker key, strongest first, its default last.
func (l *layers) synonyms(k *brokerKey) []Synonym {
	var list []Synonym
	for _, source := range strongestFirst {
		if raw, ok := l.in(source, k); ok {
			if v := k.must(raw); !v.null {
				list = append(list, Synonym{k.Name, k.print(v), source})
			}
		}
	}
	if !k.Nullable {
		list = append(list, Synonym{k.Name, k.print(k.must(k.Default)), Default})
	}
	return list
}

func (l *layers) effective(k *brokerKey) Value {
	v, source := l.resolve(k)
	return Value{Key: k.Key, Value: k.print(v), Null: v.null, Source: source, Synonyms: l.synonyms(k)}
}

// broker builds the typed configuration and checks what single values cannot show.
func (l *layers) broker() (*Broker, error) {
	b := new(Broker)
	for i := range brokerKeys {
		if k := &brokerKeys[i]; k.set != nil {
			v, _ := l.resolve(k)
			k.set(b, v)
		}
	}
	named := func(name string) value {
		v, _ := l.resolve(brokerByName[name])
		return v
	}
	err := b.setListeners(named("listeners").list, named("advertised.listeners").list, named("controller.listener.names").list,
		named("listener.security.protocol.map").s)
	if err != nil {
		return nil, err
	}
	if len(b.LogDirs) == 0 {
		return nil, &Error{Key: "log.dirs", Msg: "log.dirs: there is no directory; expected at least one"}
	}
	if err := b.setMetricsListener(); err != nil {
		return nil, err
	}
	if err := l.checkGroups(); err != nil {
		return nil, err
	}
	topic, err := l.topic(nil)
	if err != nil {
		return nil, err
	}
	b.TopicDefaults = *topic
	return b, nil
}

// topicDefault returns the value of a topic key without an override. Its source is that of the first link of the chain with a value.
func (l *layers) topicDefault(k *topicKey) (value, Source) {
	for _, link := range k.chain {
		if v, source := l.resolve(brokerByName[link.broker]); !v.null {
			return v.scaled(link.times), source
		}
	}
	return k.must(k.Default), Default
}

// topic builds a topic's typed configuration.
func (l *layers) topic(overrides map[string]string) (*Topic, error) {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if topicByName[name] == nil {
			return nil, unknownKey(TopicScope, name)
		}
	}
	t := new(Topic)
	for i := range topicKeys {
		k := &topicKeys[i]
		v, _ := l.topicDefault(k)
		if raw, ok := overrides[k.Name]; ok {
			var err error
			if v, err = k.parse(raw); err != nil {
				return nil, err
			}
		}
		k.set(t, v)
	}
	return t, t.check()
}

// check holds what single values cannot show, as Kafka demands it.
func (t *Topic) check() error {
	if t.MinCompactionLagMs > t.MaxCompactionLagMs {
		return &Error{Key: "min.compaction.lag.ms", Msg: fmt.Sprintf("min.compaction.lag.ms: %d is above max.compaction.lag.ms, which is %d", t.MinCompactionLagMs, t.MaxCompactionLagMs)}
	}
	if t.RemoteStorageEnable {
		return &Error{Key: "remote.storage.enable", Msg: "remote.storage.enable: leat has no tiered storage; expected false"}
	}
	return nil
}

// effectiveTopic lists, like Kafka, the topic's own value and then the places of the first link of the chain. Later links (log.retention.hours)
// are shown only when somebody set them: their defaults would look like a second opinion.
func (l *layers) effectiveTopic(k *topicKey, overrides map[string]string) Value {
	v, source := l.topicDefault(k)
	var list []Synonym
	if raw, ok := overrides[k.Name]; ok {
		v, source = k.must(raw), TopicOverride
		list = append(list, Synonym{k.Name, raw, TopicOverride})
	}
	for i, link := range k.chain {
		for _, s := range l.synonyms(brokerByName[link.broker]) {
			if i == 0 || s.Source != Default {
				list = append(list, s)
			}
		}
	}
	shown := k.print(v)
	if source == TopicOverride {
		shown = overrides[k.Name] // as it was set: tools that compare what they set with what they see would set it again for ever
	}
	return Value{Key: k.Key, Value: shown, Source: source, Synonyms: list}
}
