package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/leatmq/leat/internal/properties"
)

// connection is how a cluster is reached: by flags, else by variables, else by a file, else as the defaults say. A flag --tls-ca is the variable
// LEAT_TLS_CA and the key tls-ca.
type connection struct {
	bootstrap  string
	tls        bool
	ca         string
	cert, key  string
	serverName string
	file       string

	flags   *pflag.FlagSet
	servers []string          // bootstrap, parsed
	secure  *tls.Config       // nil: plaintext
	origins map[string]string // of values that are not from a flag: what to name in an error
}

// connectionFlags are those that may come from a variable or a file; foreign are the names that other clients' files use for the same.
var connectionFlags = []struct {
	name    string
	foreign string
}{
	{"bootstrap-server", "bootstrap.servers"}, {"tls", ""}, {"tls-ca", "ssl.ca.location"}, {"tls-cert", "ssl.certificate.location"}, {"tls-key", "ssl.key.location"},
	{"tls-server-name", ""},
}

func (c *connection) add(fs *pflag.FlagSet) {
	c.flags = fs
	fs.StringVar(&c.bootstrap, "bootstrap-server", "localhost:9092", "brokers to begin with, `HOST:PORT`; several with commas between them")
	fs.BoolVar(&c.tls, "tls", false, "connect with TLS")
	fs.StringVar(&c.ca, "tls-ca", "", "PEM `FILE` with the authorities that may have signed the brokers' certificates; default: the system's")
	fs.StringVar(&c.cert, "tls-cert", "", "PEM `FILE` with this client's own certificate, for brokers that ask for one")
	fs.StringVar(&c.key, "tls-key", "", "PEM `FILE` with the private key of --tls-cert")
	fs.StringVar(&c.serverName, "tls-server-name", "", "the `NAME` that the brokers' certificates must be for; default: the host in their address")
	fs.StringVar(&c.file, "client-config", "", "properties `FILE` with the flags about the connection, such as bootstrap-server=HOST:PORT and tls-ca=FILE; default: leat/client.properties in the user's configuration directory, if it is there")
}

// variable is the name of a flag as an environment variable.
func variable(flag string) string {
	return "LEAT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// load takes what was not given as a flag from variables and the file, and checks it all.
func (c *connection) load() error {
	c.origins = map[string]string{}
	settings, err := c.fromFile()
	if err != nil {
		return err
	}
	for _, f := range connectionFlags {
		if c.flags == nil || c.flags.Changed(f.name) {
			continue
		}
		value, ok := os.LookupEnv(variable(f.name))
		origin := variable(f.name)
		if !ok || value == "" {
			s, there := settings[f.name]
			if !there {
				continue
			}
			value, origin = s.value, s.origin
		}
		if err := c.flags.Lookup(f.name).Value.Set(value); err != nil {
			return usageError{fmt.Errorf("%s: %q is not true or false", origin, value)}
		}
		c.origins[f.name] = origin
	}
	if err := c.parseServers(); err != nil {
		return err
	}
	return c.loadTLS()
}

// origin is where a value comes from, for messages.
func (c *connection) origin(flag string) string {
	if o := c.origins[flag]; o != "" {
		return o
	}
	return "--" + flag
}

func (c *connection) parseServers() error {
	c.servers = nil
	for s := range strings.SplitSeq(c.bootstrap, ",") {
		s = strings.TrimSpace(s)
		host, port, err := net.SplitHostPort(s)
		if err != nil || host == "" || port == "" {
			return usageError{fmt.Errorf("%s: %q is no address; expected HOST:PORT", c.origin("bootstrap-server"), s)}
		}
		c.servers = append(c.servers, s)
	}
	return nil
}

// fileSetting is a line of the file.
type fileSetting struct{ value, origin string }

// fromFile reads the file, if there is one, to flags and their values.
func (c *connection) fromFile() (map[string]fileSetting, error) {
	name, must := c.fileName()
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		if !must && errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return nil, usageError{fmt.Errorf("--client-config: %w", err)}
	}
	list, err := properties.Parse(string(text))
	if err != nil {
		return nil, usageError{fmt.Errorf("%s:%w", name, err)}
	}
	settings := map[string]fileSetting{}
	for _, p := range list {
		origin := fmt.Sprintf("%s:%d: %s", name, p.Line, p.Name)
		flag, value, err := flagOf(p.Name, p.Value)
		if err != nil {
			return nil, usageError{fmt.Errorf("%s %w", origin, err)}
		}
		settings[flag] = fileSetting{value, origin}
	}
	return settings, nil
}

// fileName is which file to read, and whether it must be there.
func (c *connection) fileName() (name string, must bool) {
	if c.file != "" {
		return c.file, true
	}
	if name = os.Getenv(variable("client-config")); name != "" {
		return name, true
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", false
	}
	return filepath.Join(dir, "leat", "client.properties"), false
}

// flagOf is the flag that a key of the file stands for, and its value.
func flagOf(key, value string) (flag, asFlag string, err error) {
	for _, f := range connectionFlags {
		if key == f.name || key == f.foreign {
			return f.name, value, nil
		}
	}
	if key != "security.protocol" {
		var known []string
		for _, f := range connectionFlags {
			known = append(known, f.name)
		}
		return "", "", fmt.Errorf("is no key of this file; it has %s", strings.Join(known, ", "))
	}
	switch strings.ToUpper(value) {
	case "PLAINTEXT":
		return "tls", "false", nil
	case "SSL":
		return "tls", "true", nil
	}
	return "", "", fmt.Errorf("is PLAINTEXT or SSL here, not %q", value)
}

// loadTLS reads the files that TLS needs.
func (c *connection) loadTLS() error {
	c.secure = nil
	if !c.tls {
		for _, f := range []struct{ flag, value string }{{"tls-ca", c.ca}, {"tls-cert", c.cert}, {"tls-key", c.key}, {"tls-server-name", c.serverName}} {
			if f.value != "" && c.flags.Changed(f.flag) {
				return usageError{fmt.Errorf("--%s is for connections with TLS: give --tls too", f.flag)}
			}
		}
		return nil
	}
	config := &tls.Config{ServerName: c.serverName}
	if c.ca != "" {
		pem, err := os.ReadFile(c.ca)
		if err != nil {
			return usageError{fmt.Errorf("%s: %w", c.origin("tls-ca"), err)}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return usageError{fmt.Errorf("%s: there is no certificate in %s; it takes a PEM file", c.origin("tls-ca"), c.ca)}
		}
	}
	switch {
	case (c.cert == "") != (c.key == ""):
		return usageError{errors.New("--tls-cert and --tls-key belong together: give both, or neither")}
	case c.cert != "":
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return usageError{fmt.Errorf("%s: %w", c.origin("tls-cert"), err)}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	c.secure = config
	return nil
}

// tlsAdvice is what to do about a connection that failed over TLS; "" when that was not the trouble.
func (c *connection) tlsAdvice(err error) string {
	var (
		record    tls.RecordHeaderError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
	)
	switch {
	case c.secure == nil:
		return ""
	case errors.As(err, &record):
		return "it does not speak TLS there; leave out --tls, or give --bootstrap-server the address of the listener with TLS"
	case errors.As(err, &authority):
		return "name the file with the authority's certificate with --tls-ca"
	case errors.As(err, &host):
		return "use the name that is in the certificate, or give it with --tls-server-name"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "it ended the TLS handshake; leave out --tls if that is a listener without TLS"
	}
	return ""
}
