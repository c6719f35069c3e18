package metrics

import (
	"runtime"
	"time"
)

// began is when this process began, to within its initialisation.
var began = time.Now()

// Process writes what is known about this process, by the names that all programs use. What the platform does not tell is left out.
func Process(w *Writer) {
	w.Family("process_start_time_seconds", Gauge, "When the process began, in seconds since the Unix epoch.")
	w.Float(float64(began.UnixMilli()) / 1000)
	u := usage()
	if u.cpuSeconds >= 0 {
		w.Family("process_cpu_seconds_total", Counter, "CPU time of the process, user and system.")
		w.Float(u.cpuSeconds)
	}
	for _, m := range []struct {
		name, help string
		v          int64
	}{
		{"process_resident_memory_bytes", "Memory of the process that is in RAM, mapped files included.", u.residentBytes},
		{"process_open_fds", "Open descriptors.", u.openFDs},
		{"process_max_fds", "The most open descriptors allowed.", u.maxFDs},
	} {
		if m.v >= 0 {
			w.One(m.name, Gauge, m.help, m.v)
		}
	}
	w.One("go_goroutines", Gauge, "Goroutines.", int64(runtime.NumGoroutine()))
}

// processUsage is what the platform tells; negative where it does not.
type processUsage struct {
	cpuSeconds    float64
	residentBytes int64
	openFDs       int64
	maxFDs        int64
}
