package group

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Limits of the regular expressions of subscriptions (RE2). A match costs the size of the program times the bytes of all names of
// topics; whoever sends an expression must not be able to stop everybody who shares the partition with it.
const (
	regexMaxBytes        = 4096
	regexMaxInstructions = 2000

	// regexPauseMs is the shortest time between two looks for topics that match, when topics come and go all the time.
	regexPauseMs = 10_000
)

// compileRegex makes a matcher of whole names of topics.
func compileRegex(expression string) (*regexp.Regexp, error) {
	if len(expression) > regexMaxBytes {
		return nil, fmt.Errorf("it has %d bytes, at most %d are accepted", len(expression), regexMaxBytes)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > regexMaxInstructions {
		return nil, errors.New("it is too large: matching it would take too long")
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

// resolve finds the topics that an expression matches. One that cannot be compiled, which no heartbeat brings, matches none.
func resolve(expression string, topics ConsumerTopics, nowMs int64) *resolved {
	r := &resolved{version: topics.Version(), atMs: nowMs}
	re, err := compileRegex(expression)
	if err != nil {
		return r
	}
	var names []string
	topics.Each(func(name string) {
		if re.MatchString(name) {
			names = append(names, name)
		}
	})
	r.topics = sortedNames(names)
	return r
}
