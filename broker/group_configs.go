package broker

import (
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/metadata"
)

// consumerConfigs is what consumer groups obey: the broker's values, and for the groups with configs in the metadata, theirs. A group asks with each
// heartbeat; so what it is told is made when the metadata changes.
type consumerConfigs struct {
	broker atomic.Pointer[group.ConsumerConfig]
	own    sync.Map // group id -> *group.ConsumerConfig, of the groups that have configs
}

func (c *consumerConfigs) of(id string) *group.ConsumerConfig {
	if own, ok := c.own.Load(id); ok {
		return own.(*group.ConsumerConfig)
	}
	return c.broker.Load()
}

// configure takes over the broker's values; those of groups are made of them.
func (c *consumerConfigs) configure(cfg *config.Broker, set *config.Set, image *metadata.Image) {
	policy := cfg.GroupConsumerMigrationPolicy
	c.broker.Store(&group.ConsumerConfig{
		SessionTimeoutMs: cfg.GroupConsumerSessionTimeoutMs, HeartbeatIntervalMs: cfg.GroupConsumerHeartbeatIntervalMs,
		AssignmentIntervalMs: cfg.GroupConsumerAssignmentIntervalMs, MaxSize: cfg.GroupConsumerMaxSize,
		Upgrade: policy == "upgrade" || policy == "bidirectional", Downgrade: policy == "downgrade" || policy == "bidirectional",
		Assignors: cfg.GroupConsumerAssignors, RegexRefreshMs: cfg.GroupConsumerRegexRefreshMs,
	})
	c.follow(set, image, image.ConfiguredGroups())
}

// follow takes over the configs of groups that changed.
func (c *consumerConfigs) follow(set *config.Set, image *metadata.Image, groups []string) {
	for _, id := range groups {
		own := image.GroupConfig(id)
		if own == nil {
			c.own.Delete(id)
			continue
		}
		next := *c.broker.Load()
		g := set.Group(own)
		next.SessionTimeoutMs, next.HeartbeatIntervalMs, next.AssignmentIntervalMs = g.ConsumerSessionTimeoutMs, g.ConsumerHeartbeatIntervalMs, g.ConsumerAssignmentIntervalMs
		c.own.Store(id, &next)
	}
}
