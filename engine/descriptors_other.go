//go:build !unix

package engine

// descriptorsMax is how many files the process may have open.
func descriptorsMax() int { return 8192 }
