// Package record views, checks, builds and rewrites Kafka record batches of format version 2, on the wire and on disk.
//
// A batch is a fixed header and a run of records. All integers are big endian.
//
//	off size field
//	  0    8 baseOffset            given by the broker; a client sends 0
//	  8    4 batchLength           bytes after this field
//	 12    4 partitionLeaderEpoch  given by the broker
//	 16    1 magic                 2
//	 17    4 crc                   CRC-32C of bytes 21..end
//	 21    2 attributes            bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
//	 23    4 lastOffsetDelta       also the delta of the last sequence
//	 27    8 baseTimestamp         or the delete horizon
//	 35    8 maxTimestamp          or, with LogAppendTime, the timestamp of every record
//	 43    8 producerId            -1: none
//	 51    2 producerEpoch         -1: none
//	 53    4 baseSequence          -1: none
//	 57    4 recordCount
//	 61      records               one compressed stream when attributes name a codec
//
// A record is
//
//	length varint, attributes int8, timestampDelta varint64, offsetDelta varint,
//	keyLength varint (-1: null), key, valueLength varint (-1: null), value,
//	headerCount varint, {keyLength varint, key, valueLength varint (-1: null), value}
//
// with zig-zag varints. The length does not count itself.
//
// # What the checksum covers, and what follows from it
//
// The broker may set baseOffset, partitionLeaderEpoch and batchLength without touching the checksum. Setting the timestamp
// type or maxTimestamp needs a new one, so it is recomputed exactly when one of them really changes. The checksum does not cover
// which partition the batch belongs to: that is the caller's care.
//
// # Who trusts what
//
// Frame trusts nothing and looks at the first 17 bytes only. Check trusts nothing either and proves checksum and header, which is
// what recovery and readers need. Validator does all that a leader owes a batch from a client: it walks every record, also inside a
// compressed batch, and refuses a batch that any consumer could stumble over. Accessors of Batch trust that Frame made it.
//
// # Bounds
//
// Compressed data is walked as a stream: whatever a batch inflates to, the walk holds one window (64 KiB) plus what the codec itself
// needs. Only Records buffers whole records, and only as bytes really arrive. Every walk has a limit on the total (InflateLimit).
//
// # Codecs
//
// gzip: RFC 1952. snappy: the framing of xerial's snappy-java (16 header bytes, then blocks with a 4-byte length in front) is
// written; it and a single bare block are read. lz4: the LZ4 frame format with independent blocks. zstd: RFC 8878 frames.
package record
