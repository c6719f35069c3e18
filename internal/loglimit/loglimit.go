// Package loglimit keeps a log readable when peers misbehave by the thousand: of each message the first few lines are
// written at once, and then, as long as more come, one summary per interval with their number.
package loglimit

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

const (
	// Burst is how many lines of one message are written before the counting begins.
	Burst = 5
	// IntervalMs is how often a summary is written, and how long a message must be quiet to have a Burst again.
	IntervalMs = 10_000
)

// Logger writes the lines that a peer can cause. Messages must be constants: each has its own count, kept for ever.
type Logger struct {
	log   *slog.Logger
	nowMs func() int64

	mu struct {
		sync.Mutex
		kinds map[string]*kind
	}
}

// kind is one message. States: quiet (lines == 0); open, since beganMs: lines came, of which more were not written.
type kind struct {
	level   slog.Level
	beganMs int64
	quota   int // lines that may still be written
	lines   int
	more    int
}

// New returns a Logger that writes to log. nowMs is a clock in milliseconds.
func New(log *slog.Logger, nowMs func() int64) *Logger {
	l := &Logger{log: log, nowMs: nowMs}
	l.mu.kinds = map[string]*kind{}
	return l
}

// Log writes the line, or counts it.
func (l *Logger) Log(level slog.Level, message string, args ...any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	if l.admit(level, message) {
		l.log.Log(context.Background(), level, message, args...)
	}
}

func (l *Logger) admit(level slog.Level, message string) bool {
	now := l.nowMs()
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.mu.kinds[message]
	if k == nil {
		k = &kind{level: level}
		l.mu.kinds[message] = k
	}
	if k.lines == 0 {
		k.beganMs, k.quota = now, Burst
	}
	k.lines++
	if k.quota == 0 {
		k.more++
		return false
	}
	k.quota--
	return true
}

// Flush writes the summaries that are due. Its owner calls it about once a second.
func (l *Logger) Flush() {
	now := l.nowMs()
	l.flush(func(k *kind) bool { return now-k.beganMs >= IntervalMs })
}

// Close writes the summaries of what was counted until now.
func (l *Logger) Close() { l.flush(func(*kind) bool { return true }) }

func (l *Logger) flush(due func(*kind) bool) {
	now := l.nowMs()
	l.mu.Lock()
	defer l.mu.Unlock()
	for message, k := range l.mu.kinds {
		if k.lines == 0 || !due(k) {
			continue
		}
		if k.more > 0 {
			l.log.Log(context.Background(), k.level, message+" (more of the same)", "count", k.more,
				"in", fmt.Sprintf("%ds", (now-k.beganMs+500)/1000))
		}
		if k.more == 0 {
			k.lines = 0 // it has calmed down
			continue
		}
		*k = kind{level: k.level, beganMs: now, lines: 1}
	}
}
