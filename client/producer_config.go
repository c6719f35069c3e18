package client

import (
	"fmt"
	"time"

	"github.com/leatmq/leat/record"
)

// Acks is when a record counts as delivered.
type Acks uint8

// What a producer waits for.
const (
	AcksAll    Acks = iota // all in-sync replicas have it
	AcksLeader             // the partition's leader has it
	AcksNone               // it is sent; nobody knows more
)

// wire is the protocol's number.
func (a Acks) wire() int16 { return [...]int16{-1, 1, 0}[a] }

// ProducerConfig makes a Producer. What is zero has the default that stands beside it.
type ProducerConfig struct {
	Acks Acks // AcksAll
	// NotIdempotent gives up that the broker recognises what is sent again: then a retry may double records and change their order. Only AcksAll can be idempotent, and
	// is by default.
	NotIdempotent bool

	BatchSize      int           // bytes of a batch, before compression; a full one leaves at once; 512 KiB
	Linger         time.Duration // how long a batch waits for more records; 5 ms; negative: not at all
	MaxRequestSize int           // bytes of a request with several batches, and of one record; 1 MiB
	MaxInFlight    int           // requests on their way to each broker; 5, which is the most for an idempotent producer

	Compression      record.Codec // record.None
	CompressionLevel int          // Kafka's level of the codec; 0: its default

	BufferMemory     int64         // bytes of all batches, a hard limit; 32 MiB
	FailOnFullBuffer bool          // Send fails when the memory is used up, with *BufferFullError, and does not wait
	MaxBlock         time.Duration // how long Send waits for memory and metadata, within its context; 1 min

	DeliveryTimeout time.Duration // from Send to the last attempt's end; 2 min
	Partitioner     Partitioner   // KeyHash()
}

// withDefaults is the configuration as it is used, or what is wrong with it.
func (c ProducerConfig) withDefaults() (ProducerConfig, error) {
	c.NotIdempotent = c.NotIdempotent || c.Acks != AcksAll
	orDefault(&c.BatchSize, 512<<10)
	orDefault(&c.Linger, 5*time.Millisecond)
	c.Linger = max(c.Linger, 0)
	orDefault(&c.MaxRequestSize, 1<<20)
	orDefault(&c.MaxInFlight, 5)
	orDefault(&c.BufferMemory, 32<<20)
	orDefault(&c.MaxBlock, time.Minute)
	orDefault(&c.DeliveryTimeout, 2*time.Minute)
	if c.Partitioner == nil {
		c.Partitioner = KeyHash()
	}
	switch {
	case c.Acks > AcksNone:
		return c, &ConfigError{"Acks", fmt.Sprintf("is %d: AcksAll, AcksLeader or AcksNone", c.Acks)}
	case c.BatchSize < smallestBuffer || c.BatchSize > 1<<30:
		return c, &ConfigError{"BatchSize", fmt.Sprintf("is %d: 1024 to 2^30 bytes", c.BatchSize)}
	case c.MaxRequestSize < smallestBuffer || c.MaxRequestSize > 1<<30:
		return c, &ConfigError{"MaxRequestSize", fmt.Sprintf("is %d: 1024 to 2^30 bytes", c.MaxRequestSize)}
	case c.MaxInFlight < 1 || c.MaxInFlight > 1000:
		return c, &ConfigError{"MaxInFlight", fmt.Sprintf("is %d: 1 to 1000", c.MaxInFlight)}
	case c.MaxInFlight > 5 && !c.NotIdempotent:
		return c, &ConfigError{"MaxInFlight", fmt.Sprintf("is %d: brokers recognise only the last 5 batches of an idempotent producer", c.MaxInFlight)}
	case c.BufferMemory < int64(max(c.BatchSize, c.MaxRequestSize)):
		return c, &ConfigError{"BufferMemory", fmt.Sprintf("is %d: at least BatchSize (%d) and MaxRequestSize (%d)", c.BufferMemory, c.BatchSize, c.MaxRequestSize)}
	case c.Compression > record.Zstd:
		return c, &ConfigError{"Compression", fmt.Sprintf("is %d: there is no such codec", c.Compression)}
	case c.DeliveryTimeout <= c.Linger:
		return c, &ConfigError{"DeliveryTimeout", fmt.Sprintf("is %v: more than Linger (%v)", c.DeliveryTimeout, c.Linger)}
	case c.MaxBlock < 0:
		return c, &ConfigError{"MaxBlock", fmt.Sprintf("is %v", c.MaxBlock)}
	}
	return c, nil
}
