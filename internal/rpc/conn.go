// Package rpc asks a broker: one outbound connection that speaks Kafka's protocol.
//
// # States
//
//	Dial      connects and asks for the broker's versions (ApiVersions), with the oldest form of the question when the newest is refused
//	open      requests are written one after the other and answered in the same order; up to Options.InFlight wait for their answers
//	failed    the first error of the connection; it is the answer to everything that waits, and to everything that comes
//	closed    Close: failed on purpose. It returns when the reading goroutine has ended
//
// A request is sent in the highest version that both sides have. One whose context ends is given up: its answer is read and dropped when it comes, and the
// connection goes on, unless part of the request had been written only. Go and GoRaw don't wait (async.go): their answers are handed to a function.
//
// # Owner and lock
//
// The reading goroutine belongs to the Conn and ends with it; the functions that get answers run on it. turn is held while a request is numbered, queued and written: the order of the queue is that of the
// wire. mu guards the queue and the error and is held over no I/O.
//
// # What is trusted
//
// Nothing. An answer's size is checked against a limit and its memory grows only as bytes arrive; its correlation id must be the expected one; its body is
// parsed with bounds. What breaks a rule is a *NotKafkaError.
package rpc

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Limits.
const (
	DefaultInFlight  = 16
	DefaultMaxAnswer = 100 << 20 // bytes; Kafka's own limit for requests
	DefaultTimeout   = 30 * time.Second
	hearOutTime      = 100 * time.Millisecond
	firstRead        = 64 << 10 // what is read of an answer at once before it is known to be there, unless an answer as long came before
	readBuffer       = 4 << 10  // what is longer is read past it
)

// Options make a Conn.
type Options struct {
	ClientID  string
	Timeout   time.Duration // for Dial and for each request whose context has no earlier deadline; 0: DefaultTimeout
	MaxAnswer int           // bytes of an answer; 0: DefaultMaxAnswer
	InFlight  int           // requests that wait for their answers; 0: DefaultInFlight
	// Memory is the memory of an answer of n bytes, before it is known that they come; nil, or when it returns nil: memory is taken as they come. The reading goroutine calls it.
	Memory func(n int) []byte
	// Dial makes the connection, TLS and all; nil: TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = DefaultMaxAnswer
	}
	if o.InFlight <= 0 {
		o.InFlight = DefaultInFlight
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	return o
}

// Conn is a connection to one broker. Its methods may be used by several goroutines.
type Conn struct {
	addr      string
	o         Options
	net       net.Conn
	reader    *bufio.Reader // the reading goroutine's
	longest   int           // bytes of the longest answer so far; the reading goroutine's
	formatter *kmsg.RequestFormatter
	versions  map[int16]kmsg.ApiVersionsResponseApiKey

	slots chan struct{} // one for each request in flight
	turn  chan struct{} // held by whoever writes
	next  int32         // correlation id; guarded by turn

	mu struct {
		sync.Mutex
		waiting []*exchange // in the order in which they were sent
		err     error
	}
	failed chan struct{} // closed when mu.err is set
	ended  chan struct{} // closed when the reader is gone
}

// exchange is a request on its way.
type exchange struct {
	id     int32
	answer chan []byte // the body behind the correlation id; one place. Or:
	done   func(body []byte, err error)
	timer  *time.Timer // ends the connection when done waits too long
}

