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

// Fill produces about so many bytes to all partitions of a topic that nobody else writes to, and tells the layout and how many records there are.
func Fill(ctx context.Context, addr, topic string, bytes int64) (Layout, int64, error) {
	partitions, err := Partitions(ctx, addr, topic)
	if err != nil {
		return Layout{}, 0, err
	}
	l := &ProduceLoad{Addr: addr, Topic: topic, Connections: partitions, InFlight: 8, Records: fillRecords, Size: fillSize, Acks: -1, Exclusive: true}
	if _, err = Run(ctx, RunOptions{Duration: fillLimit, MaxBytes: max(bytes, 1)}, l); err != nil {
		return Layout{}, 0, err
	}
	var records int64
	for _, end := range l.acked {
		records += end
	}
	return Layout{l.BatchBytes(), fillRecords}, records, nil
}
