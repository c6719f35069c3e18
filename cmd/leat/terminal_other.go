//go:build !linux

package main

import "os"

// isTerminal says whether a file is a terminal, as far as its mode tells.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}
