package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/config"
)

// settings are the flags that make a configuration; `serve` and `config` share them.
type settings struct {
	file    string
	dataDir string
	listen  []string
	set     []string
	given   func(flag string) bool
}

func (s *settings) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	s.given = f.Changed
	f.StringVar(&s.file, "config", "", "properties file with broker keys; a Kafka server.properties will do")
	f.StringVar(&s.dataDir, "data-dir", "", "where the data is kept (log.dirs; default \"data\")")
	f.StringArrayVar(&s.listen, "listen", nil, "address to listen on, HOST:PORT; no host means every address of the machine, port 0 takes a free one; may be given several times (listeners; default localhost:9092)")
	f.StringArrayVar(&s.set, "set", nil, "set a broker key, `KEY=VALUE`; may be given several times. leat config lists the keys")
}

// load makes the configuration: defaults, then the file, then the flags.
func (s *settings) load() (*config.Set, error) {
	switch { // such as "$DIR" of a variable that is not set: the default would be a surprise
	case s.file == "" && s.given("config"):
		return nil, usageError{errors.New("--config is given without a file")}
	case s.dataDir == "" && s.given("data-dir"):
		return nil, usageError{errors.New("--data-dir is given without a directory")}
	}
	set := config.NewSet()
	if s.file != "" {
		if err := set.LoadFile(s.file); err != nil {
			return nil, err
		}
	}
	if s.dataDir != "" {
		if err := set.Override("log.dirs", s.dataDir, config.Flag); err != nil {
			return nil, err
		}
	}
	if len(s.listen) > 0 {
		listeners, err := config.ListenersOf(s.listen)
		if err != nil {
			return nil, usageError{fmt.Errorf("--listen: %w", err)}
		}
		if err := set.Override("listeners", listeners, config.Flag); err != nil {
			return nil, err
		}
	}
	for _, kv := range s.set {
		key, value, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("--set takes key=value, not %q", kv)}
		}
		if err := set.Override(strings.TrimSpace(key), strings.TrimSpace(value), config.Flag); err != nil {
			return nil, err
		}
	}
	_, err := set.Broker()
	return set, err
}
