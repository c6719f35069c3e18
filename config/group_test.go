package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// groupSet is a set with broker keys from a file.
func groupSet(t *testing.T, kvs ...string) *Set {
	t.Helper()
	s := NewSet()
	for i := 0; i < len(kvs); i += 2 {
		if err := s.Override(kvs[i], kvs[i+1], File); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Broker(); err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	sessionKey    = "consumer.session.timeout.ms"
	heartbeatKey  = "consumer.heartbeat.interval.ms"
	assignmentKey = "consumer.assignment.interval.ms"
)

// Each value tried on a Kafka 4.4.0 with its default limits: accepted there, accepted here.
func TestGroupValuesLikeKafka(t *testing.T) {
	s := NewSet()
	for _, c := range []struct {
		key, value string
		ok         bool
	}{
		{sessionKey, "44999", false}, {sessionKey, "45000", true}, {sessionKey, "60000", true}, {sessionKey, "60001", false},
		{sessionKey, "abc", false}, {sessionKey, "", false}, {sessionKey, "-1", false}, {sessionKey, " 50000 ", true}, {sessionKey, "2147483648", false},
		{heartbeatKey, "4999", false}, {heartbeatKey, "5000", true}, {heartbeatKey, "15000", true}, {heartbeatKey, "15001", false},
		{heartbeatKey, "0", false}, {heartbeatKey, "abc", false}, {heartbeatKey, "", false}, {heartbeatKey, " 6000 ", true},
		{assignmentKey, "-1", false}, {assignmentKey, "0", true}, {assignmentKey, "15000", true}, {assignmentKey, "15001", false},
		{assignmentKey, "abc", false}, {assignmentKey, "", false}, {assignmentKey, " 6000 ", true},
		{"nosuch", "1", false}, {"", "1", false}, {"group.consumer.session.timeout.ms", "50000", false}, {"retention.ms", "50000", false},
	} {
		err := s.ValidateGroup(map[string]string{c.key: c.value})
		if (err == nil) != c.ok {
			t.Errorf("%s=%q: %v", c.key, c.value, err)
		}
		if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Key != c.key || !strings.Contains(e.Msg, c.key)) {
			t.Errorf("%s=%q: the error is %v", c.key, c.value, err)
		}
	}
}

// The session of a group must last longer than the way to the next heartbeat, whoever says how long either is.
func TestGroupSessionAboveHeartbeat(t *testing.T) {
	s := groupSet(t, "group.consumer.min.session.timeout.ms", "1000", "group.consumer.max.session.timeout.ms", "600000", "group.consumer.session.timeout.ms", "40000",
		"group.consumer.min.heartbeat.interval.ms", "100", "group.consumer.max.heartbeat.interval.ms", "300000")
	for _, c := range []struct {
		session, heartbeat string
		ok                 bool
	}{
		{"20000", "20000", false}, {"20000", "30000", false}, {"20000", "19999", true}, {"", "40000", false}, {"", "39999", true}, {"3000", "", false}, {"3000", "200", true},
	} {
		own := map[string]string{}
		if c.session != "" {
			own[sessionKey] = c.session
		}
		if c.heartbeat != "" {
			own[heartbeatKey] = c.heartbeat
		}
		if err := s.ValidateGroup(own); (err == nil) != c.ok {
			t.Errorf("%v: %v", own, err)
		}
	}
}

