package main

import (
	"context"
	"net"

	"github.com/leatmq/leat/client/admin"
)

// examineCluster looks at a broker as a client does.
func (f *clusterFlags) examineCluster(ctx context.Context, c *admin.Client, found *diagnoses) {
	cluster, err := c.Cluster(ctx)
	if err != nil {
		found.bad("broker "+f.bootstrap, "start one with `leat serve`, or name another with --bootstrap-server", "%v", err)
		return
	}
	d := describeCluster(cluster)
	found.ok("broker "+c.Addr(), "answers: cluster %s, %s", cluster.ID, counted(len(cluster.Brokers), "broker"))
	for _, b := range cluster.Brokers {
		found.broker(ctx, f, c, b)
	}
	if d.Offline > 0 {
		found.bad("partitions", "`leat topic list` shows of which topics; look for a broker that is down or a log directory that is offline", "%d of %d have no leader: they cannot be written or read", d.Offline, d.Partitions)
	} else {
		found.ok("partitions", "all %d have a leader", d.Partitions)
	}
	if d.UnderReplicated > 0 {
		found.warn("replicas", "`leat topic list` shows of which topics; look for a broker that is down or slow", "%d of %d partitions have fewer replicas in sync than they should", d.UnderReplicated, d.Partitions)
	}
}

// broker looks at one broker, at the address that clients are told.
func (f *diagnoses) broker(ctx context.Context, flags *clusterFlags, c *admin.Client, b admin.Broker) {
	check := "broker " + b.String()
	if host, _, err := net.SplitHostPort(b.Addr); err == nil && isLoopback(host) && !bootstrapIsLoopback(flags.servers) {
		f.warn(check, "set advertised.listeners of that broker to an address that clients can reach", "it tells clients to come to %s: on their own machine", b.Addr)
	}
	dirs, err := c.LogDirs(ctx, b, nil)
	if err != nil {
		f.bad(check, "make advertised.listeners of that broker an address that works from where clients are", "clients are told this address, and here it does not work: %v", err)
		return
	}
	f.ok(check, "can be reached at the address that clients are told")
	for i := range dirs {
		dir := &dirs[i]
		where := "log directory " + dir.Path + " of broker " + b.String()
		switch {
		case dir.Err != nil:
			f.bad(where, "look into the broker's log for the disk's error; replace the disk, or take the directory out of log.dirs", "%v", dir.Err)
		case dir.Total > 0 && dir.Usable < dir.Total/doctorFreeShare:
			f.spaceOf(where, dir.Usable, dir.Total)
		default:
			size := int64(0)
			for _, n := range dir.Sizes {
				size += n
			}
			f.ok(where, "works: %s, %s", counted(len(dir.Sizes), "log"), bytesOf(&size))
		}
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// bootstrapIsLoopback: whoever asks is on the broker's machine.
func bootstrapIsLoopback(servers []string) bool {
	for _, s := range servers {
		if host, _, err := net.SplitHostPort(s); err != nil || !isLoopback(host) {
			return false
		}
	}
	return true
}
