package client

import (
	"context"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
)

// home is the broker that coordinates a group.
type home struct {
	id   int32
	addr string
}

// coordinators remembers the homes of groups.
type coordinators struct {
	sync.Mutex
	homes map[string]home
}

func (cs *coordinators) get(group string) (home, bool) {
	cs.Lock()
	defer cs.Unlock()
	h, ok := cs.homes[group]
	return h, ok
}

func (cs *coordinators) set(group string, h home) {
	cs.Lock()
	defer cs.Unlock()
	cs.homes[group] = h
}

func (cs *coordinators) addAddrs(named map[string]bool) {
	cs.Lock()
	defer cs.Unlock()
	for _, h := range cs.homes {
		named[h.addr] = true
	}
}

// forgetCoordinator makes the next call of coordinator ask: an answer said that the group is not at home there, or the connection is lost.
func (c *Client) forgetCoordinator(group string) {
	c.coordinators.Lock()
	defer c.coordinators.Unlock()
	delete(c.coordinators.homes, group)
}

// coordinator is a connection to the coordinator of a group. It is asked for until the context ends when it is not there yet, or cannot be reached.
func (c *Client) coordinator(ctx context.Context, group string, p purpose) (*rpc.Conn, error) {
	for tries := 1; ; tries++ {
		conn, err := c.tryCoordinator(ctx, group, p)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil || !Retriable(err) {
			return nil, err
		}
		c.forgetCoordinator(group)
		if ended := c.sleep(ctx, c.backoff(tries)); ended != nil {
			return nil, giveUp(ended, err)
		}
	}
}

func (c *Client) tryCoordinator(ctx context.Context, group string, p purpose) (*rpc.Conn, error) {
	h, ok := c.coordinators.get(group)
	if !ok {
		var err error
		if h, err = c.findCoordinator(ctx, group); err != nil {
			return nil, err
		}
		c.coordinators.set(group, h)
	}
	return c.conns.get(ctx, connKey{h.addr, p})
}

// findCoordinator asks any broker for the home of a group.
func (c *Client) findCoordinator(ctx context.Context, group string) (home, error) {
	conn, err := c.anyBroker(ctx)
	if err != nil {
		return home{}, err
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group} // one in old versions, several in new ones
	resp, err := c.request(ctx, conn, req)
	if err != nil {
		return home{}, err
	}
	r := resp.(*kmsg.FindCoordinatorResponse)
	code, message, h := r.ErrorCode, r.ErrorMessage, home{r.NodeID, hostPort(r.Host, r.Port)}
	if r.Version >= 4 {
		if len(r.Coordinators) != 1 {
			return home{}, conn.Unreadable(req.Key(), r.Version, errOneGroup)
		}
		a := &r.Coordinators[0]
		code, message, h = a.ErrorCode, a.ErrorMessage, home{a.NodeID, hostPort(a.Host, a.Port)}
	}
	return h, rpc.ErrorOf(code, message, "group "+group)
}

func hostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
