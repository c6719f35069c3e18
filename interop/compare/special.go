//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/leatmq/leat/bench/load"
	"github.com/leatmq/leat/interop/harness"
)

// apiVersions is ApiVersions version 0 with correlation id 7 and no client id.
var apiVersions = []byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff}

// idleTurns is how many turns long an idle broker is watched.
const idleTurns = 10

// idle opens many connections that have said one thing each, and measures what they cost the broker when nothing happens.
func (r *rig) idle(ctx context.Context) (m measured, err error) {
	n := int(r.scaled(5000))
	m = measured{Name: "idle", What: fmt.Sprintf("%s connections to a broker that has done nothing yet; each has sent ApiVersions once. CPU is a share of one core", thousands(float64(n)))}
	for _, p := range []*harness.Peer{r.peers[harness.LeatKind], r.peers[harness.KafkaKind]} {
		before, err := load.ProcessRSS(p.Pid())
		if err != nil {
			return m, err
		}
		conns, err := openIdle(p.Addr, n)
		defer closeAll(conns)
		if err != nil {
			return m, err
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return m, err
		}
		rss, err := load.ProcessRSS(p.Pid())
		if err != nil {
			return m, err
		}
		cpu, err := load.ProcessCPU(p.Pid())
		if err != nil {
			return m, err
		}
		begin := time.Now()
		if err := pause(ctx, idleTurns*r.o.turn); err != nil { // the kernel tells CPU time in ticks of 10 ms
			return m, err
		}
		after, err := load.ProcessCPU(p.Pid())
		if err != nil {
			return m, err
		}
		m.Facts = append(m.Facts, fact{"idle", variantName(p.Kind), fmt.Sprintf("%.1f MiB resident, %.2f KiB more per connection, %.2f %% of a core",
			float64(rss)/(1<<20), float64(rss-before)/1024/float64(n), (after-cpu).Seconds()/time.Since(begin).Seconds()*100)})
		closeAll(conns)
	}
	return m, nil
}

func openIdle(addr string, n int) (conns []net.Conn, err error) {
	answer := make([]byte, 64<<10)
	for range n {
		c, err := net.DialTimeout("tcp", addr, 10*time.Second)
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return conns, err
		}
		if _, err := c.Write(apiVersions); err != nil {
			return conns, err
		}
		if _, err := io.ReadFull(c, answer[:8]); err != nil {
			return conns, err
		}
		rest := int(answer[2])<<8 + int(answer[3]) - 4
		if _, err := io.ReadFull(c, answer[:rest]); err != nil {
			return conns, err
		}
	}
	return conns, nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// pause waits, and reports the end of the context.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start measures from the start of a process on an empty directory to the first acknowledged record.
func (r *rig) start(ctx context.Context) (m measured, err error) {
	m = measured{Name: "start", What: "from the start of the process on an empty directory (Kafka's is formatted before) to the first acknowledged record; the samples' seconds"}
	samples := map[string][]sample{}
	for round := range r.o.rounds {
		for _, kind := range []string{harness.LeatKind, harness.KafkaKind} {
			dir := filepath.Join(r.o.dir, fmt.Sprintf("start-%s-%d", kind, round))
			d, err := harness.TimeStart(ctx, kind, dir, r.bin, func(addr string) error { return firstRecord(ctx, addr) })
			os.RemoveAll(dir)
			if err != nil {
				return m, err
			}
			samples[kind] = append(samples[kind], sample{Seconds: d.Seconds()})
		}
	}
	ratio := ratioOf(samples[harness.LeatKind], samples[harness.KafkaKind], sample.millis)
	for _, kind := range []string{harness.LeatKind, harness.KafkaKind} {
		m.Facts = append(m.Facts, fact{"start", variantName(kind), fmt.Sprintf("%.1f ms", medianOf(samples[kind], sample.millis))})
	}
	m.Facts = append(m.Facts, fact{"start", "leat : Kafka", fmt.Sprintf("%.4f (%.4f-%.4f), target <= 0.03", ratio.Median, ratio.Min, ratio.Max)})
	return m, nil
}

// firstRecord makes a topic and produces a record.
func firstRecord(ctx context.Context, addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	c.Close()
	if _, err := load.CreateTopic(ctx, addr, "first", 1, nil); err != nil {
		return err
	}
	_, err = load.Run(ctx, load.RunOptions{Duration: time.Minute, MaxBytes: 1}, &load.ProduceLoad{Addr: addr, Topic: "first", Connections: 1, InFlight: 1, Records: 1, Size: 100, Acks: -1})
	return err
}

func variantName(kind string) string {
	if kind == harness.LeatKind {
		return leatPlain.name
	}
	return kafkaPlain.name
}
