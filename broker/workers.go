package broker

import "sync"

// workers runs tasks on at most max goroutines, which end when there is nothing to do. Submit never blocks; what waits is bounded by what the
// connections may have in flight (netio.Options.MaxInFlight each). Tasks run in the order they came when max is 1, in no order otherwise.
type workers struct {
	max int
	mu  struct {
		sync.Mutex
		queue   []func() // FIFO; head is the next index to run
		head    int
		running int
		stopped bool
	}
	idle sync.WaitGroup
}

func newWorkers(max int) *workers { return &workers{max: max} }

// submit queues a task. It returns false, and drops the task, when the workers were stopped.
func (w *workers) submit(task func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.stopped {
		return false
	}
	w.mu.queue = append(w.mu.queue, task)
	if w.mu.running < w.max {
		w.mu.running++
		w.idle.Add(1)
		go w.run()
	}
	return true
}

func (w *workers) run() {
	defer w.idle.Done()
	for {
		task, ok := w.next()
		if !ok {
			return
		}
		task()
	}
}

// next takes the oldest task; without one the calling goroutine's place is given up.
func (w *workers) next() (func(), bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.head == len(w.mu.queue) {
		w.mu.queue, w.mu.head = w.mu.queue[:0], 0
		w.mu.running--
		return nil, false
	}
	task := w.mu.queue[w.mu.head]
	w.mu.queue[w.mu.head] = nil
	w.mu.head++
	if w.mu.head >= 1024 && w.mu.head*2 >= len(w.mu.queue) {
		n := copy(w.mu.queue, w.mu.queue[w.mu.head:])
		clear(w.mu.queue[n:])
		w.mu.queue, w.mu.head = w.mu.queue[:n], 0
	}
	return task, true
}

// stop refuses new tasks and waits for those that were accepted.
func (w *workers) stop() {
	w.mu.Lock()
	w.mu.stopped = true
	w.mu.Unlock()
	w.idle.Wait()
}
