package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func listenersOf(t *testing.T, settings ...string) (*Broker, error) {
	t.Helper()
	s := NewSet()
	for _, kv := range settings {
		name, value, _ := strings.Cut(kv, "=")
		override(t, s, name, value, Flag)
	}
	return s.Broker()
}

func TestListeners(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"PLAINTEXT://:9092", "[PLAINTEXT://:9092]"},
		{"plaintext://0.0.0.0:0", "[PLAINTEXT://0.0.0.0:0]"},
		{"PLAINTEXT://[::1]:9092,PLAINTEXT://127.0.0.1:9092", "[PLAINTEXT://[::1]:9092 PLAINTEXT://127.0.0.1:9092]"},
		{"PLAINTEXT://*:9092", "[PLAINTEXT://:9092]"},
		{"PLAINTEXT://a:0 , PLAINTEXT://a.b-c:0", "[PLAINTEXT://a:0 PLAINTEXT://a.b-c:0]"},
	} {
		b, err := listenersOf(t, "listeners="+c.value)
		if err != nil || fmt.Sprint(b.Listeners) != c.want {
			t.Errorf("%s: %+v, %v; want %s", c.value, b, err, c.want)
		}
	}
	b, err := listenersOf(t, "listeners=IN://:1,OUT://:2", "listener.security.protocol.map=in:plaintext, OUT:PLAINTEXT", "advertised.listeners=OUT://host:9999")
	if err != nil || fmt.Sprint(b.AdvertisedListeners) != "[OUT://host:9999]" || b.Listeners[0] != (Listener{"IN", "PLAINTEXT", "", 1}) {
		t.Errorf("%+v %v", b, err)
	}
}

func TestListenerErrors(t *testing.T) {
	for _, c := range []struct{ settings, want string }{
		{"listeners=", "there is no address to listen on"},
		{"listeners=localhost:9092", `"localhost:9092" has no listener name; expected NAME://HOST:PORT`},
		{"listeners=PLAINTEXT://localhost", `"PLAINTEXT://localhost" has no port; expected NAME://HOST:PORT`},
		{"listeners=PLAINTEXT://localhost:65536", "is not a number from 0 to 65535"},
		{"listeners=PLAINTEXT://localhost:-1", "is not a number from 0 to 65535"},
		{"listeners=PLAINTEXT://::1:9092", "has no port"},
		{"listeners=PLAINTEXT://[zz::1]:9092", "is not an IPv6 address"},
		{"listeners=PLAINTEXT://a/b:9092", "is not a name or address"},
		{"listeners=OTHER://:9092", "nothing says which security protocol the listener OTHER uses: add OTHER:PLAINTEXT to listener.security.protocol.map"},
		{"listeners=SSL://:9092", "the listener SSL uses SSL, which this version of leat cannot serve"},
		{"listeners=SASL_PLAINTEXT://:9092", "uses SASL_PLAINTEXT"},
		{"listeners=PLAINTEXT://a:1,B://a:1 listener.security.protocol.map=B:PLAINTEXT,PLAINTEXT:PLAINTEXT", "PLAINTEXT://a:1 and B://a:1 are the same address"},
		{"listeners=CONTROLLER://:1 controller.listener.names=CONTROLLER", "there is no address to listen on"},
		{"advertised.listeners=PLAINTEXT://0.0.0.0:9092", "no client can connect to PLAINTEXT://0.0.0.0:9092: name a host"},
		{"advertised.listeners=PLAINTEXT://:9092", "no client can connect to PLAINTEXT://:9092: name a host"},
		{"advertised.listeners=PLAINTEXT://[::]:9092", "name a host"},
		{"advertised.listeners=PLAINTEXT://*:9092", "name a host"},
		{"advertised.listeners=PLAINTEXT://a:0", "port 0"},
		{"advertised.listeners=PLAINTEXT://a:1,PLAINTEXT://b:1", "is there twice"},
		{"advertised.listeners=OTHER://a:1 listener.security.protocol.map=OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT", "has the name of none of the listeners"},
		{"listener.security.protocol.map=PLAINTEXT", `"PLAINTEXT" is not allowed; expected NAME:PROTOCOL`},
		{"listener.security.protocol.map=PLAINTEXT:TCP", "with one of the protocols PLAINTEXT, SSL"},
		{"log.dirs=", "there is no directory"},
	} {
		_, err := listenersOf(t, strings.Fields(c.settings)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.settings, err, c.want)
			continue
		}
		if key, _, _ := strings.Cut(c.settings, "="); !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%s: the error does not begin with the key: %v", c.settings, err)
		}
	}
}

func TestListenersOf(t *testing.T) {
	got, err := ListenersOf([]string{"localhost:9092", "0.0.0.0:0", "[::1]:9093", ":9094", "9095", "*:9096"})
	want := "PLAINTEXT://localhost:9092,PLAINTEXT://0.0.0.0:0,PLAINTEXT://[::1]:9093,PLAINTEXT://:9094,PLAINTEXT://:9095,PLAINTEXT://:9096"
	if err != nil || got != want {
		t.Errorf("%s %v", got, err)
	}
	if _, err := listenersOf(t, "listeners="+got); err != nil {
		t.Error(err)
	}
	if _, err := ListenersOf([]string{"a:1", "a:1"}); err == nil || err.Error() != `"a:1" is there twice` {
		t.Error(err)
	}
	for _, bad := range []string{"", "localhost", "a:b", "a:1,b:2", "PLAINTEXT://a:1", "::1:9092", "a:65536"} {
		if got, err := ListenersOf([]string{bad}); err == nil || !strings.Contains(err.Error(), "expected HOST:PORT") {
			t.Errorf("%q: %q %v", bad, got, err)
		}
	}
}

func TestMetricsListener(t *testing.T) {
	for given, want := range map[string]string{"": "", "localhost:9644": "localhost:9644", "*:0": ":0", ":9644": ":9644", "[::1]:1": "[::1]:1", "9644": "bad", "x:y": "bad", "http://x:1": "bad", "a b:1": "bad"} {
		s := NewSet()
		if err := s.Override("metrics.listener", given, Flag); err != nil {
			t.Fatal(err)
		}
		b, err := s.Broker()
		if want == "bad" {
			if e, ok := errors.AsType[*Error](err); !ok || e.Key != "metrics.listener" {
				t.Errorf("%q: %v", given, err)
			}
			continue
		}
		if err != nil || b.MetricsListener != want {
			t.Errorf("%q: %v, %v", given, b, err)
		}
	}
}
