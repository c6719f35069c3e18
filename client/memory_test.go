package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
)

func TestBufferSizes(t *testing.T) {
	m := newBufferPool(1<<20, 100_000, nil)
	for n, want := range map[int]int{0: 1024, 1: 1024, 1024: 1024, 1025: 2048, 65536: 65536, 65537: 100_000, 100_000: 100_000, 100_001: 100_001} {
		if got := m.sizeFor(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
		if buf := m.try(n); cap(buf) != want || len(buf) != 0 {
			t.Errorf("%d: a buffer of %d", n, cap(buf))
		}
	}
}

// Used and kept together stay within the limit; what is given back is used again.
func TestMemoryLimit(t *testing.T) {
	m := newBufferPool(10<<10, 4<<10, nil)
	a, b := m.try(4<<10), m.try(4<<10)
	if a == nil || b == nil || m.try(4<<10) != nil || m.try(3<<10) != nil {
		t.Fatal("not what there is room for")
	}
	small := m.try(2 << 10)
	if small == nil || m.try(1) != nil {
		t.Fatal("not all of it")
	}
	m.put(a)
	if again := m.try(3 << 10); again == nil || &again[:1][0] != &a[:1][0] {
		t.Fatal("a buffer that was given back is not used")
	}
	m.put(a)
	m.put(small)
	if m.try(6<<10) == nil { // of its own size; what is kept goes
		t.Fatal("what is kept does not make room")
	}
	if m.mu.used != 10<<10 || m.mu.kept != 0 || m.inUse() != 10<<10 {
		t.Errorf("used %d, kept %d", m.mu.used, m.mu.kept)
	}
	m.put(make([]byte, 6<<10)) // is not kept
	if m.mu.used != 4<<10 || m.mu.kept != 0 {
		t.Errorf("used %d, kept %d", m.mu.used, m.mu.kept)
	}
}

// Those that wait are served in their order; whoever gives up does not stand in the way.
func TestMemoryWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starved := 0
		m := newBufferPool(4<<10, 4<<10, func() { starved++ })
		whole, err := m.wait(t.Context(), 4<<10)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan int, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for i, size := range []int{3 << 10, 4 << 10, 1 << 10} {
			c := t.Context()
			if i == 0 {
				c = ctx
			}
			go func() {
				buf, err := m.wait(c, size)
				if err == nil {
					served <- i
					m.put(buf)
				} else if i != 0 || !errors.Is(err, context.Canceled) {
					t.Error(i, err)
				}
			}()
			synctest.Wait()
		}
		if starved != 3 || len(served) != 0 {
			t.Errorf("starved %d", starved)
		}
		if m.try(1) != nil {
			t.Error("somebody is served before those that wait")
		}
		cancel()
		synctest.Wait()
		m.put(whole)
		synctest.Wait()
		if first, second := <-served, <-served; first != 1 || second != 2 || m.inUse() != 0 {
			t.Errorf("served %d, %d, used %d", first, second, m.inUse())
		}
	})
}

// Whatever several goroutines do, nothing is lost and the limit holds.
func TestMemoryTogether(t *testing.T) {
	m := newBufferPool(16<<10, 4<<10, func() {})
	var all sync.WaitGroup
	for g := range 8 {
		r := rand.New(rand.NewPCG(1, uint64(g)))
		all.Go(func() {
			for range 2000 {
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(10) == 0 {
					cancel()
				}
				if buf, err := m.wait(ctx, 1+r.IntN(8<<10)); err == nil {
					m.mu.Lock()
					if m.mu.used+m.mu.kept > m.limit {
						t.Errorf("used %d, kept %d", m.mu.used, m.mu.kept)
					}
					m.mu.Unlock()
					m.put(buf)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if m.inUse() != 0 || len(m.mu.waiting) != 0 {
		t.Errorf("used %d, %d wait", m.mu.used, len(m.mu.waiting))
	}
}
