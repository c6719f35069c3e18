package rpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Raw is a request whose body its caller encodes.
type Raw struct {
	Key, Version int16
	Flexible     bool // at this version
	// Body is written as it is, without a copy: it must not change until the answer is there. The slice of slices is used up.
	Body net.Buffers
}

// Version is the highest version of an API that both sides have, up to newest. Errors: *UnsupportedError.
func (c *Conn) Version(key, newest int16) (int16, error) {
	k, ok := c.versions[key]
	if !ok || k.MinVersion > newest || k.MaxVersion < k.MinVersion {
		return 0, &UnsupportedError{Addr: c.addr, Request: kmsg.NameForKey(key), Ours: newest, Known: ok, Min: k.MinVersion, Max: k.MaxVersion}
	}
	return min(newest, k.MaxVersion), nil
}

// Go sends a request like Request, and returns when it is written. done gets the answer, exactly once, in the order of the requests, on the connection's
// reading goroutine: it must not block, for nothing else is read meanwhile. An error returned means that nothing was sent and done is not called.
// A request that waits longer than timeout (0: Options.Timeout) for its answer ends the connection: what was asked behind it would have to wait as well.
// The context counts until the request is written.
func (c *Conn) Go(ctx context.Context, req kmsg.Request, newest int16, timeout time.Duration, done func(kmsg.Response, error)) error {
	version, err := c.version(req, newest)
	if err != nil {
		return err
	}
	req.SetVersion(version)
	raw := Raw{Key: req.Key(), Version: version, Flexible: req.IsFlexible(), Body: net.Buffers{req.AppendTo(nil)}}
	return c.GoRaw(ctx, raw, timeout, func(body []byte, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		resp := req.ResponseKind()
		resp.SetVersion(version)
		if err := resp.ReadFrom(body); err != nil {
			done(nil, c.Unreadable(req.Key(), version, err))
			return
		}
		done(resp, nil)
	})
}

// GoRaw is Go for a request and an answer that the caller encodes and decodes; the answer is the caller's. It is what is behind the header. With done == nil
// the broker is known not to answer, as to Produce with acks 0.
func (c *Conn) GoRaw(ctx context.Context, req Raw, timeout time.Duration, done func(body []byte, err error)) error {
	if timeout <= 0 {
		timeout = c.o.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if done == nil {
		return c.post(ctx, req, nil)
	}
	if err := c.take(ctx, req.Key, c.slots); err != nil {
		return err
	}
	x := &exchange{done: done}
	if req.Flexible {
		x.done = func(body []byte, err error) {
			if err == nil {
				if body, err = skipTags(body); err != nil {
					err = c.Unreadable(req.Key, req.Version, err)
				}
			}
			done(body, err)
		}
	}
	x.timer = time.AfterFunc(timeout, func() { c.fail(&TimeoutError{Addr: c.addr, Request: kmsg.NameForKey(req.Key)}) })
	err := c.post(ctx, req, x)
	if err != nil {
		x.timer.Stop()
		c.release()
	}
	return err
}

// post numbers, queues and writes a request. When writing fails, whoever waits for the answer is told by the reading goroutine.
func (c *Conn) post(ctx context.Context, req Raw, x *exchange) error {
	if err := c.take(ctx, req.Key, c.turn); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	c.next++
	if x != nil {
		x.id = c.next
		if err := c.enqueue(x); err != nil {
			return err
		}
	}
	frame := append(net.Buffers{c.header(req, c.next)}, req.Body...)
	if err := c.write(ctx, frame); err != nil {
		if err = c.cut(ctx, req.Key, err); x == nil {
			return err
		}
	}
	return nil
}

// header is the size and the header of a request: key, version, correlation id, client id and, when it is flexible, no tagged fields.
func (c *Conn) header(req Raw, id int32) []byte {
	client := c.o.ClientID[:min(len(c.o.ClientID), math.MaxInt16)]
	b := make([]byte, 4, 15+len(client))
	b = binary.BigEndian.AppendUint16(b, uint16(req.Key))
	b = binary.BigEndian.AppendUint16(b, uint16(req.Version))
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	b = binary.BigEndian.AppendUint16(b, uint16(len(client)))
	b = append(b, client...)
	if req.Flexible {
		b = append(b, 0)
	}
	size := len(b) - 4
	for _, part := range req.Body {
		size += len(part)
	}
	binary.BigEndian.PutUint32(b, uint32(size))
	return b
}

// Unreadable ends the connection: an answer that cannot be read is not Kafka's. The error is returned.
func (c *Conn) Unreadable(key, version int16, err error) error {
	err = &NotKafkaError{Addr: c.addr, Why: fmt.Sprintf("its answer to %s version %d cannot be read: %v", kmsg.NameForKey(key), version, err)}
	c.fail(err)
	return err
}

// deliver hands the answer to whoever waits.
func (x *exchange) deliver(body []byte, err error) {
	if x.done == nil {
		if err == nil { // who waits otherwise sees that the connection has failed
			x.answer <- body
		}
		return
	}
	x.timer.Stop()
	x.done(body, err)
}

// failWaiting tells all that wait, in order, that the connection has failed. Nobody queues any more.
func (c *Conn) failWaiting() {
	err := c.Err()
	for x := c.dequeue(); x != nil; x = c.dequeue() {
		x.deliver(nil, err)
	}
}
