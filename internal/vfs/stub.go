package vfs

var OS FS

type Mem struct {
	FS
	OnOp func(Op)
}

func NewMem(seed uint64) *Mem                          { panic("stub") }
func (m *Mem) Crash(mode CrashMode) *Mem               { panic("stub") }
func (m *Mem) SetCapacity(bytes int64)                 { panic("stub") }
func Guard(name string, fn func()) error               { panic("stub") }
func GuardEnter() bool                                 { panic("stub") }
func GuardExit(old bool, name string, err *error)      { panic("stub") }
func WriteFileAtomic(f FS, n string, d []byte) error   { panic("stub") }
func ReadFile(f FS, n string, l int64) ([]byte, error) { panic("stub") }
