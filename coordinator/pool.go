package coordinator

import "sync"

// pool is a fixed set of goroutines that give turns to whoever is scheduled, first come first served. Who is scheduled is not
// scheduled again before its turn has begun, so the queue is no longer than there are shards.
type pool struct {
	mu struct {
		sync.Mutex
		queue  []turner
		closed bool
	}
	more *sync.Cond
	done sync.WaitGroup
}

type turner interface{ turn() }

func newPool(workers int) *pool {
	p := new(pool)
	p.more = sync.NewCond(&p.mu)
	for range workers {
		p.done.Go(p.run)
	}
	return p
}

func (p *pool) schedule(t turner) {
	p.mu.Lock()
	p.mu.queue = append(p.mu.queue, t)
	p.mu.Unlock()
	p.more.Signal()
}

func (p *pool) run() {
	for {
		t := p.next()
		if t == nil {
			return
		}
		t.turn()
	}
}

// next waits for somebody who is scheduled; nil when the pool is closed and everybody had their turn.
func (p *pool) next() turner {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.mu.queue) == 0 {
		if p.mu.closed {
			return nil
		}
		p.more.Wait()
	}
	t := p.mu.queue[0]
	n := copy(p.mu.queue, p.mu.queue[1:])
	p.mu.queue[n] = nil
	p.mu.queue = p.mu.queue[:n]
	return t
}

// close ends the goroutines when the queue is empty.
func (p *pool) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.more.Broadcast()
	p.done.Wait()
}
