package netio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// portAttempts is how often a port is chosen anew when port 0 was asked for several addresses and one of them had the
// chosen port in use.
const portAttempts = 16

// bind listens on every address of the options.
func (o *Options) bind() ([]net.Listener, error) {
	addresses := o.Addresses
	if o.Address != "" {
		addresses = append([]string{o.Address}, addresses...)
	}
	var all []net.Listener
	for _, a := range addresses {
		ls, err := bindAddress(o.Network, a)
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all = append(all, ls...)
	}
	return all, nil
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		l.Close()
	}
}

// bindAddress listens on every IP address of "host:port" with one port.
func bindAddress(network, address string) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("netio: listen address %q: %w", address, err)
	}
	ips, err := resolve(network, host)
	if err != nil {
		return nil, fmt.Errorf("netio: listen address %q: %w", address, err)
	}
	if ips == nil {
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, fmt.Errorf("netio: %w", err)
		}
		return []net.Listener{l}, nil
	}
	for attempt := 1; ; attempt++ {
		ls, err := bindAll(network, ips, port)
		if err == nil {
			return ls, nil
		}
		if port != "0" || attempt == portAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("netio: listen address %q: %w", address, err)
		}
	}
}

// resolve returns the addresses of a name; nil for an address or the empty host (every interface), which need no
// resolution.
func resolve(network, host string) ([]netip.Addr, error) {
	if host == "" {
		return nil, nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil, nil
	}
	if host == "localhost" { // RFC 6761: always the loopback addresses, whatever the hosts file forgot
		return filter(network, []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", host)
	if err != nil {
		return nil, err
	}
	if ips = filter(network, ips); len(ips) == 0 {
		return nil, fmt.Errorf("no %s address of %s", network, host)
	}
	return ips, nil
}

// filter keeps each address of the network's family once.
func filter(network string, ips []netip.Addr) []netip.Addr {
	seen := map[netip.Addr]bool{}
	var kept []netip.Addr
	for _, ip := range ips {
		ip = ip.Unmap()
		if seen[ip] || network == "tcp4" && !ip.Is4() || network == "tcp6" && ip.Is4() {
			continue
		}
		seen[ip] = true
		kept = append(kept, ip)
	}
	return kept
}

// bindAll listens on every address that this machine has; a family that is switched off is no error while another works.
func bindAll(network string, ips []netip.Addr, port string) ([]net.Listener, error) {
	var ls []net.Listener
	var missing error
	for _, ip := range ips {
		l, err := net.Listen(network, net.JoinHostPort(ip.String(), port))
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			missing = err
			continue
		}
		if err != nil {
			closeAll(ls)
			return nil, err
		}
		ls = append(ls, l)
		_, port, _ = net.SplitHostPort(l.Addr().String())
	}
	if len(ls) == 0 {
		return nil, missing
	}
	return ls, nil
}

func addrPortOf(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort()
	}
	return netip.AddrPort{}
}
