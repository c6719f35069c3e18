// Package differential sends scripted requests at exact versions to two brokers, Apache Kafka and leat, and compares
// the normalised answers field by field.
//
// A Script is a Go function over an S: it asks (do, each, raw, ...) and every asking becomes one Step of the
// transcript: a label and the fields of the answer, or the fact that the connection was closed or nothing came.
// Helpers that only prepare (create, put, setConfig, ...) use a second connection and are not in the transcript; when
// one fails, the transcript ends with a step that says so.
//
// Every run of a script works on topics of its own (S.name), so that scripts run side by side on shared brokers and the
// same script can be run twice. What depends on the run is normalised away (normalise.go). A difference fails the test
// unless a row of Accepted covers it.
package differential

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Script is one conversation. ID is "Api/what".
type Script struct {
	ID  string
	Run func(s *S)
}

// asks makes a script that comes with a line about what it asks.
func asks(id, what string, run func(s *S)) Script {
	asked.Store(id, what)
	return Script{id, run}
}

var asked sync.Map // lines by script id

// What is the line about a script, if it has one.
func (sc Script) What() string {
	what, _ := asked.Load(sc.ID)
	text, _ := what.(string)
	return text
}

// API is the part of the ID before the slash.
func (sc Script) API() string {
	api, _, _ := strings.Cut(sc.ID, "/")
	return api
}

// Scripts lists all of them.
func Scripts() []Script {
	var all []Script
	for _, s := range [][]Script{
		apiVersionsScripts, framingScripts, metadataScripts, produceScripts, produceBatchScripts, idempotenceScripts,
		fetchScripts, fetchSessionScripts, listOffsetsScripts, createTopicsScripts, topicAdminScripts, epochScripts,
		configScripts, groupConfigScripts, describeScripts,
		groupScripts, consumerScripts, migrationScripts, stateScripts(), historyScripts, historyStaticScripts, consumerHistoryScripts, groupErrorScripts,
	} {
		all = append(all, s...)
	}
	return all
}

// Step is one question and what came back.
type Step struct {
	Label  string
	Fields fields
}

// topicMark begins the name of every topic of every run.
const topicMark = "dx-"

// S is one run of a script against one broker.
type S struct {
	addr  string
	c     *conn // the script's own connection; nil: dial before the next use
	admin *conn // for preparation
	n     *normaliser
	peers []*peer
	steps []Step
	label string // prefix of the next labels

	cluster  string
	barriers int
}

// aborted carries the reason why a run cannot go on through panic and recover.
type aborted struct{ err error }

// Target is a broker with what normalisation needs to know of it.
type Target struct {
	Name    string // for messages
	Addr    string
	cluster string
	node    int32
}

// NewTarget asks a broker for its node and cluster id.
func NewTarget(name, addr string) (Target, error) {
	t := Target{Name: name, Addr: addr}
	c, err := dial(addr)
	if err != nil {
		return t, err
	}
	defer c.close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	answer, err := c.roundTrip(4, req)
	if err != nil {
		return t, err
	}
	meta := answer.(*kmsg.MetadataResponse)
	if len(meta.Brokers) != 1 {
		return t, fmt.Errorf("%d brokers", len(meta.Brokers))
	}
	t.node = meta.Brokers[0].NodeID
	if meta.ClusterID != nil {
		t.cluster = *meta.ClusterID
	}
	return t, nil
}

// Play runs a script against a target. run makes the topic names unique; it has the same length for all targets.
func Play(sc Script, target Target, run string) (steps []Step) {
	s := &S{addr: target.Addr, cluster: target.cluster, n: newNormaliser(topicMark+run+"-", target.Addr)}
	s.n.cluster, s.n.node = target.cluster, target.node
	defer func() {
		if s.c != nil {
			s.c.close()
		}
		if s.admin != nil {
			s.admin.close()
		}
		for _, p := range s.peers {
			p.c.close()
		}
		if a, ok := recover().(aborted); ok {
			s.steps = append(s.steps, Step{"preparation", fields{{"outcome", "failed: " + a.err.Error()}}})
		}
		steps = s.steps
	}()
	sc.Run(s)
	return s.steps
}

