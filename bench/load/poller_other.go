//go:build !linux

package load

func newPoller() (poller, error) { return newNetPoller(), nil }
