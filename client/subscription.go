package client

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/leatmq/leat/protocol"
)

// subscription is what a consumer subscribes to: topics by name, or by a pattern. It does not change once it is made; a nil one is none.
type subscription struct {
	byName  []string
	pattern *regexp.Regexp
}

// names says whether a topic is subscribed to by its name.
func (s *subscription) names(topic string) bool { return s != nil && slices.Contains(s.byName, topic) }

// Subscribe makes topics those that are read, in place of what was subscribed to or assigned before: with a group shared with its other members, else all their partitions, also those that are
// added later. A topic that does not exist (yet) is an error of Poll and read when it is there. Errors: *ConfigError, ErrClosed.
func (r *Consumer) Subscribe(topics ...string) error {
	if len(topics) == 0 {
		return &ConfigError{"Subscribe", "is told no topics: Unsubscribe ends a subscription"}
	}
	for _, t := range topics {
		if t == "" {
			return &ConfigError{"Subscribe", "is told of a topic without a name"}
		}
	}
	names := slices.Clone(topics)
	slices.Sort(names)
	return r.subscribe(&subscription{byName: slices.Compact(names)})
}

// SubscribePattern is Subscribe for all topics, also those to come, whose whole name matches a regular expression (of package regexp). Internal topics never do.
func (r *Consumer) SubscribePattern(pattern string) error {
	p, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return &ConfigError{"SubscribePattern", fmt.Sprintf("is told a pattern that is none: %v", err)}
	}
	return r.subscribe(&subscription{pattern: p})
}

// Unsubscribe gives up all partitions, however they came, and leaves the group at the next Poll.
func (r *Consumer) Unsubscribe() error { return r.subscribe(nil) }

// topics are those of a cluster that are subscribed to and exist, in order.
func (s *subscription) topics(cl *cluster) (names []string) {
	if s == nil {
		return nil
	}
	if s.pattern == nil {
		for _, name := range s.byName {
			if t := cl.topics[name]; t != nil && t.err == nil {
				names = append(names, name)
			}
		}
		return names
	}
	for name, t := range cl.topics {
		if !t.internal && t.err == nil && s.pattern.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// joinTopics are those that a member of a group says it subscribes to: names whether they exist or not.
func (s *subscription) joinTopics(cl *cluster) []string {
	if s != nil && s.pattern == nil {
		return s.byName
	}
	return s.topics(cl)
}

// follow keeps what is known of the topics fresh (+1), or no longer (-1).
func (s *subscription) follow(m *metadata, n int) {
	switch {
	case s == nil:
	case s.pattern != nil:
		m.wantAll(n)
	default:
		for _, name := range s.byName {
			if n > 0 {
				m.want(name)
			} else {
				m.unwant(name)
			}
		}
	}
}

// missing is an error for the first topic of a cluster that is subscribed to by name and does not exist, or must not be read.
func (s *subscription) missing(cl *cluster, servers string) error {
	if s == nil || cl.err != nil {
		return nil
	}
	for _, name := range s.byName {
		switch t := cl.topics[name]; {
		case t == nil || t.err == nil || Retriable(t.err) && Code(t.err) != protocol.UnknownTopicOrPartition:
		case Code(t.err) == protocol.UnknownTopicOrPartition:
			return &UnknownTopicError{name, servers}
		default:
			return t.err
		}
	}
	return nil
}
