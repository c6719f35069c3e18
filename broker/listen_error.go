package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// listenError says once where the broker could not listen, why, and what can be done. The cause is reachable.
type listenError struct {
	address string // HOST:PORT as configured
	where   string // what configures it
	err     error
}

func (e *listenError) Unwrap() error { return e.err }

func (e *listenError) Error() string {
	return fmt.Sprintf("cannot listen on %s: %s", e.address, e.why())
}

func (e *listenError) why() string {
	other := "choose another address with " + e.where
	var dns *net.DNSError
	switch {
	case errors.Is(e.err, syscall.EADDRINUSE):
		return "another process has the port: stop it, or " + other + "; port 0 takes a free one"
	case errors.Is(e.err, fs.ErrPermission):
		return "this user may not have that port: " + other + ", a port from 1024 on"
	case errors.Is(e.err, syscall.EADDRNOTAVAIL):
		return "this machine does not have that address: " + other + "; no host means every address of the machine"
	case errors.As(e.err, &dns):
		return fmt.Sprintf("the name %s has no address (%s): %s", dns.Name, dns.Err, other)
	}
	return reason(e.err).Error() + ": " + other
}

// reason takes the address, which has been said, off an error of the net package.
func reason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return err
}
