package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// foreignKeys are the broker keys of Kafka, now or once, that mean nothing to leat: a file that sets them loads, with a warning each. They are
// listed one by one, so that a typing error in one of them is found like any other.
var foreignKeys = foreign(securityKeys, coordinatorKeys, clusterKeys, compactionKeys, tieredKeys, designKeys, formerKeys)

// foreignPrefixes are families of keys whose rest is free.
var foreignPrefixes = []string{"listener.name.", "zookeeper.", "password.encoder.", "rlmm.config.", "rsm.config."}

// refusedKeys are keys of Kafka that somebody set to be protected. Ignoring them would take the protection away in silence; so they are errors
// unless their value is empty.
var refusedKeys = map[string]string{
	"authorizer.class.name":          "leat has no authorizer so far, and everybody who reaches a listener may do everything",
	"create.topic.policy.class.name": "leat cannot run Java classes, so the policy would not hold",
	"alter.config.policy.class.name": "leat cannot run Java classes, so the policy would not hold",
	"config.providers":               "leat does not look values up elsewhere, so ${...} would be taken literally",
}

func foreign(groups ...string) map[string]bool {
	m := map[string]bool{}
	for _, g := range groups {
		for name := range strings.FieldsSeq(g) {
			m[name] = true
		}
	}
	return m
}

// isForeign reports whether a broker key is Kafka's and not leat's.
func isForeign(name string) bool {
	hasPrefix := func(p string) bool { return len(name) > len(p) && strings.HasPrefix(name, p) }
	return foreignKeys[name] || refusedKeys[name] != "" || slices.ContainsFunc(foreignPrefixes, hasPrefix)
}

// checkForeign decides about a key that is not in the table.
func checkForeign(name, raw string) (warning string, err error) {
	if why := refusedKeys[name]; why != "" && strings.TrimSpace(raw) != "" {
		return "", &Error{Key: name, Msg: fmt.Sprintf("%s cannot be used: %s. Remove the key to go on without it", name, why)}
	}
	if !isForeign(name) {
		return "", unknownKey(BrokerScope, name)
	}
	return fmt.Sprintf("%s is a key of Kafka without an effect in leat: ignored", name), nil
}

// ForeignKeys returns the broker keys of Kafka that are accepted and ignored, in order of name.
func ForeignKeys() []string { return slices.Sorted(maps.Keys(foreignKeys)) }

// Security: not there so far. A listener that needs them is refused.
const securityKeys = `
connection.failed.authentication.delay.ms connections.max.reauth.ms delegation.token.expiry.check.interval.ms
delegation.token.expiry.time.ms delegation.token.max.lifetime.ms delegation.token.secret.key principal.builder.class
sasl.client.callback.handler.class sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol
sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.assertion.algorithm
sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class
sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class sasl.server.max.receive.size security.inter.broker.protocol
security.providers ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain
ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
ssl.truststore.type
`

// Groups, transactions and share groups: not there so far.
const coordinatorKeys = `
add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms errors.deadletterqueue.auto.create.topics.enable
errors.deadletterqueue.topic.name.prefix 
group.coordinator.append.linger.ms
group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes group.coordinator.rebalance.protocols
group.coordinator.threads
group.share.assignment.interval.ms group.share.assignors group.share.delivery.count.limit group.share.heartbeat.interval.ms
group.share.max.assignment.interval.ms group.share.max.delivery.count.limit group.share.max.heartbeat.interval.ms
group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
group.share.max.share.sessions group.share.max.size group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks group.share.min.record.lock.duration.ms
group.share.min.session.timeout.ms group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms
group.streams.assignment.interval.ms group.streams.assignors group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms
group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
group.streams.max.standby.replicas group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
group.streams.min.session.timeout.ms group.streams.num.standby.replicas group.streams.rack.aware.assignment.tags
group.streams.session.timeout.ms group.streams.topology.description.plugin.class offsets.commit.timeout.ms offsets.load.buffer.size
offsets.topic.compression.codec share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions share.coordinator.state.topic.replication.factor
share.coordinator.state.topic.segment.bytes share.coordinator.threads share.coordinator.write.timeout.ms
share.fetch.purgatory.purge.interval.requests transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.replication.factor
transaction.state.log.segment.bytes transaction.two.phase.commit.enable transactional.id.expiration.ms
`

// Replication, controllers and quotas: not there so far, or nothing to be set by hand.
const clusterKeys = `
alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds auto.leader.rebalance.enable
broker.heartbeat.interval.ms broker.session.timeout.ms client.quota.callback.class controlled.shutdown.enable
controller.quorum.append.linger.ms controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
controller.quorum.retry.backoff.ms controller.quorum.voters controller.quota.window.num controller.quota.window.size.seconds
controller.socket.timeout.ms cordoned.log.dirs early.start.listeners follower.fetch.last.tiered.offset.enable
initial.broker.registration.timeout.ms inter.broker.listener.name leader.imbalance.check.interval.seconds max.connection.creation.rate
metadata.log.dir metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
num.replica.alter.log.dirs.threads num.replica.fetchers process.roles quota.window.num quota.window.size.seconds replica.fetch.backoff.ms
replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms replica.lag.time.max.ms
replica.selector.class replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
replication.quota.window.size.seconds request.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
`

// Compaction: one thread, whose buffers follow from log.cleaner.dedupe.buffer.size and max.message.bytes.
const compactionKeys = `
log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.threads
`

// Tiered storage.
const tieredKeys = `
remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms remote.log.manager.thread.pool.size
remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
remote.log.reader.threads remote.log.storage.manager.class.name remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
remote.log.storage.system.enable
`

// They tune a design that is not leat's.
const designKeys = `
background.threads delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
kafka.metrics.polling.interval.secs kafka.metrics.reporters log.dir.failure.timeout.ms max.connections.per.ip.overrides metric.reporters
metrics.num.samples metrics.recording.level metrics.sample.window.ms num.io.threads num.network.threads
producer.purgatory.purge.interval.requests queued.max.requests socket.receive.buffer.bytes socket.send.buffer.bytes telemetry.max.bytes
`

// Kafka itself had them once, or does not document them.
const formerKeys = `
advertised.host.name advertised.port allow.everyone.if.no.acl.found broker.id.generation.enable host.name inter.broker.protocol.version
log.message.downconversion.enable log.message.format.version log.message.timestamp.difference.max.ms offsets.commit.required.acks port
replica.lag.max.messages reserved.broker.max.id super.users unstable.api.versions.enable unstable.feature.versions.enable
`
