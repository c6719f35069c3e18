package rpc

import (
	"context"
	"errors"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

const (
	keyAPIVersions    = 18
	apiVersionsNewest = 3 // what brokers since 2.4 understand; later versions tell nothing that is used here
)

// learnVersions asks for the broker's versions. One that does not know the version of the question says so in the oldest form, and is asked in that.
func (c *Conn) learnVersions(ctx context.Context) error {
	resp, err := c.askVersions(ctx, apiVersionsNewest)
	if err == nil && protocol.Code(resp.ErrorCode) == protocol.UnsupportedVersion {
		resp, err = c.askVersions(ctx, 0)
	}
	if err != nil {
		return c.notKafka(err)
	}
	if resp.ErrorCode != 0 {
		return &CodeError{Code: protocol.Code(resp.ErrorCode), Where: c.addr}
	}
	c.versions = make(map[int16]kmsg.ApiVersionsResponseApiKey, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		c.versions[k.ApiKey] = k
	}
	return nil
}

func (c *Conn) askVersions(ctx context.Context, version int16) (*kmsg.ApiVersionsResponse, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "leat", "1"
	req.Version = version
	body, err := c.exchange(ctx, req)
	if err != nil {
		return nil, err
	}
	if version > 0 && len(body) >= 2 && protocol.Code(int16(body[0])<<8|int16(body[1])) == protocol.UnsupportedVersion {
		req.Version = 0 // the refusal is in the oldest form
	}
	resp, err := parse(req, body)
	if err != nil {
		return nil, &NotKafkaError{Addr: c.addr, Why: "its answer to ApiVersions cannot be read: " + err.Error()}
	}
	return resp.(*kmsg.ApiVersionsResponse), nil
}

// notKafka: whoever hangs up, or says nothing, on the first question of every client is something else.
func (c *Conn) notKafka(err error) error {
	if lost, ok := errors.AsType[*LostError](err); ok {
		if errors.Is(lost.Err, io.EOF) {
			return &NotKafkaError{Addr: c.addr, Silent: true, Why: "it closed the connection when it was asked for its versions"}
		}
		return &NotKafkaError{Addr: c.addr, Silent: true, Why: "the connection broke when it was asked for its versions (" + lost.Err.Error() + ")"}
	}
	if _, ok := errors.AsType[*TimeoutError](err); ok {
		return &NotKafkaError{Addr: c.addr, Silent: true, Why: "it took the connection and did not answer in time"}
	}
	return err
}

// Has reports whether the broker has a version of an API.
func (c *Conn) Has(key, version int16) bool {
	k, ok := c.versions[key]
	return ok && k.MinVersion <= version && k.MaxVersion >= version
}

// version chooses the version of a request.
func (c *Conn) version(req kmsg.Request, newest int16) (int16, error) {
	v := req.MaxVersion()
	if newest >= 0 {
		v = min(v, newest)
	}
	k, ok := c.versions[req.Key()]
	if !ok || k.MinVersion > v || k.MaxVersion < k.MinVersion {
		return 0, &UnsupportedError{Addr: c.addr, Request: kmsg.NameForKey(req.Key()), Ours: v, Known: ok, Min: k.MinVersion, Max: k.MaxVersion}
	}
	return min(v, k.MaxVersion), nil
}
