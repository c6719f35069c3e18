package engine

import "sync"

// tailEntries is how many recent turn ends a log remembers. A consumer that keeps up reads from one high watermark to the next, and both are
// ends of recent turns.
const tailEntries = 16

// tailCache remembers where recent turns ended, offset to file position, so that reads at the end of the log look nothing up. Entries are made
// by the worker after the bytes are in the file; a truncation empties it.
type tailCache struct {
	mu struct {
		sync.Mutex
		next    int
		entries *[tailEntries]tailEntry // nil until the first append
	}
}

type tailEntry struct {
	offset int64
	seg    *handle
	pos    int64 // where the batch with base offset starts, or will
}

// add notes that the batch at offset starts at pos of h. Zero positions are not worth noting.
func (t *tailCache) add(h *handle, offset, pos int64) {
	t.mu.Lock()
	if t.mu.entries == nil {
		t.mu.entries = new([tailEntries]tailEntry)
	}
	t.mu.entries[t.mu.next] = tailEntry{offset, h, pos}
	t.mu.next = (t.mu.next + 1) % tailEntries
	t.mu.Unlock()
}

// find returns where the batch at offset starts in h.
func (t *tailCache) find(h *handle, offset int64) (pos int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.entries == nil {
		return 0, false
	}
	for i := 1; i <= tailEntries; i++ { // newest first
		e := &t.mu.entries[(t.mu.next+tailEntries-i)%tailEntries]
		if e.seg == h && e.offset == offset {
			return e.pos, true
		}
	}
	return 0, false
}

// clear forgets everything, and with it the segments.
func (t *tailCache) clear() {
	t.mu.Lock()
	t.mu.entries = nil
	t.mu.next = 0
	t.mu.Unlock()
}
