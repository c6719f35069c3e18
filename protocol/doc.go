// Package protocol turns bytes into typed requests and answers into bytes: header rules, the table of APIs and versions, error codes, bounded
// decoding, and by hand the few messages that carry records. It knows no socket, no log and no broker.
//
// # Frames
//
// A frame is an int32 size and that many bytes. netio cuts frames; here a request is what follows the size, and an answer is built with it.
//
//	request   key int16, version int16, correlation id int32, client id nullable string, [tagged fields], body
//	answer    size int32, correlation id int32, [tagged fields], body
//
// All numbers are big endian. From the API's Flexible version on, headers and structures end in tagged fields and lengths in bodies are compact
// (an unsigned varint of the length plus one, 0 for null). Two exceptions: the client id keeps its 2-byte length in every version, and an ApiVersions
// answer never has tagged fields in its header, because a client reads it before it knows what the broker speaks.
//
// A request whose key or version is not in APIs gets no answer: the connection is closed, as Kafka does (UnsupportedError). Only ApiVersions is told
// the range it may use (UnsupportedAPIVersions). Tagged fields may be unknown, unordered and repeated; bytes behind a body are ignored; a negative
// array length is null: all as seen on Kafka 4.4.0.
//
// # Messages
//
// Requests and answers are kmsg's structures, which come from Kafka's own definitions. By hand, because it was measured to matter:
//
//   - FetchEncoder: kmsg would copy all records through memory; here they never leave the page cache. 0 allocations.
//   - ProduceRequest: a walk over the frame in place of structures. 0 allocations; records alias the frame.
//   - AppendProduceResponse: reused structures. 0 allocations.
//
// Each is tested byte for byte against kmsg, with fuzzing.
//
// # Memory
//
// A hostile frame is small and asks for much: a topic without a name takes 2 bytes on the wire and 70 in memory, a tagged field 2 and up to 400. kmsg
// checks an array's length only against the bytes that are left, so a body could cost 97 times its size (measured over all APIs and versions). A
// limit on frames cannot be low enough to make that harmless, and limits on counts are either too low for somebody or too high. So the cost itself is
// limited: Decode first walks over the body along its layout (layouts.go), allocating nothing, and adds up what the structures will take; above
// MemoryLimit, which is 256 KiB plus 8 times the body, the request is refused. Real requests take 1 to 5 times their body. Bodies of up to 2 KiB cannot
// reach the limit whatever they say and are not walked over, so that the common request pays nothing; a walk costs about a tenth of the decoding
// it guards. The estimate is never below what is really allocated: a test measures both with the worst bodies of every API and version.
//
// A layout needs only what decides about lengths. It names kmsg's fields, from whose types the sizes are taken; tests show that it fits every byte that
// kmsg writes in every version, and fuzzing that both see the same requests in the same bytes.
package protocol
