package client

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// readThrough reads two partitions of some batches over connections to which something happens, and returns the offsets that came. within bounds it.
func readThrough(t *testing.T, c *cut, limit time.Duration) (got []string) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.topic("t", 1, 1)
		logs := newFakeLogs(f)
		for range 3 {
			logs.put(tp(0), 1, 2)
			logs.put(tp(1), 1, 1)
		}
		cl := f.client(func(config *Config) {
			config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := f.dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &cutConn{Conn: conn, c: c}, nil
			}
		})
		r, err := cl.NewConsumer(ConsumerConfig{OffsetReset: ResetEarliest})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Assign(tp(0), tp(1)); err != nil {
			t.Fatal(err)
		}
		ctx := within(t, limit)
		for len(got) < 9 && ctx.Err() == nil {
			rs, _ := r.Poll(ctx, 2)
			for i := range rs {
				got = append(got, fmt.Sprintf("%d:%d", rs[i].Partition, rs[i].Offset))
			}
		}
		cl.Close()
		f.serving.Wait()
		synctest.Wait() // what has been told to end may be on its last instruction
		if left := clientGoroutines(); left != "" {
			t.Errorf("goroutines are left:\n%s", left)
		}
	})
	return got
}

// A connection that ends at any byte of a request or an answer costs nothing but time: everything is read once and in order.
func TestConsumerCutAnywhere(t *testing.T) {
	for _, reading := range []bool{false, true} {
		for at := 0; ; at++ {
			c := &cut{reading: reading, at: at}
			got := readThrough(t, c, time.Hour)
			next := map[byte]int{}
			for _, g := range got {
				if g[2:] != fmt.Sprint(next[g[0]]) {
					t.Fatalf("cut at byte %d (reading: %v): %v", at, reading, got)
				}
				next[g[0]]++
			}
			if next['0'] != 6 || next['1'] != 3 {
				t.Fatalf("cut at byte %d (reading: %v): %v", at, reading, got)
			}
			if !c.done {
				break
			}
		}
	}
}

// An answer that is damaged at any byte makes no trouble that lasts: nothing panics, nothing hangs, nothing is left. Where no checksum is, the damage may be believed.
func TestConsumerDamagedAnywhere(t *testing.T) {
	for at := 0; ; at++ {
		c := &cut{reading: true, damage: true, at: at}
		readThrough(t, c, 2*time.Second)
		if !c.done {
			break
		}
	}
}
