// Package metrics shows numbers to Prometheus: a writer of its text format, a small HTTP server with one page, and what every process can tell
// about itself. What is measured is not its business: whoever has a Server gives it a function that collects.
//
//	text.go    the text format, version 0.0.4
//	server.go  the page
//	process*.go  CPU time, memory, descriptors
//
// The server is read by machines that mean well and can be reached by others. So it has limits for everything (connections, time, bytes), takes no input
// but a path, and collects one page at a time: whoever asks meanwhile waits for that one, and for a while after it (a second, or twenty times as long as
// the collecting took) everybody gets the same. However often it is asked, collecting costs a twentieth of a CPU at most, and one goroutine.
//
// The format and the server's few rules are written here, not taken from Prometheus's client library: that keeps its numbers in registries, which
// the broker does not need, for it has them already where they are counted.
package metrics
