// Package fuzz holds the suites that try to make leat break its first promise: what was acknowledged is never lost, and what a
// consumer has seen never disappears. It has no code of its own besides tests; docs/TESTING.md tells how to run them, and
// what the last full runs were.
package fuzz