// Dial connects to a broker, HOST:PORT, and learns its versions.
func Dial(ctx context.Context, addr string, o Options) (*Conn, error) {
	o = o.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	c, err := o.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, &UnreachableError{Addr: addr, Err: err}
	}
	conn := &Conn{
		addr: addr, o: o, net: c, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(o.ClientID)),
		reader: bufio.NewReaderSize(c, readBuffer), slots: make(chan struct{}, o.InFlight), turn: make(chan struct{}, 1), failed: make(chan struct{}), ended: make(chan struct{}),
	}
	go conn.read()
	if err := conn.learnVersions(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Addr is the address that was dialled.
func (c *Conn) Addr() string { return c.addr }

// Close ends the connection: what waits is answered with an error, before it returns. A function that gets an answer must not call it; see Break.
func (c *Conn) Close() {
	c.fail(net.ErrClosed)
	<-c.ended
}

// Break ends the connection for a reason and waits for nothing.
func (c *Conn) Break(err error) { c.fail(err) }

// Err is why the connection cannot be used any more; nil while it can.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// Request sends a request in the highest version that both sides have, up to newest (negative: no limit), and waits for the answer. Error codes within
// the answer are the caller's. Errors: *UnsupportedError, *NotKafkaError, *TimeoutError, *LostError.
func (c *Conn) Request(ctx context.Context, req kmsg.Request, newest int16) (kmsg.Response, error) {
	version, err := c.version(req, newest)
	if err != nil {
		return nil, err
	}
	req.SetVersion(version)
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	body, err := c.exchange(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, err := parse(req, body)
	if err != nil {
		return nil, c.Unreadable(req.Key(), version, err)
	}
	return resp, nil
}

// exchange sends a request as it is and returns what is behind the correlation id of the answer.
func (c *Conn) exchange(ctx context.Context, req kmsg.Request) ([]byte, error) {
	if err := c.take(ctx, req.Key(), c.slots); err != nil {
		return nil, err
	}
	x, err := c.send(ctx, req)
	if err != nil {
		c.release()
		return nil, err
	}
	select {
	case body := <-x.answer:
		return body, nil
	case <-c.failed:
	case <-ctx.Done():
		return nil, c.late(ctx, req.Key())
	}
	select { // the answer may have been the last one before the failure
	case body := <-x.answer:
		return body, nil
	default:
		return nil, c.Err()
	}
}

// take takes a place, of those in flight or the turn to write.
func (c *Conn) take(ctx context.Context, key int16, place chan struct{}) error {
	if ctx.Err() != nil {
		return c.late(ctx, key)
	}
	select {
	case place <- struct{}{}:
		return nil
	case <-c.failed:
		return c.Err()
	case <-ctx.Done():
		return c.late(ctx, key)
	}
}

// release gives the place of a request back. When a write fails whose answer came all the same, it is given back twice.
func (c *Conn) release() {
	select {
	case <-c.slots:
	default:
	}
}

func (c *Conn) send(ctx context.Context, req kmsg.Request) (*exchange, error) {
	if err := c.take(ctx, req.Key(), c.turn); err != nil {
		return nil, err
	}
	defer func() { <-c.turn }()
	c.next++
	x := &exchange{id: c.next, answer: make(chan []byte, 1)}
	if err := c.enqueue(x); err != nil {
		return nil, err
	}
	frame := c.formatter.AppendRequest(nil, req, x.id)
	if err := c.write(ctx, net.Buffers{frame}); err != nil {
		return nil, c.cut(ctx, req.Key(), err)
	}
	return x, nil
}

// cut ends the connection after a failed write: part of the request may be on its way, and nothing can follow.
func (c *Conn) cut(ctx context.Context, key int16, err error) error {
	if ctx.Err() != nil {
		err = c.late(ctx, key)
	} else {
		err = &LostError{Addr: c.addr, Err: err}
		c.hearOut(ctx)
	}
	c.fail(err)
	return c.Err()
}

// write writes a frame, until the context ends. A deadline that came behind the last byte is taken back: the next request must not meet it.
func (c *Conn) write(ctx context.Context, frame net.Buffers) error {
	passed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.net.SetWriteDeadline(time.Unix(1, 0))
		close(passed)
	})
	_, err := frame.WriteTo(c.net)
	if !stop() {
		<-passed
		_ = c.net.SetWriteDeadline(time.Time{})
	}
	return err
}

// hearOut lets the reader find out why a connection is of no use before a failed write says that it is: what the other side has sent says more.
func (c *Conn) hearOut(ctx context.Context) {
	t := time.NewTimer(hearOutTime)
	defer t.Stop()
	select {
	case <-c.failed:
	case <-ctx.Done():
	case <-t.C:
	}
}

func (c *Conn) enqueue(x *exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err != nil {
		return c.mu.err
	}
	c.mu.waiting = append(c.mu.waiting, x)
	return nil
}

// dequeue is the exchange whose answer comes next; nil when nothing was asked.
func (c *Conn) dequeue() *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.waiting) == 0 {
		return nil
	}
	x := c.mu.waiting[0]
	c.mu.waiting = c.mu.waiting[1:]
	return x
}

