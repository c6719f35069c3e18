package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/leatmq/leat/protocol"
)

// UnreachableError: no connection could be made.
type UnreachableError struct {
	Addr string
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s cannot be reached: %v", e.Addr, e.Err)
}
func (e *UnreachableError) Unwrap() error { return e.Err }

// NotKafkaError: whoever is there does not keep to Kafka's protocol.
type NotKafkaError struct {
	Addr, Why string
	Silent    bool // it said nothing, or not all of an answer: it may be a broker that ends or begins
}

func (e *NotKafkaError) Error() string {
	return fmt.Sprintf("%s does not speak Kafka's protocol: %s", e.Addr, e.Why)
}

// LostError: the connection ended before the answer came.
type LostError struct {
	Addr string
	Err  error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the connection to %s is lost: %v", e.Addr, e.Err)
}
func (e *LostError) Unwrap() error { return e.Err }

// TimeoutError: no answer in time. The broker may have done what it was asked to do.
type TimeoutError struct{ Addr, Request string }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s did not answer %s in time", e.Addr, e.Request)
}
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// UnsupportedError: there is no version of a request that both sides have.
type UnsupportedError struct {
	Addr, Request  string
	Ours, Min, Max int16 // the newest version here, and the broker's range
	Known          bool  // the broker has the API, in other versions
}

func (e *UnsupportedError) Error() string {
	if !e.Known {
		return fmt.Sprintf("%s has no %s", e.Addr, e.Request)
	}
	return fmt.Sprintf("%s has %s in versions %d-%d, newer than %d is not known here", e.Addr, e.Request, e.Min, e.Max, e.Ours)
}

// CodeError is an error code of an answer.
type CodeError struct {
	Code    protocol.Code
	Message string // of the broker; "" for none
	Where   string // what it is about: a group, a topic, a partition, an address
}

// ErrorOf makes an error of a code; nil for none.
func ErrorOf(code int16, message *string, where string) error {
	if code == 0 {
		return nil
	}
	e := &CodeError{Code: protocol.Code(code), Where: where}
	if message != nil {
		e.Message = *message
	}
	return e
}

func (e *CodeError) Error() string {
	text := e.Message
	if text == "" {
		text = e.Code.Message()
	}
	return fmt.Sprintf("%s: %s (%s)", e.Where, text, e.Code.Name())
}

// Retriable reports whether the same request may succeed later.
func (e *CodeError) Retriable() bool { return e.Code.Retriable() }

// Retriable reports whether the same request may succeed later: by the code, or because the connection was the trouble and not the answer.
func Retriable(err error) bool {
	if e, ok := errors.AsType[*CodeError](err); ok {
		return e.Code.Retriable()
	}
	if _, ok := errors.AsType[*LostError](err); ok {
		return true
	}
	_, ok := errors.AsType[*UnreachableError](err)
	return ok
}

// Code is the code of a CodeError; protocol.None for other errors.
func Code(err error) protocol.Code {
	if e, ok := errors.AsType[*CodeError](err); ok {
		return e.Code
	}
	return protocol.None
}
