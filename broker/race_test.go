//go:build race

package broker

// raceEnabled: the race detector makes everything slow, so that long lists are sampled.
const raceEnabled = true
