package differential

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// baseTime (ms) is the time of the records that scripts produce: three hours ago on a full hour. It is within every
// default limit of the brokers, and far enough from now that a broker's own clock is told apart from it.
var baseTime = time.Now().Add(-3 * time.Hour).Truncate(time.Hour).UnixMilli()

// field is one leaf of an answer.
type field struct{ path, value string }

type fields []field

func (f *fields) add(path, value string) { *f = append(*f, field{path, value}) }

// normaliser turns an answer into fields in which nothing depends on the peer or the run: own address and cluster,
// topic names and ids, producer and session ids, wall clock times and the wording of error messages.
type normaliser struct {
	prefix    string // of this run's topic names
	host      string
	port      int32
	node      int32
	cluster   string
	topics    map[[16]byte]string
	producers map[int64]string
	unknown   map[[16]byte]string
	members   map[string]string // ids that brokers gave to members of groups
	onlyOwn   bool              // the question was for all topics: those of other runs are left out of the answer
}

func newNormaliser(prefix, addr string) *normaliser {
	host, port, _ := net.SplitHostPort(addr)
	p, _ := strconv.Atoi(port)
	return &normaliser{prefix: prefix, host: host, port: int32(p), topics: map[[16]byte]string{}, producers: map[int64]string{}, unknown: map[[16]byte]string{}, members: map[string]string{}}
}

func (n *normaliser) text(s string) string {
	return strconv.Quote(strings.ReplaceAll(s, n.prefix, "$"))
}

// time prints times near baseTime relative to it, times near now as $now, the rest as they are.
func (n *normaliser) time(ms int64) string {
	hour := time.Hour.Milliseconds()
	switch d := ms - baseTime; {
	case d >= -hour && d <= hour:
		return fmt.Sprintf("T%+d", d)
	case ms > time.Now().UnixMilli()-hour/2 && ms < time.Now().UnixMilli()+hour/12:
		return "$now"
	}
	return strconv.FormatInt(ms, 10)
}

// producer names the producer ids that brokers gave out; made-up ones are below 1000000000 and kept only when the
// script chose them (madeUp and up).
func (n *normaliser) producer(id int64) string {
	if id < 0 || id >= madeUp {
		return strconv.FormatInt(id, 10)
	}
	if _, ok := n.producers[id]; !ok {
		n.producers[id] = fmt.Sprintf("$pid%d", len(n.producers))
	}
	return n.producers[id]
}

// madeUp is the first producer id that scripts use without having asked for one.
const madeUp = 1 << 40

// uuidTail is what brokers put behind the client or instance id to make a member id, or a member id as it is.
var uuidTail = regexp.MustCompile(`(^|-)[0-9a-f]{8}(-[0-9a-zA-Z_-]{4}){3}-[0-9a-f]{12}$|(^|-)[0-9A-Za-z_-]{22}$`)

// member names the member ids that brokers made, in the order in which they appear.
func (n *normaliser) member(id string) string {
	tail := uuidTail.FindStringIndex(id)
	if tail == nil {
		return n.text(id)
	}
	if _, ok := n.members[id]; !ok {
		n.members[id] = fmt.Sprintf("$member%d(%s)", len(n.members), n.text(id[:tail[0]]))
	}
	return n.members[id]
}

func (n *normaliser) id(id [16]byte) string {
	if id == ([16]byte{}) {
		return "zero"
	}
	if name, ok := n.topics[id]; ok {
		return "$id(" + name + ")"
	}
	if id[0] == 0xee && id[1] == 0xee { // unknownID of the scripts
		return base64.RawURLEncoding.EncodeToString(id[:])
	}
	if _, ok := n.unknown[id]; !ok {
		n.unknown[id] = fmt.Sprintf("$id?%d", len(n.unknown))
	}
	return n.unknown[id]
}

// learn notes the topic ids that an answer tells together with names. A topic that was made again gets another mark.
func (n *normaliser) learn(name *string, id [16]byte) {
	if name == nil || *name == "" || id == ([16]byte{}) || n.topics[id] != "" {
		return
	}
	short := strings.ReplaceAll(*name, n.prefix, "$")
	mark := short
	for i := 2; slices.Contains(slices.Collect(maps.Values(n.topics)), mark); i++ {
		mark = fmt.Sprintf("%s#%d", short, i)
	}
	n.topics[id] = mark
}

