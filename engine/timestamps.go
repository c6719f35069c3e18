package engine

// OffsetForTimestamp returns the first record with a timestamp of at least ts below upTo, its own timestamp and its leader epoch.
func (l *Log) OffsetForTimestamp(ts, upTo int64) (offset, foundTs int64, epoch int32, found bool, err error) {
	err = l.eachSegment(upTo, func(h *handle) (done bool, err error) {
		largest, _, err := h.MaxTimestamp()
		if err != nil || largest < ts {
			return false, err
		}
		offset, foundTs, found, err = h.OffsetForTimestampFrom(ts, l.logStart.Load(), upTo)
		return found, err
	})
	return l.timestampAnswer(offset, foundTs, found, err)
}

// MaxTimestampOffset returns the first record with the largest timestamp below upTo.
func (l *Log) MaxTimestampOffset(upTo int64) (offset, foundTs int64, epoch int32, found bool, err error) {
	err = l.eachSegment(upTo, func(h *handle) (bool, error) {
		if largest, _, err := h.MaxTimestamp(); err != nil || found && largest <= foundTs {
			return false, err
		}
		o, ts, ok, err := h.MaxTimestampOffset(upTo)
		if ok && (!found || ts > foundTs) && o >= l.logStart.Load() {
			offset, foundTs, found = o, ts, true
		}
		return false, err
	})
	return l.timestampAnswer(offset, foundTs, found, err)
}

func (l *Log) timestampAnswer(offset, ts int64, found bool, err error) (int64, int64, int32, bool, error) {
	if err != nil || !found {
		return -1, -1, -1, false, err
	}
	return offset, ts, l.EpochAt(offset), true, nil
}

// eachSegment calls fn for the segments below upTo, oldest first, each under a reference, until fn is done. A segment that retention takes away
// meanwhile is skipped.
func (l *Log) eachSegment(upTo int64, fn func(*handle) (done bool, err error)) error {
	segs := l.segs.Load()
	if segs == nil {
		return l.readable()
	}
	for _, h := range segs.list {
		if h.Base() >= upTo {
			return nil
		}
		if !h.Acquire() {
			continue
		}
		done, err := fn(h)
		h.Release()
		if err != nil {
			return l.readError(err)
		}
		if done {
			return nil
		}
	}
	return nil
}
