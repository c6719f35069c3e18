//go:build unix && !linux

package metrics

func residentBytes() int64 { return -1 }
func openFDs() int64       { return -1 }