// late is the error of a request whose context has ended.
func (c *Conn) late(ctx context.Context, key int16) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &TimeoutError{Addr: c.addr, Request: kmsg.NameForKey(key)}
	}
	return ctx.Err()
}

// fail ends the connection; the first reason stays.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err == nil {
		c.mu.err = err
		close(c.failed)
		_ = c.net.Close()
	}
}

// read is the reading goroutine.
func (c *Conn) read() {
	defer close(c.ended)
	defer c.failWaiting()
	for {
		id, body, err := c.readAnswer()
		if err != nil {
			c.fail(err)
			return
		}
		x := c.dequeue()
		if x == nil || x.id != id {
			c.fail(&NotKafkaError{Addr: c.addr, Why: "it sent an answer that nobody asked for"})
			if x != nil {
				x.deliver(nil, c.Err())
			}
			return
		}
		c.release()
		x.deliver(body, nil)
	}
}

// stranger says who answers so, where that is known.
func stranger(head []byte, otherwise string) string {
	switch {
	case len(head) >= 2 && head[0] == 0x15 && head[1] == 3: // an alert, the answer to what is no handshake
		return "it is a listener with TLS; connect to it with TLS, or to one without"
	case string(head) == "HTTP":
		return "it is a web server (its answer begins with HTTP)"
	}
	return fmt.Sprintf(otherwise, head)
}

func (c *Conn) readAnswer() (id int32, body []byte, err error) {
	var head [8]byte
	if n, err := io.ReadFull(c.reader, head[:4]); err != nil {
		if n > 0 && head[0] != 0 {
			return 0, nil, &NotKafkaError{Addr: c.addr, Why: stranger(head[:n], "its answer is %q")}
		}
		return 0, nil, &LostError{Addr: c.addr, Err: err}
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || int64(size) > int64(c.o.MaxAnswer) {
		return 0, nil, &NotKafkaError{Addr: c.addr, Why: stranger(head[:4], fmt.Sprintf("its answer begins with %%q: as a size that is %d bytes", size))}
	}
	if _, err := io.ReadFull(c.reader, head[4:]); err != nil {
		return 0, nil, &LostError{Addr: c.addr, Err: err}
	}
	if body, err = c.readBody(int(size) - 4); err != nil {
		return 0, nil, &LostError{Addr: c.addr, Err: err}
	}
	c.longest = max(c.longest, len(body))
	return int32(binary.BigEndian.Uint32(head[4:])), body, nil
}

// readBody reads what is behind the correlation id.
func (c *Conn) readBody(n int) ([]byte, error) {
	if c.o.Memory != nil {
		if b := c.o.Memory(n); len(b) == n && n > 0 {
			_, err := io.ReadFull(c.reader, b)
			return b, err
		}
	}
	return readGrowing(c.reader, n, max(firstRead, c.longest))
}

// readGrowing reads n bytes; above first, memory is taken as they come, at most twice what is there.
func readGrowing(r io.Reader, n, first int) ([]byte, error) {
	b := make([]byte, min(n, first))
	for at := 0; ; {
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			return nil, err
		}
		if len(b) == n {
			return b, nil
		}
		at = len(b)
		b = append(b, make([]byte, min(n-at, at))...)
	}
}

// parse reads the answer to a request.
func parse(req kmsg.Request, body []byte) (kmsg.Response, error) {
	if req.IsFlexible() && req.Key() != keyAPIVersions { // which answers with the old header, always
		rest, err := skipTags(body)
		if err != nil {
			return nil, err
		}
		body = rest
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, resp.ReadFrom(body)
}

// skipTags passes the tagged fields of an answer's header.
func skipTags(b []byte) ([]byte, error) {
	n, b, err := cutUvarint(b)
	for ; err == nil && n > 0; n-- {
		var size uint64
		if _, b, err = cutUvarint(b); err == nil {
			size, b, err = cutUvarint(b)
		}
		if err == nil && size > uint64(len(b)) {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			b = b[size:]
		}
	}
	return b, err
}

func cutUvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return v, b[n:], nil
}
