//go:build !unix

package main

import "log/slog"

// raiseFileLimit does nothing where there is no such limit.
func raiseFileLimit(*slog.Logger) {}

func fileLimit() (most uint64, known bool) { return 0, false }
