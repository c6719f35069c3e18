package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/record"
)

// topicParts is a topic that records are sent to.
type topicParts struct {
	name        string
	partitioner TopicPartitioner
	rules       queueRules
	unknown     atomic.Bool // the cluster said that it does not exist (any more)
	table       atomic.Pointer[partTable]
	mu          sync.Mutex // held while the table is replaced
	id          [16]byte   // guarded by mu; zero: not known
}

// partTable is the partitions of a topic. It does not change. A topic that was deleted and made anew may have fewer than before: what was sent to the others waits
// in their parts until it is too old.
type partTable struct {
	parts []*part
	view  Partitions // of those that there are
}

// topic is a topic that exists. The first time, it is asked for, within MaxBlock.
func (p *Producer) topic(ctx context.Context, name string) (*topicParts, error) {
	p.mu.Lock()
	t := p.mu.topics[name]
	p.mu.Unlock()
	if t != nil && !t.unknown.Load() {
		return t, nil
	}
	ctx, cancel := p.block(ctx)
	defer cancel()
	info, err := p.client.topic(ctx, name)
	if err != nil {
		if p.ctx.Err() != nil {
			err = ErrClosed
		}
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, ErrClosed
	}
	if t = p.mu.topics[name]; t == nil {
		t = &topicParts{name: name, partitioner: p.config.Partitioner.Topic(name), rules: p.rules}
		t.rules.topic = name
		t.table.Store(&partTable{})
		if p.mu.topics[name] = t; len(p.mu.topics) == 1 {
			p.begin()
		}
		p.client.metadata.want(name)
	}
	p.update(t, info)
	return t, nil
}

// block is a context that ends with MaxBlock and the producer, too.
func (p *Producer) block(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, p.config.MaxBlock)
	stop := context.AfterFunc(p.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// begin starts what a producer needs once. Producer.mu is held.
func (p *Producer) begin() {
	p.running.Go(p.watch)
	if !p.config.NotIdempotent {
		p.running.Go(p.learnID)
	}
}

// watch follows the cluster: partitions that are new, leaders that have moved.
func (p *Producer) watch() {
	for {
		cl := p.client.metadata.current()
		p.mu.Lock()
		for name, t := range p.mu.topics {
			if info := cl.topics[name]; info != nil && !p.mu.closed {
				p.update(t, info)
			}
		}
		p.mu.Unlock()
		select {
		case <-cl.next:
		case <-p.ctx.Done():
			return
		}
	}
}

// update takes over what is known of a topic. Producer.mu is held.
func (p *Producer) update(t *topicParts, info *topicInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.table.Load()
	t.unknown.Store(info.err != nil)
	if info.err != nil {
		return
	}
	table := &partTable{parts: old.parts}
	if len(info.partitions) > len(old.parts) {
		table.parts = append([]*part(nil), old.parts...)
		for n := len(old.parts); n < len(info.partitions); n++ {
			table.parts = append(table.parts, newPart(p, t, int32(n)))
		}
	}
	if table.view.Count = len(info.partitions); info.id == t.id || info.id == [16]byte{} {
		table.view.Count = max(table.view.Count, old.view.Count) // the same topic: the broker has not yet heard of all
	}
	t.id = info.id
	for n, part := range table.parts {
		leader := int32(-1)
		if n < len(info.partitions) {
			leader = info.partitions[n].leader
		}
		if leader >= 0 {
			table.view.Writable = append(table.view.Writable, int32(n))
		}
		part.moveTo(p.senderOf(leader))
	}
	t.table.Store(table)
}

// senderOf is the sender to a broker; -1: to nobody. Producer.mu is held.
func (p *Producer) senderOf(broker int32) *sender {
	s := p.mu.senders[max(broker, -1)]
	if s == nil {
		s = &sender{producer: p, broker: max(broker, -1), wake: make(chan struct{}, 1)}
		s.wakeAt.Store(never)
		p.mu.senders[s.broker] = s
		p.running.Go(s.run)
	}
	return s
}

// learnID asks for the id of an idempotent producer.
func (p *Producer) learnID() {
	for tries := 1; ; tries++ {
		id, err := p.askID()
		if p.ctx.Err() != nil {
			return
		}
		if err == nil {
			p.id.Store(id)
			p.idError.Store(nil)
			p.wakeAll()
			return
		}
		_, unsupported := errors.AsType[*UnsupportedError](err)
		if _, refused := errors.AsType[*Error](err); unsupported || refused && !Retriable(err) {
			p.fail(&FatalError{fmt.Errorf("it gets no id, without which it cannot be idempotent (NotIdempotent): %w", err)})
			return
		}
		p.idError.Store(&err)
		p.client.config.Logger.Debug("no producer id", "err", err)
		if p.client.sleep(p.ctx, p.client.backoff(tries)) != nil {
			return
		}
	}
}

func (p *Producer) askID() (int64, error) {
	conn, err := p.client.anyBroker(p.ctx)
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = record.NoProducerID, record.NoEpoch
	resp, err := p.client.request(p.ctx, conn, req)
	if err != nil {
		return 0, err
	}
	r := resp.(*kmsg.InitProducerIDResponse)
	return r.ProducerID, rpc.ErrorOf(r.ErrorCode, nil, "producer id of "+conn.Addr())
}

func (p *Producer) wakeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.mu.senders {
		s.nudge()
	}
}
