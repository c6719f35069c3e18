// Package load is a load generator for any broker that speaks Kafka's protocol: it produces, fetches, and measures the way from a producer to consumers.
// `leat bench` and the comparison with Kafka use it, so that every broker meets the same client.
//
// # What it does
//
// One thread drives all connections: it sends prebuilt frames, keeps a number of requests in flight on each connection, and checks every answer. Payloads
// are random bytes. Loads (ProduceLoad, FetchLoad, CommitLoad) run together in one Run, which first warms up, then measures for a time or an amount of bytes, then
// waits for the answers that are still due.
//
// # What it checks
//
//   - produce: the error code and the base offset of every answer; offsets of a partition follow each other without a gap when nobody else writes
//   - fetch: the error code and length of every answer; of whole answers also each batch's CRC, its count of records, and that offsets have no gap. All answers
//     are read whole unless the load knows the layout (Uniform); then one of sampleEvery is
//   - commit: the error codes of every answer; Verify reads back that the offsets acknowledged last are there
//   - tail: that each consumer has seen every record that was acknowledged before the run ends
//
// A failed check ends the run with an error: there are no figures for wrong answers.
//
// # What the latency is
//
// Without a rate, a request is sent as soon as an answer makes room for it, and its latency runs from there. With a rate, requests have a timetable; latency runs
// from the time when the request was to be sent, whether it could be sent then or not, so that a broker that stalls is charged for all
// the requests it kept from being sent. The latency of a tail is from the time when the batch was to be sent to the time when a consumer has it.
//
// Linux sockets are driven by epoll; elsewhere there is a goroutine for each connection, which works the same and costs more.
package load
