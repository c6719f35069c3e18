package main

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/leatmq/leat/client/leattest"
)

// loadConnection is a connection as flags, variables and the file of the environment make it.
func loadConnection(args ...string) (*connection, error) {
	var c connection
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.add(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	return &c, c.load()
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Flags come before variables, those before the file, that before the defaults.
func TestConnectionOrder(t *testing.T) {
	servers := func(args ...string) string {
		t.Helper()
		c, err := loadConnection(args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(c.servers, " ")
	}
	if got := servers(); got != "localhost:9092" {
		t.Error(got)
	}
	file := writeFile(t, "client.properties", "# brokers\nbootstrap-server = a:1, b:2\n")
	if got := servers("--client-config", file); got != "a:1 b:2" {
		t.Error(got)
	}
	t.Setenv("LEAT_CLIENT_CONFIG", file)
	if got := servers(); got != "a:1 b:2" {
		t.Error(got)
	}
	t.Setenv("LEAT_BOOTSTRAP_SERVER", "c:3")
	if got := servers(); got != "c:3" {
		t.Error(got)
	}
	if got := servers("--bootstrap-server", "d:4"); got != "d:4" {
		t.Error(got)
	}
	t.Setenv("LEAT_BOOTSTRAP_SERVER", "")
	if got := servers(); got != "a:1 b:2" {
		t.Error(got)
	}
}

// Names that librdkafka's files use are understood, and a file in the user's configuration directory is found.
func TestConnectionFile(t *testing.T) {
	home := t.TempDir()
	t.Setenv("LEAT_CLIENT_CONFIG", "")
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} {
		t.Setenv(name, home)
	}
	if _, err := loadConnection(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "leat"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "leat", "client.properties"), []byte("bootstrap.servers=a:1\nsecurity.protocol=ssl\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadConnection()
	if err != nil || c.servers[0] != "a:1" || c.secure == nil {
		t.Fatalf("%+v, %v", c, err)
	}
	if c, err = loadConnection("--tls=false"); err != nil || c.secure != nil {
		t.Fatalf("%+v, %v", c, err)
	}
}

// What cannot be used says where it stands.
func TestConnectionMistakes(t *testing.T) {
	noPEM := writeFile(t, "ca.pem", "nothing")
	for _, tc := range []struct {
		file, env string // of LEAT_BOOTSTRAP_SERVER
		args      []string
		says      string
	}{
		{args: []string{"--bootstrap-server", "nowhere"}, says: `--bootstrap-server: "nowhere" is no address; expected HOST:PORT`},
		{env: "nowhere", says: `LEAT_BOOTSTRAP_SERVER: "nowhere" is no address`},
		{file: "\nbootstrap.servers=nowhere\n", says: `client.properties:2: bootstrap.servers: "nowhere" is no address`},
		{file: "bootstrap-servers=a:1\n", says: "client.properties:1: bootstrap-servers is no key of this file; it has bootstrap-server, tls"},
		{file: "tls=perhaps\n", says: `client.properties:1: tls: "perhaps" is not true or false`},
		{file: "security.protocol=SASL_SSL\n", says: `client.properties:1: security.protocol is PLAINTEXT or SSL here, not "SASL_SSL"`},
		{file: "a\\u12\n", says: "client.properties:1:"},
		{args: []string{"--client-config", "/no/such/file"}, says: "--client-config: open /no/such/file"},
		{args: []string{"--tls-ca", noPEM}, says: "--tls-ca is for connections with TLS: give --tls too"},
		{args: []string{"--tls", "--tls-ca", noPEM}, says: "there is no certificate in " + noPEM},
		{args: []string{"--tls", "--tls-ca", noPEM + ".missing"}, says: "--tls-ca: open"},
		{args: []string{"--tls", "--tls-cert", noPEM}, says: "--tls-cert and --tls-key belong together"},
		{args: []string{"--tls", "--tls-cert", noPEM, "--tls-key", noPEM}, says: "--tls-cert: "},
	} {
		if tc.file != "" {
			tc.args = append(tc.args, "--client-config", writeFile(t, "client.properties", tc.file))
		}
		t.Setenv("LEAT_BOOTSTRAP_SERVER", tc.env)
		if _, err := loadConnection(tc.args...); err == nil || !isUsage(err) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// tlsProxy serves a broker with TLS; ca is a file with its authority.
func tlsProxy(t *testing.T) (addr, ca string) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	t.Cleanup(s.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	b := leattest.New(t, "advertised.listeners=PLAINTEXT://"+l.Addr().String())
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := net.Dial("tcp", b.Addr())
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, client); server.Close() }()
				_, _ = io.Copy(client, server)
			}()
		}
	}()
	return l.Addr().String(), writeFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
}

func TestConnectionTLS(t *testing.T) {
	addr, ca := tlsProxy(t)
	if code, out, errs := leat("cluster", "describe", "--bootstrap-server", addr, "--tls", "--tls-ca", ca); code != 0 || !strings.Contains(out, addr) {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	t.Setenv("LEAT_CLIENT_CONFIG", writeFile(t, "client.properties", "bootstrap.servers="+addr+"\ntls=true\ntls-ca="+ca+"\n"))
	if code, out, errs := leat("topic", "create", "t"); code != 0 {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	for _, tc := range []struct{ args, says string }{
		{"--tls=false", "give --bootstrap-server the address of a Kafka listener without TLS, or --tls"},
		{"--tls-server-name other.example", "or give it with --tls-server-name"},
		{"--tls-ca=", "with --tls-ca"},
	} {
		code, _, errs := leat(append(strings.Fields("topic list --timeout 10s"), strings.Fields(tc.args)...)...)
		if code != exitFailed || !strings.Contains(errs, tc.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit code %d, %s", tc.args, code, errs)
		}
	}
	plain, web := leattest.New(t), httptest.NewServer(nil)
	defer web.Close()
	for _, server := range []string{plain.Addr(), strings.TrimPrefix(web.URL, "http://")} {
		if code, _, errs := leat("topic", "list", "--timeout", "10s", "--bootstrap-server", server); code != exitFailed || !strings.Contains(errs, "leave out --tls") {
			t.Errorf("%s: exit code %d, %s", server, code, errs)
		}
	}
}
