// Package invariant states what must be true.
//
// Must is always on and is for conditions whose check costs next to nothing and whose violation would damage data: going on would be
// worse than stopping. Check is for everything else: it is compiled to nothing unless the build has the tag "invariants" or the race
// detector (so every -race test run checks). A caller whose condition is itself expensive to compute writes
//
//	if invariant.Enabled {
//		invariant.Check(expensive(), "...")
//	}
//
// A violated invariant is a bug of ours, never a consequence of bad input or a failing disk: those are errors.
package invariant

import "fmt"

// Check panics with "BUG: " and the formatted message when Enabled and cond is false.
func Check(cond bool, format string, args ...any) {
	if Enabled && !cond {
		fail(format, args)
	}
}

// Must panics with "BUG: " and the formatted message when cond is false, in every build.
func Must(cond bool, format string, args ...any) {
	if !cond {
		fail(format, args)
	}
}

//go:noinline
func fail(format string, args []any) {
	panic("BUG: " + fmt.Sprintf(format, args...))
}