func (s *S) abort(format string, args ...any) { panic(aborted{fmt.Errorf(format, args...)}) }

// --- asking

func (s *S) connected() *conn {
	if s.c == nil {
		c, err := dial(s.addr)
		if err != nil {
			s.abort("dial: %v", err)
		}
		s.c = c
	}
	return s.c
}

func (s *S) hangUp() {
	if s.c != nil {
		s.c.close()
		s.c = nil
	}
}

// do sends a request at a version and records the answer. It returns nil when there was none.
func (s *S) do(label string, version int16, req kmsg.Request) kmsg.Response {
	return s.doWithin(answerLimit, label, version, req)
}

// each does the request that build makes at each version from min to max.
func (s *S) each(label string, min, max int16, build func(v int16) kmsg.Request) {
	for v := min; v <= max; v++ {
		s.do(label, v, build(v))
	}
}

func (s *S) doWithin(limit time.Duration, label string, version int16, req kmsg.Request) kmsg.Response {
	req.SetVersion(version)
	c := s.connected()
	h := header{key: req.Key(), version: version, flexible: req.IsFlexible(), clientID: ptr("diff")}
	c.write(c.request(req, h)) // a failed write shows as a closed connection
	return s.receive(limit, fmt.Sprintf("%s v%d", label, version), req, c.corr)
}

// receive reads the answer to req and records it.
func (s *S) receive(limit time.Duration, label string, req kmsg.Request, corr int32) kmsg.Response {
	payload, err := s.c.read(limit)
	if err != nil {
		s.hangUp()
		s.record(label, fields{{"outcome", err.Error()}})
		return nil
	}
	resp := req.ResponseKind()
	got, body, err := split(payload, req.Key(), resp.IsFlexible())
	if err == nil && got != corr {
		err = fmt.Errorf("correlation id off by %d", got-corr)
	}
	if err == nil {
		body, err = s.decode(resp, body)
	}
	if err != nil {
		s.hangUp()
		s.record(label, fields{{"outcome", "undecodable: " + err.Error()}})
		return nil
	}
	s.n.onlyOwn = asksForAll(req)
	f := s.n.flatten(resp)
	if again := resp.AppendTo(nil); string(again) != string(body) {
		f.add("encoding", "not the canonical one")
	}
	s.record(label, f)
	return resp
}

// asksForAll tells whether a request is about all topics rather than named ones.
func asksForAll(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.MetadataRequest:
		return r.Topics == nil || r.Version == 0 && len(r.Topics) == 0
	case *kmsg.DescribeLogDirsRequest:
		return r.Topics == nil
	case *kmsg.ListGroupsRequest:
		return true
	}
	return false
}

// decode reads the body; an ApiVersions answer with error 35 is always in version 0.
func (s *S) decode(resp kmsg.Response, body []byte) ([]byte, error) {
	if resp.Key() == 18 && len(body) >= 2 && body[0] == 0 && body[1] == 35 {
		resp.SetVersion(0)
	}
	return body, resp.ReadFrom(body)
}

func (s *S) record(label string, f fields) {
	s.steps = append(s.steps, Step{s.label + label, f})
}

// note records something that the script found out itself.
func (s *S) note(label, value string) { s.record(label, fields{{"note", value}}) }

