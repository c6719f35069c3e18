package engine

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/leatmq/leat/internal/vfs"
)

// The clean shutdown marker of a log directory says: when this file was written, everything in the directory was on stable storage and nothing
// was open. The next start then trusts the logs as they are. It is written last (B-A6, B-A7) and taken away before anything is loaded (B-A5):
// whatever happens in between, its absence is the truth. Kafka's format: JSON {"version":0,"brokerEpoch":n}.
type cleanMarker struct {
	Version     *int   `json:"version"`
	BrokerEpoch *int64 `json:"brokerEpoch"`
}

const (
	cleanMarkerVersion  = 0
	cleanMarkerBytesMax = 4096
	noBrokerEpoch       = -1
)

// takeCleanMarker tells whether the last stop was clean, and with which broker epoch (-1: not known). It removes the marker; that is durable
// when it returns nil. A marker that cannot be understood is removed and counts as none: an unnecessary recovery costs only time.
func takeCleanMarker(fsys vfs.FS, dir string) (clean bool, brokerEpoch int64, err error) {
	path := filepath.Join(dir, cleanMarkerFileName)
	data, err := vfs.ReadFile(fsys, path, cleanMarkerBytesMax)
	var large *vfs.TooLargeError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, noBrokerEpoch, nil
	case err != nil && !errors.As(err, &large):
		return false, noBrokerEpoch, err
	}
	if err := fsys.Remove(path); err != nil {
		return false, noBrokerEpoch, err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return false, noBrokerEpoch, err
	}
	brokerEpoch, clean = parseCleanMarker(data)
	return clean, brokerEpoch, nil
}

func parseCleanMarker(data []byte) (brokerEpoch int64, ok bool) {
	var m cleanMarker
	if json.Unmarshal(data, &m) != nil || m.Version == nil || *m.Version != cleanMarkerVersion {
		return noBrokerEpoch, false
	}
	if m.BrokerEpoch == nil {
		return noBrokerEpoch, true
	}
	return *m.BrokerEpoch, true
}

// putCleanMarker writes the marker. It is durable when it returns nil.
func putCleanMarker(fsys vfs.FS, dir string, brokerEpoch int64) error {
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, cleanMarkerFileName), formatCleanMarker(brokerEpoch))
}

func formatCleanMarker(brokerEpoch int64) []byte {
	version := cleanMarkerVersion
	data, err := json.Marshal(cleanMarker{Version: &version, BrokerEpoch: &brokerEpoch})
	if err != nil {
		panic("BUG: a clean marker cannot be encoded: " + err.Error())
	}
	return data
}
