package metadata

import "fmt"

// Kind says what is wrong with a request, independent of the wire: broker maps each kind to one Kafka error code.
type Kind uint8

// The kinds, named like Kafka's codes. The number in the comment is the code a Kafka broker answers.
const (
	KindUnknown                 Kind = iota // -1  something we have no word for
	InvalidTopic                            // 17  name rules, collision of '.' and '_'
	TopicExists                             // 36
	InvalidPartitions                       // 37
	InvalidReplicationFactor                // 38
	InvalidAssignment                       // 39
	InvalidConfig                           // 40
	InvalidRequest                          // 42
	PolicyViolation                         // 44
	UnknownTopic                            // 3
	UnknownTopicID                          // 100
	TopicAuthorizationFailed                // 29  the metadata topic is nobody's to create or delete
	TopicDeletionDisabled                   // 73
	DuplicateBrokerRegistration             // 101
	StaleBrokerEpoch                        // 77
	BrokerIDNotRegistered                   // 102
	FeatureUpdateFailed                     // 96
	UnsupportedVersion                      // 35
	NotController                           // 41  proposals in flight when leadership of the log was lost
	Unavailable                             // 56  the metadata log failed (disk); nothing can change until a restart
	Busy                                    // 7   too many proposals wait: try again
)

var kindNames = [...]string{
	"Unknown", "InvalidTopic", "TopicExists", "InvalidPartitions", "InvalidReplicationFactor", "InvalidAssignment",
	"InvalidConfig", "InvalidRequest", "PolicyViolation", "UnknownTopic", "UnknownTopicID", "TopicAuthorizationFailed",
	"TopicDeletionDisabled", "DuplicateBrokerRegistration", "StaleBrokerEpoch", "BrokerIDNotRegistered",
	"FeatureUpdateFailed", "UnsupportedVersion", "NotController", "Unavailable", "Busy",
}

// String returns the name of the constant.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Error is a refused request: what kind of wrong, and a sentence for the one who asked.
type Error struct {
	Kind Kind
	Msg  string
}

func (e *Error) Error() string { return e.Msg }

// Is lets errors.Is(err, &Error{Kind: k}) match by kind alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && (t.Msg == "" || t.Msg == e.Msg)
}

func errorf(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...)}
}

// FormatError says that stored metadata cannot be used: written by a newer version, damaged, or incomplete. It stops the
// start, and Fix names the way out. It never means "there is no such topic" (B-A11).
type FormatError struct {
	Where string // file or log offset
	Msg   string
	Fix   string
	Newer bool // written by a newer version of leat
}

func (e *FormatError) Error() string {
	s := "metadata: " + e.Where + ": " + e.Msg
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}
