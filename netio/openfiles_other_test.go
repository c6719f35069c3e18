//go:build !linux

package netio

import "testing"

// openFiles is not known here.
func openFiles(*testing.T) int { return 0 }
