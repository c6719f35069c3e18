//go:build unix

package harness

import (
	"errors"
	"syscall"
	"time"
)

// Pause stops the process where it is (SIGSTOP) until Resume.
func (p *Peer) Pause() error { return p.child.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Peer) Resume() error { return p.child.cmd.Process.Signal(syscall.SIGCONT) }

// Running returns an error when the process has ended by itself.
func (p *Peer) Running() error {
	if p.child == nil {
		return errors.New("the broker is not running")
	}
	select {
	case <-p.child.exited:
		return errors.New("the broker ended by itself")
	default:
		return nil
	}
}

// StartAndKill starts a killed leat and kills it again after a while, whether it is ready or not. It returns whether it was, and an error
// when the process had ended by itself.
func (p *Peer) StartAndKill(after time.Duration) (ready bool, err error) {
	mark := outSize(p.Dir)
	c, err := startChild(p.Dir, p.command())
	if err != nil {
		return false, err
	}
	select {
	case <-c.exited:
		return false, errors.New("the broker ended by itself while it started")
	case <-time.After(after):
	}
	c.kill()
	return readyLine.Match(readFrom(p.Dir, mark)), nil
}

// Pid is the process's id.
func (p *Peer) Pid() int { return p.child.cmd.Process.Pid }
