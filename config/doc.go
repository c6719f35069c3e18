// Package config knows every broker, topic and group key once: Kafka's name, type, default, limits and meaning, and where a value came from.
//
// # Tables
//
// brokerKeys, topicKeys and groupKeys are the tables. Everything else is made of them: parsing, errors, the typed structures Broker, Topic and Group,
// what `leat config` prints and what DescribeConfigs answers. Kafka's keys keep Kafka's names, types, limits and defaults; golden files taken from a Kafka 4.4.0
// (testdata) say so, and list where leat differs on purpose. A key that leat does not have is one of three things:
//
//   - unknown: an error, with the nearest known key;
//   - foreign: Kafka has it and it means nothing here (num.network.threads): a warning, so that a server.properties loads;
//   - refused: somebody set it to be protected (authorizer.class.name), and going on without the protection would be worse than stopping: an error.
//
// # Layers
//
// A broker key's value is the strongest of: default, file, flag, dynamic default (set at run time for all brokers), dynamic broker (for this one). A
// topic key's value is the topic's own, or comes from a broker key: retention.ms from log.retention.ms, or else from log.retention.minutes, or
// else from log.retention.hours, each in its layers. A group key's value is the group's own or the broker key's (consumer.session.timeout.ms,
// group.consumer.session.timeout.ms); other broker keys are its limits. What a group set before the limits were changed is kept and shown, and the nearest
// limit is obeyed. The broker's dynamic layers and topics' and groups' own values live in the metadata image; Set holds what it is given (SetDynamic)
// and takes topics' and groups' values as an argument.
//
// Set is the only thing with a lock. Broker, Topic and Group are values of one moment: who holds one for long asks again when the image changes. A key
// with Dynamic set promises that its reader does so.
package config
