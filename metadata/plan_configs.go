package metadata

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/leatmq/leat/config"
)

// Bounds of what groups may have: any client can set configs of groups that nobody uses.
const (
	configuredGroupsMax = 100_000
	groupIDBytesMax     = 32767 // what a string of Kafka's protocol holds
)

// alterConfigs plans an AlterConfigsRequest. The result's order is the request's.
func (c *controller) alterConfigs(image *Image, r AlterConfigsRequest) ([]Record, []ConfigResult) {
	type resource struct {
		kind ResourceType
		name string
	}
	times := map[resource]int{}
	for _, rc := range r.Resources {
		times[resource{rc.Type, rc.Name}]++
	}
	var records []Record
	results := make([]ConfigResult, len(r.Resources))
	for n := range r.Resources {
		rc := &r.Resources[n]
		results[n] = ConfigResult{Type: rc.Type, Name: rc.Name}
		if times[resource{rc.Type, rc.Name}] > 1 {
			results[n].Err = errorf(InvalidRequest, "Each resource must appear at most once.")
			continue
		}
		more, err := c.alterResource(image, rc)
		if err == nil && len(records)+len(more) > recordsPerRequestMax {
			err = excessive()
		}
		if err != nil {
			results[n].Err = err
			continue
		}
		records = append(records, more...)
	}
	if r.ValidateOnly {
		return nil, results
	}
	return records, results
}

// alterResource is the records that change the configs of one resource.
func (c *controller) alterResource(image *Image, rc *ResourceConfig) ([]Record, *Error) {
	old, err := resourceConfig(image, rc)
	if err != nil {
		return nil, err
	}
	next, err := c.applyChanges(old, rc)
	if err != nil {
		return nil, err
	}
	if err := c.validate(rc, old, next); err != nil {
		return nil, err
	}
	if rc.Type == GroupResource && len(old) == 0 && len(next) > 0 && image.groups.n >= configuredGroupsMax {
		return nil, errorf(PolicyViolation, "%d groups have configs already: no other can have any.", image.groups.n)
	}
	return configRecords(rc, old, next), nil
}

// resourceConfig is the present configs of a resource that must exist; groups need not.
func resourceConfig(image *Image, rc *ResourceConfig) (map[string]string, *Error) {
	switch rc.Type {
	case TopicResource:
		if err := ValidateTopicName(rc.Name); err != nil {
			return nil, err
		}
		t := image.Topic(rc.Name)
		if t == nil {
			return nil, errorf(UnknownTopic, "The topic '%s' does not exist.", rc.Name)
		}
		return t.Config, nil
	case BrokerResource:
		if rc.Name == "" {
			return image.BrokerConfig(""), nil
		}
		id, err := strconv.ParseInt(rc.Name, 10, 32)
		if err != nil {
			return nil, errorf(InvalidRequest, "Broker id must be an integer, but it is: %s", rc.Name)
		}
		if image.Broker(int32(id)) == nil || strconv.Itoa(int(id)) != rc.Name {
			return nil, errorf(InvalidRequest, "No broker with id %s is registered.", rc.Name)
		}
		return image.BrokerConfig(rc.Name), nil
	case GroupResource:
		if rc.Name == "" {
			return nil, errorf(InvalidRequest, "Default group resources are not allowed.")
		}
		if len(rc.Name) > groupIDBytesMax {
			return nil, errorf(InvalidRequest, "The id of a group has %d bytes: allowed are %d.", len(rc.Name), groupIDBytesMax)
		}
		return image.GroupConfig(rc.Name), nil
	}
	return nil, errorf(InvalidRequest, "Configs of resource type %d are not supported.", rc.Type)
}

