// Package bench measures leat beside the least that the machine could do: every workload runs in turns with a floor, a bare loop of the system calls
// it cannot do without, on the same files and sockets, so that a noisy machine is noisy for both. There is nothing in it but benchmarks:
//
//	make bench                                           everything, with a table at the end
//	go test -run '^$' -bench Produce/P64 ./bench         one workload
//	go test -run '^$' -bench Fetch ./bench -rounds 9     more rounds
//	go test -run '^$' -bench E16 ./bench -profile DIR    CPU and allocation profiles of the broker
//
// A benchmark warms up, then runs the workload and its floor in turns, -rounds times for -round each, and reports medians. Iterations (b.N) have
// no meaning here. docs/BENCHMARKS.md describes the workloads and has figures.
//
// # Processes
//
// The load generator is this test binary. Brokers, and floors that are servers, are children of it (the same binary again, see child_test.go), so that
// their CPU time and allocations are theirs alone. The load generator is one thread on an epoll that sends prebuilt frames and checks answers: offsets of
// every produce, length of every fetch, and CRC and offsets of all batches in one fetch of sampleEvery.
//
// The suites are for Linux.
package bench
