//go:build !unix

package main

import "log/slog"

// raiseFileLimit does nothing where there is no such limit.
func raiseFileLimit(*slog.Logger) {}