// Where values come from, as a Kafka 4.4.0 tells it: the group's own first, then the broker key's places.
func TestGroupSynonyms(t *testing.T) {
	s := groupSet(t, "group.consumer.assignment.interval.ms", "500")
	var got []string
	for _, v := range s.EffectiveGroup(map[string]string{sessionKey: " 50000 ", "of.another.version": "1", heartbeatKey: "not for this version"}) {
		line := fmt.Sprintf("%s=%s from %d:", v.Key.Name, v.Value, v.Source.KafkaCode())
		for _, y := range v.Synonyms {
			line += fmt.Sprintf(" %d:%s=%s", y.Source.KafkaCode(), y.Name, y.Value)
		}
		got = append(got, line)
	}
	want := []string{
		"consumer.assignment.interval.ms=500 from 4: 4:group.consumer.assignment.interval.ms=500 5:group.consumer.assignment.interval.ms=1000",
		"consumer.heartbeat.interval.ms=5000 from 5: 5:group.consumer.heartbeat.interval.ms=5000",
		"consumer.session.timeout.ms=50000 from 8: 8:consumer.session.timeout.ms=50000 5:group.consumer.session.timeout.ms=45000",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A value that is out of the limits of today is shown as it was set and obeyed as far as they allow: a Kafka 4.4.0 whose limits were narrowed told members of
// two such groups 5000 and 15000.
func TestGroupClamped(t *testing.T) {
	s := groupSet(t)
	own := map[string]string{sessionKey: "3000", heartbeatKey: "700", assignmentKey: "99999"}
	if got, want := s.Group(own), (Group{45000, 5000, 15000}); got != want {
		t.Errorf("too low: %+v, want %+v", got, want)
	}
	if got := s.Group(map[string]string{sessionKey: "500000", heartbeatKey: "120000"}); got != (Group{60000, 15000, 1000}) {
		t.Errorf("too high: %+v", got)
	}
	if v := s.EffectiveGroup(own)[1]; v.Key.Name != heartbeatKey || v.Value != "700" || v.Source != GroupOverride {
		t.Errorf("shown: %+v", v)
	}
	if s.ValidateGroup(own) == nil {
		t.Error("values out of the limits may be set")
	}
	// Moved to the limits, they no longer go together: the session would be over before the heartbeat is due.
	odd := groupSet(t, "group.consumer.min.session.timeout.ms", "1000", "group.consumer.max.session.timeout.ms", "45000", "group.consumer.min.heartbeat.interval.ms", "4000")
	if got := odd.Group(map[string]string{sessionKey: "3000", heartbeatKey: "200"}); got != (Group{45000, 5000, 1000}) {
		t.Errorf("values that do not go together: %+v", got)
	}
}

// What a Kafka 4.4.0 does not start with, this broker does not either.
func TestGroupLimitsOfTheBroker(t *testing.T) {
	for _, c := range []struct {
		kvs string
		key string // of the error
	}{
		{"group.consumer.min.session.timeout.ms=50000", "group.consumer.session.timeout.ms"},
		{"group.consumer.session.timeout.ms=70000", "group.consumer.session.timeout.ms"},
		{"group.consumer.session.timeout.ms=6000", "group.consumer.session.timeout.ms"},
		{"group.consumer.max.session.timeout.ms=100", "group.consumer.max.session.timeout.ms"},
		{"group.consumer.session.timeout.ms=5000 group.consumer.min.session.timeout.ms=5000", "group.consumer.session.timeout.ms"},
		{"group.consumer.session.timeout.ms=5001 group.consumer.min.session.timeout.ms=5001", ""},
		{"group.consumer.max.heartbeat.interval.ms=4000", "group.consumer.max.heartbeat.interval.ms"},
		{"group.consumer.heartbeat.interval.ms=16000", "group.consumer.heartbeat.interval.ms"},
		{"group.consumer.heartbeat.interval.ms=60000 group.consumer.max.heartbeat.interval.ms=60000", "group.consumer.session.timeout.ms"},
		{"group.consumer.assignment.interval.ms=20000", "group.consumer.assignment.interval.ms"},
		{"group.consumer.min.assignment.interval.ms=5000", "group.consumer.assignment.interval.ms"},
	} {
		s := NewSet()
		for kv := range strings.FieldsSeq(c.kvs) {
			k, v, _ := strings.Cut(kv, "=")
			if err := s.Override(k, v, File); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.Broker()
		if e, ok := errors.AsType[*Error](err); (err != nil) != (c.key != "") || err != nil && (!ok || e.Key != c.key || !strings.HasPrefix(e.Msg, c.key)) {
			t.Errorf("%s: %v", c.kvs, err)
		}
	}
	if err := NewSet().Override("group.consumer.min.heartbeat.interval.ms", "0", File); err == nil {
		t.Error("no time at all between two heartbeats is accepted")
	}
	if err := NewSet().ValidateDynamic(DynamicDefault, map[string]string{"group.consumer.assignment.interval.ms": "15001"}); err == nil {
		t.Error("a value out of the limits can be set at run time")
	}
}

func TestGroupKeyHints(t *testing.T) {
	for name, want := range map[string]string{
		"share.session.timeout.ms":          "share groups",
		"errors.deadletterqueue.topic.name": "share groups",
		"streams.session.timeout.ms":        "streams groups",
		"group.consumer.session.timeout.ms": "the group key is consumer.session.timeout.ms",
		"consumer.sesion.timeout.ms":        "did you mean consumer.session.timeout.ms",
	} {
		if err := NewSet().ValidateGroup(map[string]string{name: "1"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := NewSet().Override(sessionKey, "50000", File); err == nil || !strings.Contains(err.Error(), "the broker key that sets it for all groups is group.consumer.session.timeout.ms") {
		t.Errorf("as a broker key: %v", err)
	}
	if k, ok := Lookup(GroupScope, sessionKey); !ok || k.Scope != GroupScope || !k.Dynamic || k.Default != "45000" {
		t.Errorf("Lookup: %+v, %v", k, ok)
	}
}
