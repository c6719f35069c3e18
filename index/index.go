package index

// AbortedTxn is an entry of the transaction index.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64 // of the transaction
	LastOffset       int64 // of its abort marker
	LastStableOffset int64 // of the log when the marker was written
}