// applyChanges is the configs after the operations; neither argument is changed.
func (c *controller) applyChanges(old map[string]string, rc *ResourceConfig) (map[string]string, *Error) {
	next := cloneMap(old)
	if rc.Replace {
		next = map[string]string{}
	}
	seen := make(map[string]bool, len(rc.Changes))
	for _, ch := range rc.Changes {
		if seen[ch.Name] {
			return nil, errorf(InvalidRequest, "Error due to duplicate config keys: %s", ch.Name)
		}
		seen[ch.Name] = true
		if err := checkLength(ch.Name, ch.Value); err != nil {
			return nil, err
		}
		if rc.Replace {
			if ch.Null {
				return nil, errorf(InvalidRequest, "Null value not supported for: %s", ch.Name)
			}
			next[ch.Name] = ch.Value
			continue
		}
		if err := c.applyChange(next, rc.Type, ch); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// checkLength refuses what no record can hold before anybody looks into it.
func checkLength(name, value string) *Error {
	if len(name) > stringBytesMax || len(value) > stringBytesMax {
		return errorf(InvalidRequest, "A config has a name of %d bytes and a value of %d: allowed are %d each.", len(name), len(value), stringBytesMax)
	}
	return nil
}

func (c *controller) applyChange(next map[string]string, kind ResourceType, ch ConfigChange) *Error {
	if ch.Null && ch.Op != OpDelete {
		return errorf(InvalidRequest, "Null value not supported for: %s", ch.Name)
	}
	switch ch.Op {
	case OpSet:
		next[ch.Name] = ch.Value
	case OpDelete:
		delete(next, ch.Name)
	case OpAppend, OpSubtract:
		key, ok := config.Lookup(scopeOf(kind), ch.Name)
		if !ok || key.Type != config.List {
			return errorf(InvalidConfig, "Can't %s to key %s because its type is not LIST.", opVerb(ch.Op), ch.Name)
		}
		value, ok := next[ch.Name]
		if !ok {
			value = c.listDefault(key)
		}
		next[ch.Name] = changeList(value, ch.Value, ch.Op)
	default:
		return errorf(KindUnknown, "Unknown operation type %d.", ch.Op)
	}
	return nil
}

func opVerb(op ConfigOp) string {
	if op == OpAppend {
		return "append"
	}
	return "subtract"
}

func scopeOf(kind ResourceType) config.Scope {
	switch kind {
	case TopicResource:
		return config.TopicScope
	case GroupResource:
		return config.GroupScope
	}
	return config.BrokerScope
}

// listDefault is the value a list has when a resource does not set it.
func (c *controller) listDefault(key config.Key) string {
	if e, ok := c.rules.(interface {
		EffectiveTopic(map[string]string) ([]config.Value, error)
	}); ok && key.Scope == config.TopicScope {
		values, _ := e.EffectiveTopic(nil)
		for _, v := range values {
			if v.Key.Name == key.Name {
				return v.Value
			}
		}
	}
	return key.Default
}

// changeList adds the parts of change to a comma separated list, or takes them away.
func changeList(list, change string, op ConfigOp) string {
	parts, changes, named := splitList(list), splitList(change), map[string]bool{}
	if op == OpSubtract {
		for _, p := range changes {
			named[p] = true
		}
		return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return named[p] }), ",")
	}
	for _, p := range parts {
		named[p] = true
	}
	for _, p := range changes {
		if !named[p] {
			named[p] = true
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ",")
}

func splitList(s string) []string {
	var parts []string
	for p := range strings.SplitSeq(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}

// validate says whether a resource may have the configs next. What it has already is not held against it: a value that became
// invalid with a new version must not make all other changes impossible.
func (c *controller) validate(rc *ResourceConfig, old, next map[string]string) *Error {
	switch rc.Type {
	case TopicResource:
		if err := c.rules.ValidateTopic(next); err != nil && (c.rules.ValidateTopic(old) == nil || setsSomething(old, next)) {
			return errorf(InvalidConfig, "%s", err.Error())
		}
	case GroupResource:
		if err := c.rules.ValidateGroup(next); err != nil && (c.rules.ValidateGroup(old) == nil || setsSomething(old, next)) {
			return errorf(InvalidConfig, "%s", err.Error())
		}
	default:
		source := config.DynamicBroker
		if rc.Name == "" {
			source = config.DynamicDefault
		}
		if err := c.rules.ValidateDynamic(source, next); err != nil && (c.rules.ValidateDynamic(source, old) == nil || setsSomething(old, next)) {
			return errorf(InvalidRequest, "%s", err.Error())
		}
	}
	return nil
}

// setsSomething says that next has a value that old has not.
func setsSomething(old, next map[string]string) bool {
	for k, v := range next {
		if was, ok := old[k]; !ok || was != v {
			return true
		}
	}
	return false
}

// configRecords are the records that turn old into next.
func configRecords(rc *ResourceConfig, old, next map[string]string) []Record {
	all := cloneMap(old)
	maps.Copy(all, next)
	var records []Record
	for _, key := range sortedNames(all) {
		was, had := old[key]
		value, has := next[key]
		if had == has && was == value {
			continue
		}
		records = append(records, ConfigRecord{Resource: rc.Type, Name: rc.Name, Key: key, Value: value, Delete: !has})
	}
	return records
}