// silent sends a request that must not be answered, and an ApiVersions v0 behind it: the next answer tells.
func (s *S) silent(label string, version int16, req kmsg.Request) {
	req.SetVersion(version)
	c := s.connected()
	first := c.request(req, header{key: req.Key(), version: version, flexible: req.IsFlexible(), clientID: ptr("diff")})
	probe := c.request(kmsg.NewPtrApiVersionsRequest(), header{key: 18, clientID: ptr("diff")})
	c.write(append(first, probe...))
	label = fmt.Sprintf("%s v%d", label, version)
	payload, err := c.read(answerLimit)
	if err != nil {
		s.hangUp()
		s.record(label, fields{{"outcome", err.Error()}})
		return
	}
	corr, _, _ := split(payload, 18, false)
	if corr != c.corr {
		s.hangUp()
		s.record(label, fields{{"outcome", "an answer"}})
		return
	}
	s.record(label, fields{{"outcome", "no answer, connection good"}})
}

// raw sends bytes as they are and records the answer as one to like at its version, or what happened instead.
func (s *S) raw(label string, bytes []byte, like kmsg.Request) kmsg.Response {
	return s.rawWithin(answerLimit, label, bytes, like)
}

func (s *S) rawWithin(limit time.Duration, label string, bytes []byte, like kmsg.Request) kmsg.Response {
	s.connected().write(bytes)
	return s.receive(limit, label, like, s.c.corr)
}

// --- preparation

// roundTrip asks without recording.
func (c *conn) roundTrip(version int16, req kmsg.Request) (kmsg.Response, error) {
	req.SetVersion(version)
	if err := c.write(c.request(req, header{key: req.Key(), version: version, flexible: req.IsFlexible(), clientID: ptr("setup")})); err != nil {
		return nil, err
	}
	payload, err := c.read(3 * answerLimit)
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	_, body, err := split(payload, req.Key(), resp.IsFlexible())
	if err != nil {
		return nil, err
	}
	return resp, resp.ReadFrom(body)
}