var (
	uuidType = reflect.TypeFor[[16]byte]()
	byteType = reflect.TypeFor[[]byte]()
)

// flatten walks an answer and returns its leaves in order.
func (n *normaliser) flatten(answer any) fields {
	var out fields
	n.walk("", reflect.ValueOf(answer).Elem(), &out)
	return out
}

func (n *normaliser) walk(path string, v reflect.Value, out *fields) {
	switch {
	case v.Type() == uuidType:
		out.add(path, n.id(v.Interface().([16]byte)))
	case v.Type() == byteType && opaque(path):
		out.add(path, n.text(string(v.Bytes())))
	case v.Type() == byteType:
		n.describeRecords(path, v.Bytes(), out)
	case v.Kind() == reflect.Pointer && v.IsNil():
		out.add(path, "null")
	case v.Kind() == reflect.Pointer:
		n.walk(path, v.Elem(), out)
	case v.Kind() == reflect.Slice:
		n.walkSlice(path, v, out)
	case v.Kind() == reflect.Struct:
		n.walkStruct(path, v, out)
	default:
		out.add(path, n.leaf(path, v))
	}
}

// opaque tells bytes that are no records.
func opaque(path string) bool {
	return strings.HasSuffix(path, ".ProtocolMetadata") || strings.HasSuffix(path, "MemberAssignment")
}

func (n *normaliser) walkStruct(path string, v reflect.Value, out *fields) {
	t := v.Type()
	if id := v.FieldByName("TopicID"); id.IsValid() {
		n.learn(nameOf(v), id.Interface().([16]byte))
	}
	for i := range t.NumField() {
		name := t.Field(i).Name
		switch name {
		case "Version", "ThrottleMillis":
			continue
		case "UnknownTags":
			if l := v.Field(i).Addr().MethodByName("Len").Call(nil)[0].Int(); l > 0 {
				out.add(join(path, name), fmt.Sprint(l))
			}
			continue
		}
		n.walk(join(path, name), v.Field(i), out)
	}
}

