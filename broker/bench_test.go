package broker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// benchClient sends one request again and again and reads the answers without looking at them, so that what is measured is the broker's.
type benchClient struct {
	conn net.Conn
	req  []byte
	buf  []byte
}

func (c *benchClient) send(tb testing.TB) {
	if _, err := c.conn.Write(c.req); err != nil {
		tb.Fatal(err)
	}
}

// recv reads one answer and returns its length.
func (c *benchClient) recv(tb testing.TB) int {
	if _, err := io.ReadFull(c.conn, c.buf[:4]); err != nil {
		tb.Fatal(err)
	}
	n := int(binary.BigEndian.Uint32(c.buf))
	for left := n; left > 0; {
		m, err := c.conn.Read(c.buf[:min(left, len(c.buf))])
		if err != nil {
			tb.Fatal(err)
		}
		left -= m
	}
	return n
}

func newBenchClient(tb testing.TB, n *node, req kmsg.Request) *benchClient {
	conn, err := net.Dial("tcp", n.addr())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return &benchClient{conn: conn, req: frame(req, 1), buf: make([]byte, 256<<10)}
}

// batchOf is a batch of about size bytes in records of 1 KiB that do not compress.
func batchOf(size int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := record.NewBuilder(record.Options{})
	value := make([]byte, 1000)
	for b.Size() < size-1024 {
		_, _ = r.Read(value)
		b.Append(nowMs(), nil, bytes.Clone(value), nil)
	}
	return b.Bytes()
}

// BenchmarkProduce64K is one Produce of a 64 KiB batch through a real socket, with 8 requests of the connection in flight.
func BenchmarkProduce64K(b *testing.B) {
	for _, acks := range []int16{1, -1} {
		b.Run(fmt.Sprintf("acks=%d", acks), func(b *testing.B) {
			n := startOn(b, vfs.OS, "log.dirs="+b.TempDir(), "log.retention.bytes=1073741824")
			n.dial().create("t", 1)
			c := newBenchClient(b, n, produceRequest(9, acks, "t", 0, batchOf(64<<10)))
			b.SetBytes(int64(len(c.req)))
			b.ReportAllocs()
			const window = 8
			flight := 0
			for b.Loop() {
				c.send(b)
				if flight++; flight == window {
					c.recv(b)
					flight--
				}
			}
			for ; flight > 0; flight-- {
				c.recv(b)
			}
		})
	}
}

// BenchmarkFetch1M is one Fetch of 1 MiB of hot data through a real socket.
func BenchmarkFetch1M(b *testing.B) {
	n := startOn(b, vfs.OS, "log.dirs="+b.TempDir())
	c := n.dial()
	c.create("t", 1)
	big := batchOf(64 << 10)
	for range 64 {
		c.mustProduce("t", 0, big)
	}
	req := fetchRequest(12, "t", 0, 0)
	req.Topics[0].Partitions[0].PartitionMaxBytes = 1 << 20
	f := newBenchClient(b, n, req)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		f.send(b)
		f.recv(b)
	}
}

// allocsPerRequest counts in the whole process, client included, which has none. (testing.AllocsPerRun would leave the broker one thread.)
func allocsPerRequest(t *testing.T, c *benchClient) float64 {
	const runs = 1000
	var before, after runtime.MemStats
	for i := range runs + 200 {
		if i == 200 {
			runtime.ReadMemStats(&before)
		}
		c.send(t)
		c.recv(t)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs
}

// The broker itself allocates nothing for a Produce: what is counted is the poller's task when another goroutine completes the call, and the flush's.
// A Fetch takes what kmsg's decoder does for topics and names, and two more on its way over a disk worker.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("calls are not reused when invariants are checked")
	}
	n := startOn(t, vfs.OS, "log.dirs="+t.TempDir())
	c := n.dial()
	c.create("t", 1)
	batch := batchOf(16 << 10)
	c.mustProduce("t", 0, batch)
	fetch := fetchRequest(12, "t", 0, 0)
	fetch.Topics[0].Partitions[0].PartitionMaxBytes = 1
	for _, tc := range []struct {
		name string
		req  kmsg.Request
		most float64
	}{
		{"Produce acks=1", produceRequest(9, 1, "t", 0, batch), 3},
		{"Produce acks=-1", produceRequest(9, -1, "t", 0, batch), 3},
		{"Fetch", fetch, 8},
	} {
		got := allocsPerRequest(t, newBenchClient(t, n, tc.req))
		t.Logf("%s: %.1f allocations", tc.name, got)
		if got > tc.most {
			t.Errorf("%s: %.1f allocations, want at most %.0f", tc.name, got, tc.most)
		}
	}
}
