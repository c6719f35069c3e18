//go:build !unix

package metrics

func usage() processUsage { return processUsage{-1, -1, -1, -1} }
