package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/leatmq/leat/internal/properties"
	"github.com/leatmq/leat/internal/vfs"
)

// metaProperties says whose a log directory is. In the file meta.properties, which Kafka's tools read and write, too: Java properties with
//
//	version=1
//	cluster.id=<22 characters of base64url, but any text will do>
//	node.id=1
//	directory.id=<22 characters of base64url>     may be missing
//
// Version 0 has broker.id instead of node.id and no directory.id. Other keys are ignored.
type metaProperties struct {
	ClusterID   string
	NodeID      int32
	DirectoryID [16]byte // zero: the file has none
}

const (
	metaPropertiesVersion  = "1"
	metaPropertiesBytesMax = 1 << 20
)

// MetaKind says what is wrong with a meta.properties file.
type MetaKind uint8

// The kinds of MetaPropertiesError.
const (
	MetaUnreadable     MetaKind = iota + 1 // it cannot be read, or not be understood
	MetaNewerVersion                       // it was written by a later version
	MetaForeignCluster                     // the directory belongs to another cluster
	MetaForeignNode                        // the directory belongs to another node of the cluster
	MetaMissing                            // it is not there, but partitions are
)

// MetaPropertiesError says that a log directory must not be used as it is. The message says what can be done.
type MetaPropertiesError struct {
	Path string
	Kind MetaKind
	Msg  string
	Err  error // the cause, when there is one
}

func (e *MetaPropertiesError) Error() string { return e.Path + ": " + e.Msg }

// Unwrap returns the cause.
func (e *MetaPropertiesError) Unwrap() error { return e.Err }

// readMetaProperties reads the file of the log directory dir; nil without an error when there is none. Errors are *MetaPropertiesError.
func readMetaProperties(fsys vfs.FS, dir string) (*metaProperties, error) {
	path := filepath.Join(dir, metaPropertiesFileName)
	data, err := vfs.ReadFile(fsys, path, metaPropertiesBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &MetaPropertiesError{Path: path, Kind: MetaUnreadable, Err: err,
			Msg: fmt.Sprintf("it cannot be read (%v): check the disk and the file's permissions", err)}
	}
	return parseMetaProperties(path, data)
}

func parseMetaProperties(path string, data []byte) (*metaProperties, error) {
	unreadable := func(format string, args ...any) error {
		return &MetaPropertiesError{Path: path, Kind: MetaUnreadable,
			Msg: fmt.Sprintf(format, args...) + ": restore the file from a backup, or write cluster.id and node.id of this broker into it by hand"}
	}
	list, err := properties.Parse(string(data))
	if err != nil {
		return nil, unreadable("line %v", err)
	}
	props := map[string]string{}
	for _, p := range list {
		props[p.Name] = p.Value
	}
	nodeKey := "node.id"
	switch version, ok := props["version"]; {
	case !ok:
		return nil, unreadable("there is no version")
	case version == "0":
		nodeKey = "broker.id"
	case version == metaPropertiesVersion:
	case isLaterVersion(version):
		return nil, &MetaPropertiesError{Path: path, Kind: MetaNewerVersion,
			Msg: fmt.Sprintf("it has version %s, this program knows up to %s: use the program version that wrote the directory, or a later one", version, metaPropertiesVersion)}
	default:
		return nil, unreadable("version %q is not a version", shortText(version))
	}
	m := &metaProperties{ClusterID: props["cluster.id"]}
	if m.ClusterID == "" {
		return nil, unreadable("there is no cluster.id")
	}
	node, err := strconv.ParseInt(props[nodeKey], 10, 32)
	if err != nil || node < 0 {
		return nil, unreadable("%s %q is not a node id", nodeKey, shortText(props[nodeKey]))
	}
	m.NodeID = int32(node)
	if text, has := props["directory.id"]; has {
		if m.DirectoryID, has = parseUUID(text); !has {
			return nil, unreadable("directory.id %q is not an id", shortText(text))
		}
	}
	return m, nil
}

func isLaterVersion(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 1
}

// check tells whether the log directory dir, which has these properties, may be used by this node of this cluster. An empty cluster id and a
// negative node id are not checked. Errors are *MetaPropertiesError.
func (m *metaProperties) check(dir, wantClusterID string, wantNodeID int32) error {
	path := filepath.Join(dir, metaPropertiesFileName)
	if wantClusterID != "" && m.ClusterID != wantClusterID {
		return &MetaPropertiesError{Path: path, Kind: MetaForeignCluster,
			Msg: fmt.Sprintf("the directory belongs to cluster %s, this is cluster %s: remove it from log.dirs, or empty it if its data is not needed", m.ClusterID, wantClusterID)}
	}
	if wantNodeID >= 0 && m.NodeID != wantNodeID {
		return &MetaPropertiesError{Path: path, Kind: MetaForeignNode,
			Msg: fmt.Sprintf("the directory belongs to node %d, this is node %d: set node.id=%d, or remove it from log.dirs", m.NodeID, wantNodeID, m.NodeID)}
	}
	return nil
}

// writeMetaProperties writes the file of the log directory dir. It is durable when it returns nil.
func writeMetaProperties(fsys vfs.FS, dir string, m *metaProperties) error {
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, metaPropertiesFileName), formatMetaProperties(m))
}

func formatMetaProperties(m *metaProperties) []byte {
	var out []byte
	if m.DirectoryID != ([16]byte{}) {
		out = fmt.Appendf(out, "directory.id=%s\n", formatUUID(m.DirectoryID))
	}
	return fmt.Appendf(out, "version=%s\ncluster.id=%s\nnode.id=%d\n", metaPropertiesVersion, properties.Escape(m.ClusterID), m.NodeID)
}
