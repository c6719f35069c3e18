package broker

import (
	"net/netip"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/protocol"
)

// groupRequest reads a request of the group APIs. What it holds of the frame stays valid until the answer: the frame is kept as long, and counts as
// memory of requests. nil: it could not be read, and was refused.
func groupRequest[R kmsg.Request](b *Broker, r *request) (req R, ok bool) {
	msg, err := protocol.Decode(r.header, r.body)
	if err != nil {
		b.refuse(r, err)
		return req, false
	}
	return msg.(R), true
}

// Answer implements machine.Ticket: the coordinator has the answer of the request.
func (r *request) Answer(body any) { r.reply(body.(kmsg.Response)) }

// client is who sent a request, as groups know their members.
func (r *request) client() group.Client {
	return group.Client{ID: r.header.ClientID, Host: r.conn.clientHost()}
}

// clientHost is the address of the client as groups show it; it is made once.
func (c *connection) clientHost() string {
	if host := c.host.Load(); host != nil {
		return *host
	}
	host := ""
	if a, err := netip.ParseAddrPort(c.conn.RemoteAddr()); err == nil {
		host = "/" + a.Addr().Unmap().WithZone("").String()
	}
	c.host.Store(&host)
	return host
}
