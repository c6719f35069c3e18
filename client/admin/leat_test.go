package admin_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/leatmq/leat/client"
	"github.com/leatmq/leat/client/admin"
	"github.com/leatmq/leat/client/leattest"
)

func newAdmin(t *testing.T, b *leattest.Broker) *admin.Client {
	t.Helper()
	c, err := admin.New(client.Config{BootstrapServers: []string{b.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, b *leattest.Broker, topic string, n int) {
	t.Helper()
	c, err := client.New(client.Config{BootstrapServers: []string{b.Addr()}})
	must(t, err)
	defer c.Close()
	p, err := c.NewProducer(client.ProducerConfig{})
	must(t, err)
	for range n {
		must(t, p.Send(t.Context(), &client.Record{Topic: topic, Value: []byte("x")}, nil))
	}
	must(t, p.Close(t.Context()))
}

func TestDeletions(t *testing.T) {
	b := leattest.New(t)
	c := newAdmin(t, b)
	ctx := t.Context()
	_, err := c.CreateTopic(ctx, admin.NewTopic{Name: "t", Partitions: 1, ReplicationFactor: -1}, false)
	must(t, err)
	produce(t, b, "t", 10)
	p, none := admin.Partition{Topic: "t"}, admin.Partition{Topic: "none"}
	left, err := c.DeleteRecords(ctx, map[admin.Partition]int64{p: 4, none: 1})
	must(t, err)
	if left[p] != (admin.Offset{Offset: 4}) || left[none].Err == nil {
		t.Errorf("%+v", left)
	}
	if left, err = c.DeleteRecords(ctx, map[admin.Partition]int64{p: 11}); err != nil || left[p].Err == nil {
		t.Errorf("beyond the end: %+v, %v", left, err)
	}
	left, err = c.DeleteRecords(ctx, map[admin.Partition]int64{p: admin.Latest})
	must(t, err)
	if start, err := c.Offsets(ctx, []admin.Partition{p}, admin.Earliest); err != nil || start[p].Offset != 10 || left[p].Offset != 10 {
		t.Errorf("%+v, %+v, %v", left, start, err)
	}

	if _, err := c.DeleteOffsets(ctx, "nobody", []admin.Partition{p}); !errors.Is(err, admin.ErrNoGroup) {
		t.Errorf("of no group: %v", err)
	}
	_, err = c.CommitOffsets(ctx, "g", map[admin.Partition]int64{p: 3})
	must(t, err)
	forgotten, err := c.DeleteOffsets(ctx, "g", []admin.Partition{p})
	must(t, err)
	if err := forgotten[p]; err != nil || len(forgotten) != 1 {
		t.Errorf("%v", forgotten)
	}
	if all, err := c.CommittedOffsets(ctx, "g"); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestConfigsOfResources(t *testing.T) {
	b := leattest.New(t)
	c := newAdmin(t, b)
	ctx := t.Context()
	brokers, err := c.Brokers(ctx)
	must(t, err)
	for _, x := range []struct {
		r          admin.Resource
		key, value string
	}{
		{admin.BrokerResource(brokers[0].ID), "log.retention.ms", "7200000"},
		{admin.BrokerResource(admin.AllBrokers), "log.retention.ms", "3600000"},
		{admin.GroupResource("g"), "consumer.session.timeout.ms", "50000"},
	} {
		must(t, c.AlterConfigs(ctx, x.r, map[string]string{x.key: x.value}, nil, true))
		if got := valueOf(t, c, x.r, x.key); got == x.value {
			t.Errorf("%s: it was only asked whether %s could be set", x.r, x.key)
		}
		must(t, c.AlterConfigs(ctx, x.r, map[string]string{x.key: x.value}, nil, false))
		if got := valueOf(t, c, x.r, x.key); got != x.value {
			t.Errorf("%s: %s is %q", x.r, x.key, got)
		}
		must(t, c.AlterConfigs(ctx, x.r, nil, []string{x.key}, false))
		if got := valueOf(t, c, x.r, x.key); got == x.value {
			t.Errorf("%s: %s is still set", x.r, x.key)
		}
	}
	if _, err := c.Configs(ctx, admin.BrokerResource(77)); err == nil {
		t.Error("configs of a broker that is not there")
	}
	if _, err := c.Configs(ctx, admin.TopicResource("none")); !errors.Is(err, admin.ErrNoTopic) {
		t.Errorf("configs of no topic: %v", err)
	}
}

// valueOf is what is set for the resource itself; "" for nothing.
func valueOf(t *testing.T, c *admin.Client, r admin.Resource, key string) string {
	t.Helper()
	all, err := c.Configs(t.Context(), r)
	must(t, err)
	for _, k := range all {
		if k.Name == key && k.Set && k.Value != nil {
			return *k.Value
		}
	}
	return ""
}

// Several goroutines share a Client, and Close ends what they wait for.
func TestSharedByGoroutines(t *testing.T) {
	b := leattest.New(t)
	c := newAdmin(t, b)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				if _, err := c.Cluster(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Cluster(ctx); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := admin.New(client.Config{BootstrapServers: []string{"nowhere"}}); err == nil {
		t.Error("a client of no address")
	}
}