// quiet asks on the second connection without recording; a failure ends the run.
func (s *S) quiet(version int16, req kmsg.Request) kmsg.Response {
	if s.admin == nil {
		c, err := dial(s.addr)
		if err != nil {
			s.abort("dial: %v", err)
		}
		s.admin = c
	}
	resp, err := s.admin.roundTrip(version, req)
	if err != nil {
		s.admin.close()
		s.admin = nil
		s.abort("%s v%d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp
}

// until calls fn every 20 ms until it is true; a run that waits 20 s is ended.
func (s *S) until(what string, fn func() bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !fn(); <-tick.C {
		if time.Now().After(deadline) {
			s.abort("%s: did not come true", what)
		}
	}
}

// topic is a topic of the script; its zero id is that of no topic.
type topic struct {
	name string
	id   [16]byte
}

// name makes a topic name of this run.
func (s *S) name(short string) string { return s.n.prefix + short }

// unknownTopic has a name and an id that exist nowhere.
func (s *S) unknownTopic() topic { return topic{s.name("unknown"), unknownID} }

var unknownID = [16]byte{0xee, 0xee, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// create makes a topic and waits until its partitions have a leader. configs are key, value, key, value...
func (s *S) create(short string, partitions int32, configs ...string) topic {
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = s.name(short), partitions, 1
	for i := 0; i < len(configs); i += 2 {
		t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	req.Topics = append(req.Topics, t)
	resp := s.quiet(7, req).(*kmsg.CreateTopicsResponse)
	if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 {
		s.abort("create %s: %+v", short, resp.Topics)
	}
	out := topic{t.Topic, resp.Topics[0].TopicID}
	s.n.learn(&out.name, out.id)
	s.awaitLeaders(out, partitions)
	return out
}

// barrier returns when the broker's metadata is at least as new as all that was answered before: changes are applied in
// order, so it is enough to see a topic of its own come up. Kafka answers before its metadata cache has moved on.
func (s *S) barrier() {
	s.barriers++
	name := strings.TrimSuffix(s.n.prefix, "-") + fmt.Sprintf("x%d", s.barriers)
	s.quiet(4, createOf(ct{name: name, partitions: 1, rf: 1}))
	s.awaitLeaders(topic{name: name}, 1)
}

// listed records all topics of this run.
func (s *S) listed(label string) {
	s.barrier()
	s.do(label, 9, kmsg.NewPtrMetadataRequest())
}

func (s *S) awaitLeaders(t topic, partitions int32) {
	s.until("leaders of "+t.name, func() bool {
		var ps []lp
		for p := range partitions {
			ps = append(ps, latest(t, p))
		}
		resp := s.quiet(4, listOf(ps...)).(*kmsg.ListOffsetsResponse)
		for _, rt := range resp.Topics {
			for _, rp := range rt.Partitions {
				if rp.ErrorCode != 0 {
					return false
				}
			}
		}
		return true
	})
}

// put appends a batch and returns its base offset.
func (s *S) put(t topic, p int32, b *batch) int64 {
	resp := s.quiet(9, produceOf(-1, on(t, p, b.bytes()))).(*kmsg.ProduceResponse)
	if r := resp.Topics[0].Partitions[0]; r.ErrorCode != 0 {
		s.abort("put on %s-%d: %s", t.name, p, errorName(r.ErrorCode))
	}
	return resp.Topics[0].Partitions[0].BaseOffset
}

// awaitEnd waits until a partition's readable end is at an offset: what was sent with acks 0 or 1 need not be readable
// when the answer comes.
func (s *S) awaitEnd(t topic, p int32, end int64) {
	s.until(fmt.Sprintf("end %d", end), func() bool {
		return s.quiet(4, listOf(latest(t, p))).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset == end
	})
}

// drop deletes a topic and waits until nobody knows it.
func (s *S) drop(t topic) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{t.name}
	if resp := s.quiet(5, req).(*kmsg.DeleteTopicsResponse); resp.Topics[0].ErrorCode != 0 {
		s.abort("delete %s: %s", t.name, errorName(resp.Topics[0].ErrorCode))
	}
	s.until("deletion of "+t.name, func() bool {
		return s.quiet(4, listOf(latest(t, 0))).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode == 3
	})
	s.barrier()
}

// setConfig sets topic configs and waits until they are described.
func (s *S) setConfig(t topic, configs ...string) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, t.name
	for i := 0; i < len(configs); i += 2 {
		r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: configs[i], Value: &configs[i+1]})
	}
	req.Resources = append(req.Resources, r)
	if resp := s.quiet(1, req).(*kmsg.IncrementalAlterConfigsResponse); resp.Resources[0].ErrorCode != 0 {
		s.abort("set %v: %s", configs, errorName(resp.Resources[0].ErrorCode))
	}
	for i := 0; i < len(configs); i += 2 {
		s.until("config "+configs[i], func() bool { return s.config(t, configs[i]) == configs[i+1] })
	}
	s.barrier() // described is not yet applied
}

// config returns the value of a topic config.
func (s *S) config(t topic, key string) string {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, t.name, []string{key}
	req.Resources = append(req.Resources, r)
	resp := s.quiet(4, req).(*kmsg.DescribeConfigsResponse)
	if len(resp.Resources) != 1 || len(resp.Resources[0].Configs) != 1 || resp.Resources[0].Configs[0].Value == nil {
		return ""
	}
	return *resp.Resources[0].Configs[0].Value
}

// cut deletes records below an offset.
func (s *S) cut(t topic, p int32, offset int64) {
	resp := s.quiet(2, deleteRecordsOf(dr{t, p, offset})).(*kmsg.DeleteRecordsResponse)
	if r := resp.Topics[0].Partitions[0]; r.ErrorCode != 0 {
		s.abort("delete records: %s", errorName(r.ErrorCode))
	}
}

// newProducer asks for a producer id.
func (s *S) newProducer() int64 {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = -1, -1
	var id int64
	s.until("a producer id", func() bool {
		resp := s.quiet(4, req).(*kmsg.InitProducerIDResponse)
		id = resp.ProducerID
		return resp.ErrorCode == 0
	})
	s.n.producer(id)
	return id
}
