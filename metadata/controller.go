package metadata

import (
	"math/rand/v2"

	"github.com/leatmq/leat/config"
)

// controller decides: a request and an image in, records and answers out. It changes nothing, knows no clock and draws
// randomness from where it is told to, so that the same image, request and seed give the same plan.
//
// Plans run one after the other on the newest image, uncommitted changes included, and their records are applied before the
// next plan runs: a plan may rely on what it saw.
type controller struct {
	rules rules
	rand  *rand.Rand
}

// rules is what the controller needs of config.Set.
type rules interface {
	Broker() (*config.Broker, error)
	Topic(overrides map[string]string) (*config.Topic, error)
	ValidateTopic(overrides map[string]string) error
	ValidateDynamic(source config.Source, values map[string]string) error
	ValidateGroup(own map[string]string) error
}

// recordsPerRequestMax bounds what one request may change, so that it fits one batch of the metadata log and is applied as a
// whole. A registration counts as one record, however many partitions it touches.
const recordsPerRequestMax = 10000

// excessive is the answer to a request that would need more records.
func excessive() *Error {
	return errorf(PolicyViolation, "The request would make more than %d changes: split it.", recordsPerRequestMax)
}

// randomID draws an id that is neither zero nor the metadata topic's, and not taken.
func (c *controller) randomID(taken func([16]byte) bool) [16]byte {
	for {
		id := randomUUID(c.rand)
		if id != MetadataTopicID && !taken(id) {
			return id
		}
	}
}

// randomUUID draws a version 4 UUID; it is never zero. An id whose base64 form begins with '-' is not drawn: command line
// tools take it for an option.
func randomUUID(r *rand.Rand) (id [16]byte) {
	for {
		for n := 0; n < 16; n += 8 {
			v := r.Uint64()
			for b := range 8 {
				id[n+b] = byte(v >> (8 * b))
			}
		}
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id[0]>>2 != 62 { // 62 is '-' in the URL alphabet
			return id
		}
	}
}
