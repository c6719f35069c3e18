package load

import (
	"context"
	"time"
)

const (
	fillRecords = 64
	fillSize    = 1013 // makes records of 1 KiB
	fillLimit   = 10 * time.Minute
)

// Fill produces about so many bytes to all partitions of a topic that nobody else writes to, and tells the layout.
func Fill(ctx context.Context, addr, topic string, bytes int64) (Layout, error) {
	partitions, err := Partitions(ctx, addr, topic)
	if err != nil {
		return Layout{}, err
	}
	l := &ProduceLoad{Addr: addr, Topic: topic, Connections: partitions, InFlight: 8, Records: fillRecords, Size: fillSize, Acks: -1, Exclusive: true}
	_, err = Run(ctx, RunOptions{Duration: fillLimit, MaxBytes: max(bytes, 1)}, l)
	return Layout{l.BatchBytes(), fillRecords}, err
}
