package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/broker"
	"github.com/leatmq/leat/config"
)

// stopTimeout is how long open answers may take to leave after SIGTERM; the log is closed cleanly in any case.
const stopTimeout = 5 * time.Second

func newServe() *cobra.Command {
	var (
		s      settings
		level  string
		format string
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker",
		Long: "Run a broker. It stops cleanly on SIGTERM and SIGINT; a second signal ends it at once, which loses nothing that was acknowledged.\n\n" +
			"When it serves, it prints one line to standard error: leat is ready on HOST:PORT\n\n" +
			"Metrics for Prometheus: --set metrics.listener=localhost:9644 shows them at http://localhost:9644/metrics. Without it there are none.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(cmd.ErrOrStderr(), level, format)
			if err != nil {
				return usageError{err}
			}
			set, err := s.load()
			if err != nil {
				return err
			}
			return serve(cmd.Context(), set, logger, cmd.ErrOrStderr())
		},
	}
	s.addFlags(cmd)
	cmd.Flags().StringVar(&level, "log-level", "info", "least important messages to log: debug, info, warn, error")
	cmd.Flags().StringVar(&format, "log-format", "text", "how to log: text or json")
	return cmd
}

func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level is debug, info, warn or error, not %q", level)
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l})), nil
	}
	return nil, fmt.Errorf("--log-format is text or json, not %q", format)
}

// serve runs a broker until a signal comes or ctx ends.
func serve(ctx context.Context, set *config.Set, logger *slog.Logger, stderr io.Writer) error {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	for _, w := range set.Warnings() {
		logger.Warn(w)
	}
	raiseFileLimit(logger)
	begin := time.Now()
	b, err := broker.New(broker.Options{Config: set, Logger: logger})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve() }()
	logger.Info("serving", "version", version, "cluster.id", b.ClusterID(), "after", time.Since(begin).Round(time.Microsecond))
	fmt.Fprintf(stderr, "leat is ready on %s\n", strings.Join(readyAddresses(set, b.Addrs()), ", "))
	select {
	case err = <-served:
		logger.Error("a listener failed; stopping", "error", err)
	case <-ctx.Done():
		logger.Info("stopping")
	}
	stop() // a second signal ends the process
	deadline, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err = errors.Join(err, b.Close(deadline)); err != nil {
		return err
	}
	logger.Info("stopped cleanly")
	return nil
}

// readyAddresses are the listeners as they were asked for, with real ports: localhost stays localhost though it is two addresses. One without a host
// is shown as it was bound: [::]:9092, or 0.0.0.0:9092 on a machine without IPv6.
func readyAddresses(set *config.Set, bound []net.Addr) []string {
	cfg, err := set.Broker()
	if err != nil {
		return []string{fmt.Sprint(bound)}
	}
	var ready []string
	next := 0
	for _, l := range cfg.Listeners {
		host, port := l.Host, l.Port
		if host == "" && next < len(bound) {
			host = bound[next].(*net.TCPAddr).IP.String()
		}
		if port == 0 && next < len(bound) {
			port = bound[next].(*net.TCPAddr).Port
		}
		for next < len(bound) && bound[next].(*net.TCPAddr).Port == port {
			next++
		}
		ready = append(ready, net.JoinHostPort(host, strconv.Itoa(port)))
	}
	return ready
}
