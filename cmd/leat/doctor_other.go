//go:build !linux

package main

func fileSystem(string) (kind, fix string) { return "", "" }

func clockSynced() (synced, known bool) { return false, false }
