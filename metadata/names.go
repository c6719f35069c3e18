package metadata

import "fmt"

// MetadataTopic is the name of the metadata log's own topic. It is in no image: nobody creates, deletes or reads it as a topic.
const MetadataTopic = "__cluster_metadata"

// MetadataTopicID is the fixed id of the metadata log's topic, the same in every cluster (Kafka's number).
var MetadataTopicID = [16]byte{15: 1}

// topicNameBytesMax leaves room for "-<partition>" and a delete suffix in a directory name of 255 bytes.
const topicNameBytesMax = 249

// OffsetsTopic is the name of the topic that holds the groups and their committed offsets.
const OffsetsTopic = "__consumer_offsets"

// Names of other topics that the broker itself writes.
const (
	transactionsTopic = "__transaction_state"
	shareGroupTopic   = "__share_group_state"
)

// IsInternal says whether a topic is one that only the broker writes.
func IsInternal(name string) bool {
	return name == OffsetsTopic || name == transactionsTopic || name == shareGroupTopic
}

// ValidateTopicName says what is wrong with a name; nil when nothing is.
func ValidateTopicName(name string) *Error {
	if msg := nameProblem(name); msg != "" {
		return errorf(InvalidTopic, "Topic name is invalid: %s", msg)
	}
	return nil
}

// nameProblem is "" for a legal name.
func nameProblem(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case name == "." || name == "..":
		return fmt.Sprintf("'%s' is not allowed", name)
	case len(name) > topicNameBytesMax:
		return fmt.Sprintf("it has %d characters, allowed are %d", len(name), topicNameBytesMax)
	}
	for n := range len(name) {
		if !legalInName(name[n]) {
			return fmt.Sprintf("%q contains something other than ASCII letters, digits, '.', '_' and '-'", name)
		}
	}
	return ""
}

func legalInName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}
