package engine

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"sync/atomic"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
)

// epochEntry says that the leader of Epoch began to append at StartOffset.
type epochEntry struct {
	Epoch       int32
	StartOffset int64
}

// epochCache knows at which offset each leader epoch of a log begins. It is kept in the file leader-epoch-checkpoint and can be rebuilt from
// the batches, which carry their leader's epoch.
//
// Invariant: epochs and start offsets both grow strictly from entry to entry and are not negative. So the batches of entry i are those in
// [list[i].StartOffset, list[i+1].StartOffset), the last entry's go on to the log end, and an epoch without an entry had no batch.
//
// Readers take no lock: the list is replaced, never changed. Writers must be serialised by the caller.
type epochCache struct {
	list atomic.Pointer[[]epochEntry]
}

// noEpoch stands where there is no epoch; noOffset where there is no offset.
const (
	noEpoch  = -1
	noOffset = -1
)

func newEpochCache() *epochCache {
	c := &epochCache{}
	c.list.Store(&[]epochEntry{})
	return c
}

// entries returns the entries, oldest first. They must not be changed.
func (c *epochCache) entries() []epochEntry { return *c.list.Load() }

func (c *epochCache) replace(list []epochEntry) {
	if invariant.Enabled {
		for i, e := range list {
			invariant.Check(e.Epoch >= 0 && e.StartOffset >= 0, "negative epoch entry %v", e)
			invariant.Check(i == 0 || list[i-1].Epoch < e.Epoch && list[i-1].StartOffset < e.StartOffset, "epoch entries do not grow: %v", list)
		}
	}
	c.list.Store(&list)
}

// assign notes that epoch begins at startOffset. Entries that contradict it, those with a later epoch or a later start, are dropped: the new
// one comes from a leader. It returns whether anything changed; the latest epoch with a start that is not earlier changes nothing.
func (c *epochCache) assign(epoch int32, startOffset int64) (changed bool) {
	invariant.Must(epoch >= 0 && startOffset >= 0, "epoch %d cannot begin at offset %d", epoch, startOffset)
	list := c.entries()
	if n := len(list); n > 0 && list[n-1].Epoch == epoch && list[n-1].StartOffset <= startOffset {
		return false
	}
	keep := len(list)
	for keep > 0 && (list[keep-1].Epoch >= epoch || list[keep-1].StartOffset >= startOffset) {
		keep--
	}
	c.replace(append(slices.Clone(list[:keep]), epochEntry{Epoch: epoch, StartOffset: startOffset}))
	return true
}

// latest returns the newest epoch.
func (c *epochCache) latest() (epoch int32, ok bool) {
	list := c.entries()
	if len(list) == 0 {
		return noEpoch, false
	}
	return list[len(list)-1].Epoch, true
}

// endOffsetFor answers a follower's (or consumer's) question: up to where do my batches of epoch agree with this log? The answer is the
// greatest epoch here that is not later than the asked one, and the offset at which that ends. logEnd ends the latest epoch.
//
// Kafka's rules (KIP-101, KIP-279):
//
//   - an epoch that is later than all here, or negative, is not known: -1, -1 (and not the log end: B-C3);
//   - the latest epoch ends at the log end;
//   - an epoch without batches here is answered with the one before it, so that the follower does not keep batches nobody here has (B-C2);
//   - an epoch before all here: its batches have been removed from the log. The answer is the epoch itself with the start of the first known
//     one, where the follower can go on.
func (c *epochCache) endOffsetFor(epoch int32, logEnd int64) (foundEpoch int32, endOffset int64) {
	list := c.entries()
	higher := sort.Search(len(list), func(i int) bool { return list[i].Epoch > epoch })
	switch {
	case epoch < 0 || len(list) == 0:
		return noEpoch, noOffset
	case higher == len(list) && list[higher-1].Epoch == epoch:
		return epoch, logEnd
	case higher == len(list):
		return noEpoch, noOffset
	case higher == 0:
		return epoch, list[0].StartOffset
	}
	return list[higher-1].Epoch, list[higher].StartOffset
}

// epochAt returns the epoch of the batch at offset, noEpoch when it is before the first known one.
func (c *epochCache) epochAt(offset int64) int32 {
	list := c.entries()
	later := sort.Search(len(list), func(i int) bool { return list[i].StartOffset > offset })
	if later == 0 {
		return noEpoch
	}
	return list[later-1].Epoch
}

// truncateFromEnd drops the epochs that begin at or behind the new log end.
func (c *epochCache) truncateFromEnd(to int64) (changed bool) {
	list := c.entries()
	keep := sort.Search(len(list), func(i int) bool { return list[i].StartOffset >= to })
	if keep == len(list) {
		return false
	}
	c.replace(slices.Clone(list[:keep]))
	return true
}

// truncateFromStart drops the epochs that ended before the new log start. The one that holds it begins there now; also when the log is
// empty there and no batch of it is left, so that the latest epoch is not forgotten.
func (c *epochCache) truncateFromStart(to int64) (changed bool) {
	list := c.entries()
	later := sort.Search(len(list), func(i int) bool { return list[i].StartOffset > to })
	if later == 0 || later == 1 && list[0].StartOffset == to {
		return false
	}
	rest := slices.Clone(list[later-1:])
	rest[0].StartOffset = to
	c.replace(rest)
	return true
}

// store writes the entries to the partition's directory. They are durable when it returns nil: a file torn by a power cut would be worth
// nothing at the moment it is needed (B-A4).
func (c *epochCache) store(fsys vfs.FS, dir string) error {
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, leaderEpochFileName), formatEpochs(c.entries()))
}

func formatEpochs(list []epochEntry) []byte {
	out := fmt.Appendf(nil, "%s\n%d\n", checkpointVersion, len(list))
	for _, e := range list {
		out = fmt.Appendf(out, "%d %d\n", e.Epoch, e.StartOffset)
	}
	return out
}

// loadEpochs reads what store wrote. A missing file has no entries; nonsense is a *CorruptError, and the caller rebuilds the epochs from the
// log.
func loadEpochs(fsys vfs.FS, dir string) (*epochCache, error) {
	path := filepath.Join(dir, leaderEpochFileName)
	data, err := readSideFile(fsys, path)
	if err != nil {
		return nil, err
	}
	list, err := parseEpochs(path, data)
	if err != nil {
		return nil, err
	}
	c := newEpochCache()
	c.replace(list)
	return c, nil
}

func parseEpochs(path string, data []byte) ([]epochEntry, error) {
	var list []epochEntry
	err := parseCheckpoint(path, data, 2, func(fields []string) error {
		epoch, err := strconv.ParseInt(fields[0], 10, 32)
		if err != nil || epoch < 0 {
			return errors.New("not an epoch")
		}
		start, err := parseOffset(fields[1])
		if err != nil {
			return err
		}
		if n := len(list); n > 0 && (list[n-1].Epoch >= int32(epoch) || list[n-1].StartOffset >= start) {
			return errors.New("epochs and offsets must grow")
		}
		list = append(list, epochEntry{Epoch: int32(epoch), StartOffset: start})
		return nil
	})
	return list, err
}
