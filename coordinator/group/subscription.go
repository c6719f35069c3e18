package group

import "encoding/binary"

// subscribedTopics reads the topics of a ConsumerProtocolSubscription: version int16, topics as an array of strings, and more
// that differs by version. ok is false when it is something else: then nothing is known of what the member wants.
func subscribedTopics(b []byte, visit func(topic string)) (ok bool) {
	if len(b) < 6 {
		return false
	}
	if version := int16(binary.BigEndian.Uint16(b)); version < 0 {
		return false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	for ; n > 0; n-- {
		topic, rest, err := cut16(b)
		if err != nil {
			return false
		}
		visit(string(topic))
		b = rest
	}
	return n == 0
}
