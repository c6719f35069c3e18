//go:build invariants || race

package invariant

// Enabled tells whether Check checks. It is a constant so that the compiler drops what depends on it.
const Enabled = true
