package client

import (
	"errors"
	"fmt"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// ErrClosed: the Client, Producer or Consumer is closed.
var ErrClosed = errors.New("the client is closed")

var errOneGroup = errors.New("it is not about one group")

// Errors of connections and answers.
type (
	// Error is an error code of an answer, and what it is about.
	Error = rpc.CodeError
	// UnreachableError: no connection could be made.
	UnreachableError = rpc.UnreachableError
	// NotKafkaError: whoever is there does not keep to Kafka's protocol.
	NotKafkaError = rpc.NotKafkaError
	// LostError: the connection ended before the answer came.
	LostError = rpc.LostError
	// TimeoutError: no answer in time. The broker may have done what it was asked to do. It is context.DeadlineExceeded, too.
	TimeoutError = rpc.TimeoutError
	// UnsupportedError: there is no version of a request that both sides have.
	UnsupportedError = rpc.UnsupportedError
)

// UnknownTopicError: the cluster has no such topic.
type UnknownTopicError struct{ Topic, Server string }

func (e *UnknownTopicError) Error() string {
	return fmt.Sprintf("there is no topic %s at %s: create it, or let brokers create topics (AutoCreateTopics)", e.Topic, e.Server)
}

// Retriable reports whether the same call may succeed later: by Kafka's code, or because a connection was the trouble and not the answer.
func Retriable(err error) bool {
	if _, ok := errors.AsType[*TimeoutError](err); ok {
		return true
	}
	return rpc.Retriable(err)
}

// Code is Kafka's code in an error; protocol.None when there is none.
func Code(err error) protocol.Code {
	if _, ok := errors.AsType[*UnknownTopicError](err); ok {
		return protocol.UnknownTopicOrPartition
	}
	return rpc.Code(err)
}

// gaveUp is why a wait ended: the context, and what was last heard.
type gaveUp struct{ ctx, last error }

func (e *gaveUp) Error() string   { return fmt.Sprintf("%v; the last error: %v", e.ctx, e.last) }
func (e *gaveUp) Unwrap() []error { return []error{e.ctx, e.last} }

// giveUp is the error of a call whose context has ended after an error that would have been retried.
func giveUp(ctx, last error) error {
	if last == nil || errors.Is(last, ctx) {
		return ctx
	}
	return &gaveUp{ctx, last}
}
