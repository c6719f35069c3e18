package group

import (
	"bytes"
	"slices"

	"github.com/leatmq/leat/coordinator/machine"
)

// offered is a protocol that a member offers, with its metadata for it: opaque bytes, handed to the leader of the group.
type offered struct {
	name     string
	metadata []byte
}

// member is a member of a classic group.
type member struct {
	id         string
	instance   *string // group.instance.id: a static member
	clientID   string
	clientHost string

	rebalanceTimeoutMs int32
	sessionTimeoutMs   int32
	protocols          []offered // the preferred one first

	assignment []byte // what the leader gave it; opaque
	epoch      int32  // the one it had in the consumer group that this group was, until the next generation; 0: none
	isNew      bool   // it has never been answered: it cannot send heartbeats yet

	join    machine.Ticket // its JoinGroup that waits, nil for none
	sync    machine.Ticket // its SyncGroup that waits
	session timer
}

// static says whether the member has a group.instance.id.
func (m *member) static() bool { return m.instance != nil }

// metadata is what the member said for a protocol; nil when it does not offer it.
func (m *member) metadata(protocol string) []byte {
	for i := range m.protocols {
		if m.protocols[i].name == protocol {
			return m.protocols[i].metadata
		}
	}
	return nil
}

// offersSame says whether a new JoinGroup offers exactly what the member offered before.
func (m *member) offersSame(protocols []offered) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b offered) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// vote is the first of the member's protocols that is a candidate.
func (m *member) vote(candidate func(string) bool) string {
	for i := range m.protocols {
		if candidate(m.protocols[i].name) {
			return m.protocols[i].name
		}
	}
	return ""
}

// client is who the member is, for people.
func (m *member) client() string { return m.clientID + " " + m.clientHost }

// alive says whether the member needs no heartbeat now: it waits for us.
func (m *member) alive() bool { return !m.isNew && (m.join != nil || m.sync != nil) }

// members are the members of a group in the order in which they came.
type members struct {
	list []*member
	byID map[string]*member
}

func (ms *members) get(id string) *member { return ms.byID[id] }

func (ms *members) add(m *member) {
	if ms.byID == nil {
		ms.byID = map[string]*member{}
	}
	ms.byID[m.id] = m
	ms.list = append(ms.list, m)
}

func (ms *members) remove(m *member) {
	delete(ms.byID, m.id)
	i := slices.Index(ms.list, m)
	ms.list = slices.Delete(ms.list, i, i+1)
}

// rename gives a member another id; its place stays.
func (ms *members) rename(m *member, id string) {
	delete(ms.byID, m.id)
	m.id = id
	ms.byID[id] = m
}
