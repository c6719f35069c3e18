// Package config knows every broker and topic key once: Kafka's name, type, default, limits and meaning.
package config

import "sync"

// Set is a broker's configuration in layers. Safe for use by several goroutines.
type Set struct {
	mu struct {
		sync.RWMutex
	}
}

// NewSet returns a set with nothing but defaults.
func NewSet() *Set { return new(Set) }

// LoadFile reads a Java properties file into the File layer.
func (s *Set) LoadFile(path string) error { panic("stub") }

// Override sets one broker key in a layer.
func (s *Set) Override(name, value string, source Source) error { panic("stub") }

// SetDynamic replaces a dynamic layer (DynamicDefault or DynamicBroker) as a whole.
func (s *Set) SetDynamic(source Source, values map[string]string) error { panic("stub") }

// Warnings returns sentences about what was accepted and has no effect.
func (s *Set) Warnings() []string { panic("stub") }

// Effective returns every broker key's effective value in order of name.
func (s *Set) Effective() []Value { panic("stub") }

// Broker returns the typed configuration of now.
func (s *Set) Broker() (*Broker, error) { panic("stub") }

// Topic returns the typed configuration of a topic with these overrides.
func (s *Set) Topic(overrides map[string]string) (*Topic, error) { panic("stub") }

// EffectiveTopic returns every topic key's effective value in order of name.
func (s *Set) EffectiveTopic(overrides map[string]string) ([]Value, error) { panic("stub") }

// ValidateTopic says whether a topic may have these overrides.
func (s *Set) ValidateTopic(overrides map[string]string) error { panic("stub") }

// ValidateDynamic says whether these broker values may be set at run time (source DynamicDefault or DynamicBroker).
func (s *Set) ValidateDynamic(source Source, values map[string]string) error { panic("stub") }
