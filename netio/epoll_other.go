//go:build !linux

package netio

const haveEpoll = false

func listenEpoll(Options) (Server, error) {
	panic("BUG: netio: the epoll driver exists on Linux only")
}
