// Package client speaks to leat and to any other cluster that speaks Kafka's protocol.
//
// A Client is the connections to a cluster and what is known of it. Producers and consumers are made from it and share it:
//
//	c, err := client.New(client.Config{BootstrapServers: []string{"localhost:9092"}})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//
// A Producer sends records: Send copies a record into the batch of its partition and returns, and a function is told where it went.
//
//	p, err := c.NewProducer(client.ProducerConfig{})
//	...
//	err = p.Send(ctx, &client.Record{Topic: "orders", Key: key, Value: value}, func(d client.Delivery, err error) { ... })
//	...
//	err = p.Close(ctx)
//
// A Consumer reads them: Poll returns what has come, of the partitions that it was told (Assign) or that the members of its group share (Subscribe).
//
//	r, err := c.NewConsumer(client.ConsumerConfig{Group: "billing"})
//	...
//	err = r.Subscribe("orders")
//	...
//	records, err := r.Poll(ctx, 0)
//	...
//	err = r.Close(ctx)
//
// New checks its configuration and connects to nothing: the first call that needs the cluster does, within its context. Every call that may wait takes a context.
// Errors are typed; Code and Retriable tell Kafka's code and whether the same call may succeed later.
//
// # What is known of the cluster
//
// One goroutine of the Client asks for metadata: of the topics that somebody wants, when they get older than Config.MetadataMaxAge, when somebody wants another one, and when an answer
// shows that something has moved. Whoever needs fresh metadata waits for it; there is one question at a time, and between two of them is a back-off with jitter, but for a topic that was not asked for before. A
// snapshot is immutable and replaced as a whole. A partition's leader never goes back to an older epoch than one that was seen of the same topic id: brokers learn of a change
// one after the other.
//
// # Connections
//
// One for each broker and purpose: long polls of a consumer do not hold up anybody else. Connections are made when they are needed, by a goroutine of their own, so that a caller
// who gives up does not take it away from others; after a failure, the next attempt waits (back-off with jitter). A broker that has left the cluster loses its connections.
//
// # Records that are sent
//
//	open       a partition's batch that takes records: until it is full, has lingered, or somebody flushes or needs its memory
//	waiting    sealed; it has no number yet, or is to be sent again with the one it has
//	in flight  written to the leader's connection, which has its bytes
//	finished   acknowledged, rejected, or too old; its functions are called when those of all batches before it have been
//
// An idempotent producer's records are in the log once and in the order of Send, through any loss of connections and brokers; or the producer ends and says why (FatalError). Without
// idempotence a retry may double records and change their order. A record that failed with DeliveryTimeoutError may be in the log when its Sent is true, and is not when it is false. Memory
// is never above ProducerConfig.BufferMemory, but for a moment when a batch is divided.
//
// # Owners and locks
//
// metadata.mu guards what is wanted, conns.mu the table of connections, coordinators.mu the homes of groups; none is held over I/O, nor over another lock but that metadata.mu is held over users, for the first question. Close ends everything and returns when all
// goroutines have ended.
package client