// nameOf is the topic name that a struct carries, if any.
func nameOf(v reflect.Value) *string {
	f := v.FieldByName("Topic")
	switch {
	case !f.IsValid():
		return nil
	case f.Kind() == reflect.String:
		return ptr(f.String())
	case f.Kind() == reflect.Pointer && !f.IsNil() && f.Elem().Kind() == reflect.String:
		return ptr(f.Elem().String())
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// sortKeys are the fields that name the elements of an array, in the order they are looked for.
var sortKeys = []string{"Topic", "TopicID", "Group", "MemberID", "Partition", "Index", "NodeID", "ApiKey", "ResourceName", "Name", "Key", "Dir", "ProducerID", "RelativeOffset"}

// walkSlice names elements of struct arrays by their key instead of their place: the order of Kafka's answers is that of
// its hash maps.
func (n *normaliser) walkSlice(path string, v reflect.Value, out *fields) {
	if v.IsNil() && !n.onlyOwn {
		out.add(path, "null")
		return
	}
	if v.Type().Elem().Kind() != reflect.Struct {
		var parts []string
		for i := range v.Len() {
			parts = append(parts, n.leaf(path, v.Index(i)))
		}
		if strings.HasSuffix(path, ".SubscribedTopics") || strings.HasPrefix(path, "Assignment.Topics[") { // sets: Kafka's order is that of its hash maps
			slices.Sort(parts)
		}
		out.add(path, "["+strings.Join(parts, " ")+"]")
		return
	}
	type element struct {
		key string
		v   reflect.Value
	}
	var es []element
	for i := range v.Len() {
		e := v.Index(i)
		name := nameOf(e)
		if g := e.FieldByName("Group"); g.IsValid() && g.Kind() == reflect.String {
			name = ptr(g.String())
		}
		if n.onlyOwn && name != nil && !strings.HasPrefix(*name, n.prefix) {
			continue
		}
		key := n.elementKey(e)
		if i := slices.IndexFunc(es, func(o element) bool { return o.key == key }); i >= 0 && mergeable(e) {
			es[i].v = merged(es[i].v, e)
			continue
		}
		es = append(es, element{key, e})
	}
	sort.SliceStable(es, func(i, j int) bool { return es[i].key < es[j].key })
	out.add(path+".len", fmt.Sprint(len(es)))
	seen := map[string]int{}
	for _, e := range es {
		seen[e.key]++
		key := e.key
		if seen[key] > 1 {
			key = fmt.Sprintf("%s#%d", key, seen[key])
		}
		n.walk(fmt.Sprintf("%s[%s]", path, key), e.v, out)
	}
}

// mergeable tells whether elements of one topic may be put together: whether an answer has one entry for a topic or
// several is for the broker to choose.
func mergeable(v reflect.Value) bool {
	p := v.FieldByName("Partitions")
	return p.IsValid() && p.Kind() == reflect.Slice && p.Type().Elem().Kind() == reflect.Struct && !v.FieldByName("ErrorCode").IsValid()
}

// merged is a copy of a with b's partitions behind its own.
func merged(a, b reflect.Value) reflect.Value {
	m := reflect.New(a.Type()).Elem()
	m.Set(a)
	m.FieldByName("Partitions").Set(reflect.AppendSlice(reflect.MakeSlice(a.FieldByName("Partitions").Type(), 0, 0), a.FieldByName("Partitions")))
	m.FieldByName("Partitions").Set(reflect.AppendSlice(m.FieldByName("Partitions"), b.FieldByName("Partitions")))
	return m
}

func (n *normaliser) elementKey(v reflect.Value) string {
	var key []string
	for _, k := range sortKeys {
		f := v.FieldByName(k)
		if !f.IsValid() || f.Kind() == reflect.Pointer && f.IsNil() || f.Kind() == reflect.String && f.String() == "" || f.Type() == uuidType && f.IsZero() {
			continue
		}
		if k == "TopicID" && len(key) > 0 { // named already
			continue
		}
		for f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		if f.Type() == uuidType {
			key = append(key, n.id(f.Interface().([16]byte)))
		} else {
			key = append(key, strings.Trim(n.leaf(k, f), `"`))
		}
	}
	return strings.Join(key, "/")
}

// leaf prints a scalar; the last name of its path decides what is normalised.
func (n *normaliser) leaf(path string, v reflect.Value) string {
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.String:
		return n.stringLeaf(name, v.String())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		return n.intLeaf(name, v.Int())
	}
	return fmt.Sprint(v.Interface())
}

func (n *normaliser) stringLeaf(name, s string) string {
	switch {
	case name == "Host" && s == n.host:
		return "$host"
	case name == "Dir":
		return "$dir"
	case name == "MemberID" || name == "LeaderID":
		return n.member(s)
	case name == "ClusterID" && n.cluster != "" && s == n.cluster:
		return "$cluster"
	case name == "ErrorMessage" && s != "" && s != "NONE":
		return "$message"
	case name == "Documentation" && s != "":
		return "$documentation"
	}
	return n.text(s)
}

func (n *normaliser) intLeaf(name string, i int64) string {
	switch {
	case strings.HasSuffix(name, "ErrorCode"):
		return errorName(int16(i))
	case name == "Port" && i == int64(n.port):
		return "$port"
	case nodeFields[name] && i == int64(n.node):
		return "$node"
	case name == "ProducerID":
		return n.producer(i)
	case name == "FinalizedFeaturesEpoch" && i >= 0:
		return "$epoch"
	case name == "SessionID" && i > 0:
		return "$session"
	case strings.HasSuffix(name, "Timestamp") || name == "LogAppendTime":
		return n.time(i)
	case (name == "TotalBytes" || name == "UsableBytes") && i > 0:
		return "$bytes"
	}
	return strconv.FormatInt(i, 10)
}

var nodeFields = map[string]bool{"NodeID": true, "Leader": true, "LeaderID": true, "ControllerID": true, "Replicas": true, "ISR": true, "OfflineReplicas": true}

func errorName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return fmt.Sprintf("%d %s", code, e.Message)
	}
	return strconv.Itoa(int(code))
}
