package broker

import (
	"github.com/leatmq/leat/netio"
	"github.com/leatmq/leat/protocol"
)

// Leader hints (KIP-951): an answer that says "not the leader" also says who is, and where.

// leaderHint returns a partition's leader by the metadata of now; {-1, -1} when there is none.
func (b *Broker) leaderHint(topic string, index int32) protocol.LeaderHint {
	t := b.meta.Image().Topic(topic)
	if t == nil || int(index) >= len(t.Partitions) || index < 0 {
		return protocol.LeaderHint{LeaderID: -1, LeaderEpoch: -1}
	}
	p := &t.Partitions[index]
	return protocol.LeaderHint{LeaderID: p.Leader, LeaderEpoch: p.LeaderEpoch}
}

// node is where a client on conn finds a broker; ID -1 when it is not known.
func (b *Broker) node(id int32, conn netio.Conn) protocol.Node {
	n := b.meta.Image().Broker(id)
	if n == nil {
		return protocol.Node{ID: -1}
	}
	host, port := b.address(n, conn)
	return protocol.Node{ID: id, Host: host, Port: port, Rack: n.Rack, HasRack: n.Rack != ""}
}
