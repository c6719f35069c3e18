package record

// Origin says who sent a batch.
type Origin uint8

const (
	// Client: a producer; everything is checked.
	Client Origin = iota
	// Replica: fetched from the leader, which has checked it. Nothing is rewritten.
	Replica
	// Internal: made by this broker. Nothing is rewritten.
	Internal
)

// Rules are a topic's demands on a batch.
type Rules struct {
	MaxBatchBytes   int
	Compacted       bool // every record needs a key
	TimestampType   TimestampType
	BeforeMaxMs     int64
	AfterMaxMs      int64
	Codec           Codec // recompress to this unless CodecIsProducer
	CodecIsProducer bool
	Level           int
	InflateLimit    int64
	Origin          Origin
}

// Validated is an accepted batch.
type Validated struct {
	Batch                   Batch // aliases the input, or is a rewritten copy
	MaxTimestamp            int64
	MaxTimestampOffsetDelta int32
	Count                   int32
	Rewritten               bool
}

// Validator checks batches. It is not safe for concurrent use.
type Validator struct{}

// Validate checks the one batch in buf.
func (v *Validator) Validate(buf []byte, r *Rules, nowMs int64) (Validated, error) { panic("stub") }
