package record

// Header is a record header to write. A nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Options are the header fields of the batches a Builder makes.
type Options struct {
	Codec                Codec
	Level                int // Kafka's level of the codec; 0: its default
	TimestampType        TimestampType
	BaseOffset           int64
	PartitionLeaderEpoch int32
	BaseTimestamp        int64 // 0: the first record's timestamp
	Idempotent           bool  // write ProducerID, Epoch and BaseSequence; without it they are -1
	ProducerID           int64
	Epoch                int16
	BaseSequence         int32
	Transactional        bool
	Control              bool
}

// Builder makes batches.
type Builder struct{ o Options }

// NewBuilder returns an empty builder.
func NewBuilder(o Options) *Builder { return &Builder{o: o} }

// Append adds a record. A nil key or value is null.
func (w *Builder) Append(ts int64, key, value []byte, headers []Header) { panic("stub") }

// Count is the number of records so far.
func (w *Builder) Count() int32 { panic("stub") }

// Size is the batch's size so far, before compression.
func (w *Builder) Size() int { panic("stub") }

// Build appends the batch to dst. The builder keeps its records until Reset.
func (w *Builder) Build(dst []byte) []byte { panic("stub") }

// Bytes is the batch in a buffer of its own.
func (w *Builder) Bytes() []byte { return w.Build(nil) }

// Reset forgets the records and takes new options.
func (w *Builder) Reset(o Options) { w.o = o }
