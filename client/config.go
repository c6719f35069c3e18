package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
)

// Config makes a Client. Only BootstrapServers must be given; what is zero has the default that stands beside it.
type Config struct {
	BootstrapServers []string      // HOST:PORT of brokers to begin with; any that answers will do
	ClientID         string        // what brokers call this client in their logs and metrics; "leat"
	RequestTimeout   time.Duration // of each request; 30 s
	DialTimeout      time.Duration // to make a connection, TLS and the first question included; 10 s
	MetadataMaxAge   time.Duration // after which topics are asked for again; 5 min
	RetryBackoff     time.Duration // before the first retry; it doubles, with jitter; 100 ms
	RetryBackoffMax  time.Duration // 1 s

	// AutoCreateTopics lets brokers create topics that are asked for and don't exist, when their own configuration allows it.
	AutoCreateTopics bool

	TLS *tls.Config // nil: plaintext. The server's name is taken from the address where it is empty
	// Dial makes TCP connections; nil: net.Dialer. TLS comes on top.
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	Logger *slog.Logger // nil: nothing is logged
	Hooks  Hooks
}

// Hooks are called when something happens, for metrics. They must not block. Any may be nil.
type Hooks struct {
	Dialed     func(addr string, took time.Duration, err error)                                       // a connection was made, or not
	Refreshed  func(took time.Duration, err error)                                                    // metadata was asked for
	Delivered  func(topic string, partition int32, records, bytes int, took time.Duration, err error) // a batch of a producer has its answer; took since its first record
	Fetched    func(topic string, partition int32, records, bytes int)                                // a fetch of a consumer brought records (by the word of the batches)
	Reset      func(topic string, partition int32, from int64)                                        // the position of a consumer is not in the log any more: it goes on where OffsetReset says, or where the log begins to differ
	Rebalanced func(group string, assigned, revoked, lost int)                                        // a member of a group changed what it has, by so many partitions
}

// ConfigError: a setting cannot be used.
type ConfigError struct{ Setting, Why string }

func (e *ConfigError) Error() string { return fmt.Sprintf("%s %s", e.Setting, e.Why) }

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Complete is the configuration as it is used, with its defaults, or what is wrong with it (*ConfigError). New does it, too.
func (c Config) Complete() (Config, error) {
	orDefault(&c.ClientID, "leat")
	orDefault(&c.RequestTimeout, 30*time.Second)
	orDefault(&c.DialTimeout, 10*time.Second)
	orDefault(&c.MetadataMaxAge, 5*time.Minute)
	orDefault(&c.RetryBackoff, 100*time.Millisecond)
	orDefault(&c.RetryBackoffMax, max(time.Second, c.RetryBackoff))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"RequestTimeout", c.RequestTimeout}, {"DialTimeout", c.DialTimeout}, {"MetadataMaxAge", c.MetadataMaxAge}, {"RetryBackoff", c.RetryBackoff}} {
		if d.value < time.Millisecond {
			return c, &ConfigError{d.name, fmt.Sprintf("is %v: at least 1 ms", d.value)}
		}
	}
	if c.RetryBackoffMax < c.RetryBackoff {
		return c, &ConfigError{"RetryBackoffMax", fmt.Sprintf("is %v: at least RetryBackoff (%v)", c.RetryBackoffMax, c.RetryBackoff)}
	}
	if len(c.BootstrapServers) == 0 {
		return c, &ConfigError{"BootstrapServers", "is empty: give at least one HOST:PORT"}
	}
	for i, addr := range c.BootstrapServers {
		if err := checkAddr(addr); err != nil {
			return c, &ConfigError{fmt.Sprintf("BootstrapServers[%d]", i), err.Error()}
		}
	}
	return c, nil
}

func checkAddr(addr string) error {
	if strings.Contains(addr, "://") {
		return fmt.Errorf("is %q: HOST:PORT without a scheme is wanted", addr)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return fmt.Errorf("is %q: HOST:PORT is wanted", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("is %q: the port must be 1-65535", addr)
	}
	return nil
}
