package vfs

import (
	"errors"
	"testing"
)

// Everything that is not a fault of mapped memory passes through a guard.
func TestGuardLetsOtherPanicsPass(t *testing.T) {
	panics := map[string]func(){
		"value": func() { panic("mine") },
		"error": func() { panic(errors.New("mine")) },
		"index": func() { s := []int{}; _ = s[len(s)] },
		"nil":   func() { var p *int; *p = 1 },
	}
	for name, fn := range panics {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("the panic was swallowed")
				}
			}()
			err := Guard("x", fn)
			t.Fatalf("Guard returned %v", err)
		})
	}
}

// A guard within a guard leaves the outer one on.
func TestGuardNests(t *testing.T) {
	must(t, Guard("outer", func() {
		must(t, Guard("inner", func() {}))
		if old := GuardEnter(); !old {
			t.Error("the inner guard ended the outer one")
		}
	}))
	var err error
	func() {
		old := GuardEnter()
		if old {
			t.Error("the guard is still on")
		}
		defer GuardExit(old, "x", &err)
	}()
}

func TestErrors(t *testing.T) {
	equal(t, (&LockedError{Path: "p"}).Error(), "lock file p is held by unknown holder")
	equal(t, (&LockedError{Path: "p", Holder: "pid 1 h"}).Error(), "lock file p is held by pid 1 h")
	equal(t, (&TooLargeError{"p", 5, 4}).Error(), "file p has 5 bytes, more than the 4 it may have")
	equal(t, OpKind(200).String(), "op-200")
	equal(t, CrashMode(9).String(), "crash-mode-9")
}
