package admin

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// Broker is one broker as clients are told of it.
type Broker struct {
	ID   int32
	Addr string // HOST:PORT
	Rack string // "" for none
}

func (b Broker) String() string { return fmt.Sprintf("%d (%s)", b.ID, b.Addr) }

func addrOf(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

// Brokers are all brokers, by id.
func (c *Client) Brokers(ctx context.Context) (all []Broker, err error) {
	m, err := c.metadata(ctx, []string{})
	if err != nil {
		return nil, err
	}
	return brokersOf(m), nil
}

func brokersOf(m *kmsg.MetadataResponse) (all []Broker) {
	for _, b := range m.Brokers {
		broker := Broker{ID: b.NodeID, Addr: addrOf(b.Host, b.Port)}
		if b.Rack != nil {
			broker.Rack = *b.Rack
		}
		all = append(all, broker)
	}
	slices.SortFunc(all, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Cluster is a cluster as its metadata has it.
type Cluster struct {
	ID         string // "": the broker does not tell
	Controller int32  // -1: none, or the broker does not tell
	Brokers    []Broker
	Topics     []TopicInfo
}

// Cluster describes the cluster.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	m, err := c.metadata(ctx, nil)
	if err != nil {
		return nil, err
	}
	cl := &Cluster{Controller: m.ControllerID, Brokers: brokersOf(m)}
	if m.ClusterID != nil {
		cl.ID = *m.ClusterID
	}
	for i := range m.Topics {
		if t := &m.Topics[i]; t.Topic != nil && t.ErrorCode == 0 {
			cl.Topics = append(cl.Topics, topicInfo(t))
		}
	}
	slices.SortFunc(cl.Topics, func(a, b TopicInfo) int { return strings.Compare(a.Name, b.Name) })
	return cl, nil
}

// metadata asks about topics, nil is all; none are made by it.
func (c *Client) metadata(ctx context.Context, topics []string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.Topics = []kmsg.MetadataRequestTopic{}
	if topics == nil {
		req.Topics = nil
	}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	resp, err := c.ask(ctx, "", req, -1)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.MetadataResponse), nil
}

// Topic is a topic's partitions: the address of each one's leader, "" for none.
type Topic struct {
	Leaders []string
	Err     error // such as UNKNOWN_TOPIC_OR_PARTITION
}

// Topics describes topics by name.
func (c *Client) Topics(ctx context.Context, names []string) (map[string]*Topic, error) {
	all := make(map[string]*Topic, len(names))
	if len(names) == 0 {
		return all, nil
	}
	m, err := c.metadata(ctx, names)
	if err != nil {
		return nil, err
	}
	brokers := map[int32]string{}
	for _, b := range m.Brokers {
		brokers[b.NodeID] = addrOf(b.Host, b.Port)
	}
	for i := range m.Topics {
		if t := &m.Topics[i]; t.Topic != nil {
			all[*t.Topic] = topicOf(t, brokers)
		}
	}
	for _, name := range names {
		if all[name] == nil {
			all[name] = &Topic{Err: rpc.ErrorOf(int16(protocol.UnknownTopicOrPartition), nil, "topic "+name)}
		}
	}
	return all, nil
}

func topicOf(t *kmsg.MetadataResponseTopic, brokers map[int32]string) *Topic {
	topic := &Topic{Err: rpc.ErrorOf(t.ErrorCode, nil, "topic "+*t.Topic)}
	if topic.Err != nil {
		return topic
	}
	topic.Leaders = make([]string, len(t.Partitions))
	for _, p := range t.Partitions {
		if p.Partition >= 0 && int(p.Partition) < len(topic.Leaders) {
			topic.Leaders[p.Partition] = brokers[p.Leader]
		}
	}
	return topic
}

// Coordinator finds the coordinator of a group.
func (c *Client) Coordinator(ctx context.Context, group string) (b Broker, err error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	err = retry(ctx, func() error {
		resp, err := c.ask(ctx, "", req, -1)
		if err != nil {
			return err
		}
		b, err = coordinatorOf(resp.(*kmsg.FindCoordinatorResponse), group)
		return err
	})
	return b, err
}

func coordinatorOf(resp *kmsg.FindCoordinatorResponse, group string) (Broker, error) {
	where := "the coordinator of group " + group
	if resp.Version < 4 {
		return Broker{ID: resp.NodeID, Addr: addrOf(resp.Host, resp.Port)}, rpc.ErrorOf(resp.ErrorCode, resp.ErrorMessage, where)
	}
	for i := range resp.Coordinators {
		if k := &resp.Coordinators[i]; k.Key == group {
			return Broker{ID: k.NodeID, Addr: addrOf(k.Host, k.Port)}, rpc.ErrorOf(k.ErrorCode, k.ErrorMessage, where)
		}
	}
	return Broker{}, rpc.ErrorOf(int16(protocol.UnknownServerError), nil, where)
}

// atCoordinator asks the coordinator of a group, also the next one when it has moved.
func (c *Client) atCoordinator(ctx context.Context, group string, ask func(b Broker) error) error {
	return retry(ctx, func() error {
		b, err := c.Coordinator(ctx, group)
		if err != nil {
			return err
		}
		return ask(b)
	})
}
