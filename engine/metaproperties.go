package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

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
	props, err := parseProperties(data)
	if err != nil {
		return nil, unreadable("%v", err)
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
	return fmt.Appendf(out, "version=%s\ncluster.id=%s\nnode.id=%d\n", metaPropertiesVersion, escapeProperty(m.ClusterID), m.NodeID)
}

// escapeProperty writes a value so that parseProperties and Java read it back.
func escapeProperty(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\\' || r == ' ' && i == 0:
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < ' ' || r > '~' && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// parseProperties reads Java properties: one "key=value", "key: value" or "key value" per line, comments with # and !, escapes and continued
// lines with a backslash.
func parseProperties(data []byte) (map[string]string, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not a text file")
	}
	text := strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n")
	props := map[string]string{}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimLeft(lines[i], propertySpace)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for isContinued(line) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimLeft(lines[i], propertySpace)
		}
		key, value := splitProperty(line)
		k, kok := unescapeProperty(key)
		v, vok := unescapeProperty(value)
		if !kok || !vok {
			return nil, fmt.Errorf("line %d has an escape that is none", i+1)
		}
		props[k] = v
	}
	return props, nil
}

const propertySpace = " \t\f"

// isContinued tells whether line ends with an odd number of backslashes.
func isContinued(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// splitProperty cuts a line at the first separator that is not escaped.
func splitProperty(line string) (key, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	value = strings.TrimLeft(line[end:], propertySpace)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], propertySpace)
	}
	return line[:end], value
}

func unescapeProperty(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			if i+5 > len(s) {
				return "", false
			}
			n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", false
			}
			b.WriteRune(rune(n))
			i += 4
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), true
}
