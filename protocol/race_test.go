//go:build race

package protocol

// raceEnabled: the race detector's build makes append(x, make(y)...) allocate twice, so memory says nothing.
const raceEnabled = true
