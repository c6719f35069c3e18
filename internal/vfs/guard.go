package vfs

import "runtime/debug"

// Guard runs fn, in which a fault on mapped memory becomes a *FaultError with name instead of the end of the process. Every other panic
// passes through. It does not allocate as long as nothing goes wrong and fn does not escape.
//
// fn must leave shared state consistent at any access to the mapping: it may stop there.
func Guard(name string, fn func()) (err error) {
	defer GuardExit(GuardEnter(), name, &err)
	fn()
	return nil
}

// GuardEnter and GuardExit are Guard for a function whose closure would allocate:
//
//	func (x *Offset) entry(i int) (e Entry, err error) {
//		defer vfs.GuardExit(vfs.GuardEnter(), x.name, &err)
//		...
//	}
//
// GuardEnter returns what GuardExit must be given; GuardExit must be deferred directly.
func GuardEnter() (old bool) { return debug.SetPanicOnFault(true) }

// GuardExit ends what GuardEnter began; a fault in between is stored in err.
func GuardExit(old bool, name string, err *error) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r == nil {
		return
	}
	// The runtime gives a fault the address it happened at; a nil pointer dereference and all other panics have none.
	if _, isFault := r.(interface{ Addr() uintptr }); !isFault {
		panic(r)
	}
	*err = &FaultError{Name: name}
}
