package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// What a group without members has committed is where the next consumer begins.
func TestCommit(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2)
	r.put(tp(0), 0, 30)
	r.put(tp(1), 0, 30)
	assigned := func() *Consumer {
		c := r.consumer(ConsumerConfig{Group: "g", OffsetReset: ResetEarliest})
		if err := c.Assign(tp(0), tp(1)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	check := func(c *Consumer, want string) {
		t.Helper()
		got, err := c.Committed(r.ctx, tp(0), tp(1))
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("committed is %v, %v, want %s", got, err, want)
		}
	}
	c := assigned()
	check(c, "map[]")
	r.read(c, 60)
	if err := c.Seek(tp(1), At(7)); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(r.ctx); err != nil {
		t.Fatal(err)
	}
	check(c, "map[{t 0}:{30 0 } {t 1}:{7 -1 }]")
	if err := c.CommitRecords(r.ctx, Record{Topic: "t", Offset: 9, LeaderEpoch: -1}, Record{Topic: "t", Offset: 11}, Record{Topic: "t", Offset: 10}); err != nil {
		t.Fatal(err)
	}
	check(c, "map[{t 0}:{12 0 } {t 1}:{7 -1 }]")
	if err := c.CommitOffsets(r.ctx, map[TopicPartition]Committed{tp(1): {Offset: 3, LeaderEpoch: -1, Metadata: "note"}}); err != nil {
		t.Fatal(err)
	}
	check(c, "map[{t 0}:{12 0 } {t 1}:{3 -1 note}]")
	if err := c.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	c = assigned()
	r.check(r.read(c, 45), map[TopicPartition][]string{tp(0): numbers(12, 30), tp(1): numbers(3, 30)})
}

// Asynchronous commits are done in the order in which they were called, and before Close returns.
func TestCommitAsync(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	c := r.consumer(ConsumerConfig{Group: "g"})
	if err := c.Assign(tp(0)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got []int
	for i := range 20 {
		if err := c.Seek(tp(0), At(int64(100-i))); err != nil {
			t.Fatal(err)
		}
		c.CommitAsync(func(err error) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, i)
		})
	}
	if err := c.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 20 {
		t.Errorf("told of %v", got)
	}
	other := r.consumer(ConsumerConfig{Group: "g"})
	if at, err := other.Committed(r.ctx, tp(0)); err != nil || at[tp(0)].Offset != 81 {
		t.Errorf("committed is %v, %v", at, err)
	}
	c.CommitAsync(func(err error) {
		if err != ErrClosed {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestCommitErrors(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	c := r.consumer(ConsumerConfig{})
	if err := c.Commit(r.ctx); err == nil || err.Error() != "Commit needs a group, and this consumer has none: set ConsumerConfig.Group" {
		t.Error(err)
	}
	if _, err := c.Committed(r.ctx, tp(0)); err == nil {
		t.Error("Committed without a group")
	}
	g := r.consumer(ConsumerConfig{Group: "g"})
	r.broker.Stop()
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if err := g.CommitOffsets(ctx, map[TopicPartition]Committed{tp(0): {}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
