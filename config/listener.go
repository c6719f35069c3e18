package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Listener is one address the broker listens on, or tells clients to use.
type Listener struct {
	Name     string // upper case
	Protocol string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	Host     string // no brackets; "" = every address of the machine
	Port     int    // 0 = the kernel chooses
}

// String writes the listener as it stands in the configuration.
func (l Listener) String() string {
	return l.Name + "://" + net.JoinHostPort(l.Host, strconv.Itoa(l.Port))
}

var securityProtocols = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

// ListenersOf makes the value of listeners from plain addresses (HOST:PORT, [V6]:PORT, :PORT, PORT, *:PORT), as given with --listen. Errors are
// *Error and speak of addresses, not of the key.
func ListenersOf(addresses []string) (string, error) {
	items := make([]string, 0, len(addresses))
	for _, a := range addresses {
		wrong := func(why string) (string, error) {
			return "", &Error{Key: "listeners", Msg: fmt.Sprintf("%q %s; expected HOST:PORT", a, why)}
		}
		full := a
		if _, err := strconv.ParseUint(a, 10, 16); err == nil {
			full = ":" + a
		}
		host, port, why := parseAddress(full)
		switch {
		case strings.Contains(a, "://"):
			return wrong("has a listener name, which is set with the key listeners")
		case why != "":
			return wrong(why)
		case strings.Contains(a, ","):
			return wrong("is more than one address: give each its own --listen")
		}
		item := Listener{Name: "PLAINTEXT", Host: host, Port: port}.String()
		if port != 0 && slices.Contains(items, item) {
			return "", &Error{Key: "listeners", Msg: fmt.Sprintf("%q is there twice", a)}
		}
		items = append(items, item)
	}
	return strings.Join(items, ","), nil
}

// parseListener reads NAME://HOST:PORT. Protocol stays empty.
func parseListener(key, s string) (Listener, error) {
	wrong := func(why string) (Listener, error) {
		return Listener{}, &Error{Key: key, Msg: fmt.Sprintf("%s: %q %s; expected NAME://HOST:PORT", key, s, why)}
	}
	name, address, ok := strings.Cut(s, "://")
	if !ok || !isListenerName(name) {
		return wrong("has no listener name")
	}
	host, port, why := parseAddress(address)
	if why != "" {
		return wrong(why)
	}
	return Listener{Name: strings.ToUpper(name), Host: host, Port: port}, nil
}

// parseAddress reads HOST:PORT; why says what is wrong with it. A host of "*" is what others write for every address.
func parseAddress(s string) (host string, port int, why string) {
	host, digits, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, "has no port"
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", 0, "has a port that is not a number from 0 to 65535"
	}
	if strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return "", 0, "has a host that is not an IPv6 address"
		}
	} else if strings.ContainsAny(host, " \t/@[]") {
		return "", 0, "has a host that is not a name or address"
	}
	if host == "*" {
		host = ""
	}
	return host, int(n), ""
}

// setMetricsListener checks the address, and makes one that the net package takes of it.
func (b *Broker) setMetricsListener() error {
	if b.MetricsListener == "" {
		return nil
	}
	host, port, why := parseAddress(b.MetricsListener)
	if why != "" {
		return &Error{Key: "metrics.listener", Msg: fmt.Sprintf("metrics.listener: %q %s; expected HOST:PORT", b.MetricsListener, why)}
	}
	b.MetricsListener = net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

func isListenerName(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

// protocolMap reads listener.security.protocol.map.
func protocolMap(s string) (map[string]string, error) {
	const key = "listener.security.protocol.map"
	m := map[string]string{}
	for _, item := range SplitList(s) {
		name, protocol, ok := strings.Cut(item, ":")
		name, protocol = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(protocol))
		if !ok || !isListenerName(name) || !slices.Contains(securityProtocols, protocol) {
			return nil, &Error{Key: key, Msg: fmt.Sprintf("%s: %q is not allowed; expected NAME:PROTOCOL with one of the protocols %s", key, item, strings.Join(securityProtocols, ", "))}
		}
		m[name] = protocol
	}
	return m, nil
}

// setListeners fills the broker's listeners from their four keys, which only make sense together.
func (b *Broker) setListeners(listeners, advertised, controllers []string, protocols string) error {
	byName, err := protocolMap(protocols)
	if err != nil {
		return err
	}
	skip := map[string]bool{}
	for _, c := range controllers {
		skip[strings.ToUpper(c)] = true
	}
	if b.Listeners, err = parseListeners("listeners", listeners, byName, skip); err != nil {
		return err
	}
	if b.AdvertisedListeners, err = parseListeners("advertised.listeners", advertised, byName, skip); err != nil {
		return err
	}
	if err := checkListeners(b.Listeners); err != nil {
		return err
	}
	return checkAdvertised(b.AdvertisedListeners, b.Listeners)
}

func parseListeners(key string, items []string, protocols map[string]string, skip map[string]bool) ([]Listener, error) {
	var list []Listener
	for _, item := range items {
		l, err := parseListener(key, item)
		if err != nil {
			return nil, err
		}
		if skip[l.Name] {
			continue
		}
		if l.Protocol = protocols[l.Name]; l.Protocol == "" {
			return nil, &Error{Key: key, Msg: fmt.Sprintf("%s: nothing says which security protocol the listener %s uses: add %s:PLAINTEXT to listener.security.protocol.map", key, l.Name, l.Name)}
		}
		if l.Protocol != "PLAINTEXT" {
			return nil, &Error{Key: key, Msg: fmt.Sprintf("%s: the listener %s uses %s, which this version of leat cannot serve: use PLAINTEXT", key, l.Name, l.Protocol)}
		}
		list = append(list, l)
	}
	return list, nil
}

func checkListeners(list []Listener) error {
	if len(list) == 0 {
		return &Error{Key: "listeners", Msg: "listeners: there is no address to listen on; expected at least one NAME://HOST:PORT"}
	}
	for i, l := range list {
		for _, other := range list[:i] {
			if l.Port == other.Port && l.Host == other.Host && l.Port != 0 {
				return &Error{Key: "listeners", Msg: fmt.Sprintf("listeners: %s and %s are the same address", other, l)}
			}
		}
	}
	return nil
}

func checkAdvertised(advertised, listeners []Listener) error {
	const key = "advertised.listeners"
	for i, a := range advertised {
		known := slices.ContainsFunc(listeners, func(l Listener) bool { return l.Name == a.Name })
		twice := slices.ContainsFunc(advertised[:i], func(l Listener) bool { return l.Name == a.Name })
		ip, err := netip.ParseAddr(a.Host)
		switch {
		case !known:
			return &Error{Key: key, Msg: fmt.Sprintf("%s: %s has the name of none of the listeners", key, a)}
		case twice:
			return &Error{Key: key, Msg: fmt.Sprintf("%s: the listener %s is there twice", key, a.Name)}
		case a.Host == "" || err == nil && ip.IsUnspecified():
			return &Error{Key: key, Msg: fmt.Sprintf("%s: no client can connect to %s: name a host, or leave the key out and every client is told the address it reached us by", key, a)}
		case a.Port == 0:
			return &Error{Key: key, Msg: fmt.Sprintf("%s: no client can connect to port 0 of %s", key, a)}
		}
	}
	return nil
}
