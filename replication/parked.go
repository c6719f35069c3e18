package replication

// parked holds the acks=all produces of a partition that wait for the high watermark, in order of their last offset: an
// intrusive list. Appends finish in offset order, so a new one goes to the end; only a duplicate, which is answered with the
// offset of its original, is put further in front.
type parked struct {
	head, tail *Produce
}

func (l *parked) empty() bool { return l.head == nil }

func (l *parked) insert(r *Produce) {
	at := l.tail // r goes behind at
	for at != nil && at.LastOffset > r.LastOffset {
		at = at.prev
	}
	r.prev = at
	if at == nil {
		r.next, l.head = l.head, r
	} else {
		r.next, at.next = at.next, r
	}
	if r.next == nil {
		l.tail = r
	} else {
		r.next.prev = r
	}
}

func (l *parked) remove(r *Produce) {
	if r.prev == nil {
		l.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.next, r.prev = nil, nil
}

// below removes the produces whose last offset is below hw and returns them as a list linked by next.
func (l *parked) below(hw int64) *Produce {
	first, last := l.head, (*Produce)(nil)
	for r := l.head; r != nil && r.LastOffset < hw; r = r.next {
		last = r
	}
	if last == nil {
		return nil
	}
	if l.head = last.next; l.head == nil {
		l.tail = nil
	} else {
		l.head.prev = nil
	}
	last.next = nil
	return first
}

// due removes the produces whose deadline is over and returns them, linked by next.
func (l *parked) due(nowMs int64) *Produce {
	var first, last *Produce
	for r := l.head; r != nil; {
		next := r.next
		if r.deadlineMs <= nowMs {
			l.remove(r)
			if last == nil {
				first = r
			} else {
				last.next = r
			}
			last = r
		}
		r = next
	}
	return first
}

// all removes and returns everything.
func (l *parked) all() *Produce {
	first := l.head
	*l = parked{}
	return first
}

// finish answers a list of produces; no lock is held.
func finish(r *Produce, err error) {
	for r != nil {
		next := r.next
		r.next, r.prev = nil, nil
		if err != nil {
			r.Err = err
		}
		r.Sink.ProduceDone(r) // r may be reused from here on
		r = next
	}
}
