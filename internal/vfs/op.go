package vfs

import "fmt"

// OpKind names an operation on an FS, a File or a Region.
type OpKind uint8

// The operations. Those up to OpLock change something that a crash may lose; Mem.OnOp sees only them.
const (
	OpCreate OpKind = iota // OpenFile that created or truncated the file
	OpWrite                // WriteAt, WritevAt
	OpTruncate
	OpAllocate
	OpSync
	OpSyncRegion
	OpSyncDir
	OpSyncFS
	OpRename
	OpRemove
	OpRemoveAll
	OpMkdirAll
	OpSetModTime
	OpLock
	OpOpen // OpenFile of an existing file
	OpRead
	OpReadDir
	OpStat
	OpMap
	OpStartWriteback
	OpUsage
	OpClose
	opCount
)

var opNames = [opCount]string{
	"create", "write", "truncate", "allocate", "sync", "sync-region", "sync-dir", "sync-fs", "rename", "remove", "remove-all", "mkdir-all",
	"set-mod-time", "lock", "open", "read", "read-dir", "stat", "map", "start-writeback", "usage", "close",
}

func (k OpKind) String() string {
	if k < opCount {
		return opNames[k]
	}
	return fmt.Sprintf("op-%d", uint8(k))
}

// mutates tells whether the operation changes what a crash may lose.
func (k OpKind) mutates() bool { return k <= OpLock }

// Op is one operation. NewName is set for renames; Off and N for operations on a range, N also for the size of a truncate and the
// length of a map.
type Op struct {
	Kind    OpKind
	Name    string
	NewName string
	Off, N  int64
}

func (o Op) String() string {
	switch o.Kind {
	case OpRename:
		return fmt.Sprintf("%s %s %s", o.Kind, o.Name, o.NewName)
	case OpWrite, OpAllocate, OpRead, OpStartWriteback:
		return fmt.Sprintf("%s %s [%d,+%d)", o.Kind, o.Name, o.Off, o.N)
	case OpTruncate, OpMap:
		return fmt.Sprintf("%s %s %d", o.Kind, o.Name, o.N)
	}
	return fmt.Sprintf("%s %s", o.Kind, o.Name)
}

// CrashMode tells what a power cut leaves of what was not synced.
type CrashMode uint8

const (
	LoseUnsynced CrashMode = iota // nothing: exactly what was made durable
	KeepAll                       // everything: as if the process had been killed
	RandomPages                   // any subset of the written pages, size changes and directory entry changes
	Torn512                       // as RandomPages, and surviving pages may be torn at 512 bytes
)

func (m CrashMode) String() string {
	switch m {
	case LoseUnsynced:
		return "lose-unsynced"
	case KeepAll:
		return "keep-all"
	case RandomPages:
		return "random-pages"
	case Torn512:
		return "torn-512"
	}
	return fmt.Sprintf("crash-mode-%d", uint8(m))
}

// CrashModes lists all modes, for tests that try each.
var CrashModes = []CrashMode{LoseUnsynced, KeepAll, RandomPages, Torn512}
