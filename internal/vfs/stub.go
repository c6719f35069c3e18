package vfs

type Mem struct {
	FS
	OnOp func(Op)
}

func NewMem(seed uint64) *Mem            { panic("stub") }
func (m *Mem) Crash(mode CrashMode) *Mem { panic("stub") }
func (m *Mem) SetCapacity(bytes int64)   { panic("stub") }
