package broker

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/protocol"
)

// Fetch sessions (KIP-227): the broker remembers which partitions a consumer fetches and what it told about them, so that later requests and answers
// carry only changes. A session is a convenience that either side may forget: every error is answered so that the client starts a new one.
//
// Cache: at most max sessions. When it is full, a new session takes the place of the one that was used least recently if that has not been used for
// sessionIdleMs; else the client gets session id 0, "no session", which every client handles (gotcha 14: some clients open a session per request). All
// sessions together hold at most sessionPartitionsMax partitions: what would be more gets no session, or loses it.
//
// Order: a session's partitions are answered in their order in it; those that returned data go to the back, so that a few busy partitions cannot
// starve the others of an answer's byte limit.

const (
	sessionIdleMs = 120_000
	sessionless   = 0
	finalEpoch    = -1
	initialEpoch  = 0
	largestEpoch  = 1<<31 - 1
	neverTold     = -1

	sessionPartitionsMax = 1 << 20 // some 300 MB
)

// fetchKey names a partition in a session: by id from Fetch v13, by name before.
type fetchKey struct {
	topic string
	id    [16]byte
	index int32
}

// sessionPartition is what a session knows of one partition.
type sessionPartition struct {
	fetchTarget
	toldHW       int64 // neverTold: say it again
	toldLogStart int64
}

// fetchSession is one session. Its epoch orders the requests in it.
type fetchSession struct {
	id      int32
	byID    bool // its requests name topics by id
	usedMs  int64
	lru     *list.Element // guarded by fetchSessions.mu
	total   *atomic.Int64 // members of all sessions
	mu      sync.Mutex    // guards the following
	epoch   int32         // of the next request
	order   *list.List    // of *sessionPartition
	members map[fetchKey]*list.Element
	over    bool // removed from the cache: it has no members any more
}

// fetchSessions is the cache of sessions.
type fetchSessions struct {
	max    int
	random func() int32
	total  atomic.Int64 // members of all sessions
	mu     struct {
		sync.Mutex
		all map[int32]*fetchSession
		lru *list.List // of *fetchSession, least recently used first
	}
}

func newFetchSessions(max int, random func() int32) *fetchSessions {
	s := &fetchSessions{max: max, random: random}
	s.mu.all = map[int32]*fetchSession{}
	s.mu.lru = list.New()
	return s
}

// count is the number of sessions.
func (s *fetchSessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.all)
}

// use finds a session and makes it the most recently used.
func (s *fetchSessions) use(id int32, nowMs int64) *fetchSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.mu.all[id]
	if f != nil {
		f.usedMs = nowMs
		s.mu.lru.MoveToBack(f.lru)
	}
	return f
}

// create makes a session for so many partitions; nil when there is no room for it.
func (s *fetchSessions) create(byID bool, partitions int, nowMs int64) *fetchSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.all) >= s.max && !s.evictLocked(nowMs) || s.total.Load()+int64(partitions) > sessionPartitionsMax {
		return nil
	}
	f := &fetchSession{byID: byID, total: &s.total, usedMs: nowMs, epoch: initialEpoch + 1, order: list.New(), members: map[fetchKey]*list.Element{}}
	for f.id == sessionless || s.mu.all[f.id] != nil {
		f.id = s.random()
	}
	s.mu.all[f.id] = f
	f.lru = s.mu.lru.PushBack(f)
	return f
}

// evictLocked removes the least recently used session if it is idle.
func (s *fetchSessions) evictLocked(nowMs int64) bool {
	oldest := s.mu.lru.Front()
	if oldest == nil || nowMs-oldest.Value.(*fetchSession).usedMs < sessionIdleMs {
		return false
	}
	s.removeLocked(oldest.Value.(*fetchSession))
	return true
}

func (s *fetchSessions) remove(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.mu.all[id]; f != nil {
		s.removeLocked(f)
	}
}

func (s *fetchSessions) removeLocked(f *fetchSession) {
	delete(s.mu.all, f.id)
	s.mu.lru.Remove(f.lru)
	f.mu.Lock()
	defer f.mu.Unlock()
	s.total.Add(-int64(len(f.members)))
	f.over, f.members, f.order = true, nil, list.New()
}

// advance checks a request's epoch, applies its changes, and calls visit for every partition in order. It returns the code that ends the request, and
// whether the session is now empty (then it is over). Not None: nothing was changed.
func (f *fetchSession) advance(epoch int32, byID bool, changes []fetchTarget, forgotten []fetchKey, visit func(*sessionPartition)) (code protocol.Code, empty bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return protocol.FetchSessionIDNotFound, false
	}
	if epoch != f.epoch {
		return protocol.InvalidFetchSessionEpoch, false
	}
	if byID != f.byID {
		return protocol.FetchSessionTopicIDError, false
	}
	if f.total.Load()+int64(len(changes)) > sessionPartitionsMax {
		return protocol.FetchSessionIDNotFound, false // the client begins anew, and gets no session
	}
	for i := range changes {
		f.putLocked(&changes[i])
	}
	for _, k := range forgotten {
		if e := f.members[k]; e != nil {
			f.order.Remove(e)
			delete(f.members, k)
			f.total.Add(-1)
		}
	}
	if f.order.Len() == 0 {
		return protocol.None, true
	}
	f.epoch = epoch%largestEpoch + 1 // wraps to 1, never 0
	for e := f.order.Front(); e != nil; e = e.Next() {
		visit(e.Value.(*sessionPartition))
	}
	return protocol.None, false
}

// putLocked adds a partition, or updates what is fetched of it.
func (f *fetchSession) putLocked(t *fetchTarget) *sessionPartition {
	if e := f.members[t.key]; e != nil {
		p := e.Value.(*sessionPartition)
		name := p.name
		p.fetchTarget = *t
		p.name = name
		return p
	}
	p := &sessionPartition{fetchTarget: *t, toldHW: neverTold, toldLogStart: neverTold}
	if !f.over {
		f.members[t.key] = f.order.PushBack(p)
		f.total.Add(1)
	}
	return p
}

// fill makes the first answer's partitions the session's.
func (f *fetchSession) fill(parts []fetchPart) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range parts {
		f.tellLocked(&parts[i], f.putLocked(&parts[i].fetchTarget))
	}
}

// tell decides which partitions of an incremental answer the client must hear of (silent is set for the others), notes what it is told, and moves
// those with data to the back.
func (f *fetchSession) tell(parts []fetchPart) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range parts {
		e := f.members[parts[i].key]
		if e == nil {
			continue // forgotten by a later request: answered, for this request asked for it
		}
		p := e.Value.(*sessionPartition)
		parts[i].silent = !parts[i].news(p)
		f.tellLocked(&parts[i], p)
		if parts[i].size() > 0 {
			f.order.MoveToBack(e)
		}
	}
}

// news tells whether the client does not know yet what the answer would say.
func (part *fetchPart) news(p *sessionPartition) bool {
	return part.size() > 0 || part.code != protocol.None || part.diverges() || part.hw != p.toldHW || part.logStart != p.toldLogStart
}

func (f *fetchSession) tellLocked(part *fetchPart, p *sessionPartition) {
	p.toldHW, p.toldLogStart = part.hw, part.logStart
	if part.code != protocol.None {
		p.toldHW = neverTold // so that the end of the error is told
	}
}
