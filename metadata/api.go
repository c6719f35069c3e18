package metadata

import (
	"context"
	"sync/atomic"
)

// CreateTopicsAsync creates topics. err is about the whole request (Unavailable, Busy); results are in the request's order.
// done runs on a goroutine of the manager and must not wait; so it is for all methods of this form.
func (m *Manager) CreateTopicsAsync(r CreateTopicsRequest, done func([]TopicResult, error)) {
	proposeResults(m, func(i *Image) ([]Record, []TopicResult) { return m.controller.createTopics(i, r) }, done)
}

// CreateTopics is CreateTopicsAsync that waits; so are the others of this form. A context that ends does not undo the change.
func (m *Manager) CreateTopics(ctx context.Context, r CreateTopicsRequest) ([]TopicResult, error) {
	return await(ctx, func(done func([]TopicResult, error)) { m.CreateTopicsAsync(r, done) })
}

// DeleteTopicsAsync deletes topics by name or id. Results carry both where known.
func (m *Manager) DeleteTopicsAsync(topics []TopicRef, done func([]TopicResult, error)) {
	proposeResults(m, func(i *Image) ([]Record, []TopicResult) { return m.controller.deleteTopics(i, topics) }, done)
}

// DeleteTopics is DeleteTopicsAsync that waits.
func (m *Manager) DeleteTopics(ctx context.Context, topics []TopicRef) ([]TopicResult, error) {
	return await(ctx, func(done func([]TopicResult, error)) { m.DeleteTopicsAsync(topics, done) })
}

// CreatePartitionsAsync grows topics.
func (m *Manager) CreatePartitionsAsync(r CreatePartitionsRequest, done func([]TopicResult, error)) {
	proposeResults(m, func(i *Image) ([]Record, []TopicResult) { return m.controller.createPartitions(i, r) }, done)
}

// CreatePartitions is CreatePartitionsAsync that waits.
func (m *Manager) CreatePartitions(ctx context.Context, r CreatePartitionsRequest) ([]TopicResult, error) {
	return await(ctx, func(done func([]TopicResult, error)) { m.CreatePartitionsAsync(r, done) })
}

// AlterConfigsAsync changes configs, incrementally or by replacement.
func (m *Manager) AlterConfigsAsync(r AlterConfigsRequest, done func([]ConfigResult, error)) {
	proposeResults(m, func(i *Image) ([]Record, []ConfigResult) { return m.controller.alterConfigs(i, r) }, done)
}

// AlterConfigs is AlterConfigsAsync that waits.
func (m *Manager) AlterConfigs(ctx context.Context, r AlterConfigsRequest) ([]ConfigResult, error) {
	return await(ctx, func(done func([]ConfigResult, error)) { m.AlterConfigsAsync(r, done) })
}

// proposeResults proposes what plan returns and answers with its results.
func proposeResults[R any](m *Manager, plan func(*Image) ([]Record, []R), done func([]R, error)) {
	var results []R
	m.Propose(func(i *Image) (records []Record) {
		records, results = plan(i)
		return records
	}, func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(results, nil)
	})
}

// RegisterBroker registers a broker and returns its epoch. The leader epoch of every partition it leads grows when the
// incarnation is new.
func (m *Manager) RegisterBroker(ctx context.Context, r Registration) (epoch int64, err error) {
	if r.Incarnation == ([16]byte{}) {
		r.Incarnation = m.incarnation
	}
	at := new(atomic.Int64) // the plan may run after a ctx that ended
	err = m.proposeOne(ctx, func(i *Image) ([]Record, *Error) {
		at.Store(i.Offset()) // of the registration record
		return m.controller.registerBroker(i, r)
	})
	if err != nil {
		return -1, err
	}
	return at.Load(), nil
}

// FenceBroker takes a broker out of every ISR and gives what it led to others.
func (m *Manager) FenceBroker(ctx context.Context, id int32) error {
	return m.proposeOne(ctx, func(i *Image) ([]Record, *Error) { return m.controller.fenceBroker(i, id) })
}

// UnfenceBroker lets a broker lead again.
func (m *Manager) UnfenceBroker(ctx context.Context, id int32) error {
	return m.proposeOne(ctx, func(i *Image) ([]Record, *Error) { return m.controller.unfenceBroker(i, id) })
}

// proposeOne proposes a plan that may be refused as a whole, and waits.
func (m *Manager) proposeOne(ctx context.Context, plan func(*Image) ([]Record, *Error)) error {
	_, err := await(ctx, func(done func(struct{}, error)) {
		var refused *Error
		m.Propose(func(i *Image) (records []Record) {
			records, refused = plan(i)
			return records
		}, func(err error) {
			if err == nil && refused != nil {
				err = refused
			}
			done(struct{}{}, err)
		})
	})
	return err
}

// AllocateProducerIDsAsync takes a block of producer ids, durably.
func (m *Manager) AllocateProducerIDsAsync(done func(ProducerIDBlock, error)) {
	var block ProducerIDBlock
	var refused *Error
	m.Propose(func(i *Image) (records []Record) {
		records, block, refused = m.controller.allocateProducerIDs(i, m.o.NodeID)
		return records
	}, func(err error) {
		if err == nil && refused != nil {
			err = refused
		}
		if err != nil {
			block = ProducerIDBlock{}
		}
		done(block, err)
	})
}

// AllocateProducerIDs is AllocateProducerIDsAsync that waits.
func (m *Manager) AllocateProducerIDs(ctx context.Context) (ProducerIDBlock, error) {
	return await(ctx, m.AllocateProducerIDsAsync)
}
