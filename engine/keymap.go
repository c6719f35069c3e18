package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// keyHash stands for a key: 128 bits of its SHA-256. Two keys with one hash would delete each other's records, so the hash is one for which nobody can
// make such a pair; keys come from clients.
type keyHash struct{ hi, lo uint64 }

func hashKey(key []byte) keyHash {
	sum := sha256.Sum256(key)
	return keyHash{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

// keyMap maps keys to the latest offset of a record with the key. Its memory is bounded and taken at once: a slot has 24 bytes, and four fifths of the
// slots are used at most. Open addressing, no deletion.
type keyMap struct {
	slots []keySlot
	used  int
}

type keySlot struct {
	hash keyHash
	next int64 // offset + 1; 0 is a free slot
}

const (
	keySlotBytes = 24
	keySlotsMin  = 16
	keysKeptMax  = 1 << 16 // slots of a map that is kept between rounds
)

// reset empties the map and makes room for keys keys, or as many as fit into bytesMax.
func (m *keyMap) reset(keys, bytesMax int64) {
	most := max(bytesMax/keySlotBytes, keySlotsMin)
	n := int(most)
	if keys < most/2 {
		n = int(max(keys+keys/4+1, keySlotsMin))
	}
	m.used = 0
	if cap(m.slots) < n {
		m.slots = make([]keySlot, n)
		return
	}
	m.slots = m.slots[:n]
	clear(m.slots)
}

// trim gives the memory of a large map back.
func (m *keyMap) trim() {
	if cap(m.slots) > keysKeptMax {
		m.slots, m.used = nil, 0
	}
}

// capacity is how many keys the map takes.
func (m *keyMap) capacity() int { return len(m.slots) / 5 * 4 }

// find returns the slot of h, or the free one it would get.
func (m *keyMap) find(h keyHash) *keySlot {
	i, _ := bits.Mul64(h.hi, uint64(len(m.slots)))
	for {
		s := &m.slots[i]
		if s.next == 0 || s.hash == h {
			return s
		}
		if i++; i == uint64(len(m.slots)) {
			i = 0
		}
	}
}

// put notes a record at offset with the key; false when the key is new and there is no room.
func (m *keyMap) put(h keyHash, offset int64) bool {
	s := m.find(h)
	if s.next == 0 {
		if m.used >= m.capacity() {
			return false
		}
		m.used++
		s.hash = h
	}
	s.next = max(s.next, offset+1)
	return true
}

// latest returns the latest offset noted for the key, -1 when there is none.
func (m *keyMap) latest(h keyHash) int64 {
	if m.used == 0 {
		return noOffset
	}
	return m.find(h).next - 1
}
