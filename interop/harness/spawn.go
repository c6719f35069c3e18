package harness

import (
	"os/exec"
	"runtime"
	"sync"
)

var spawner struct {
	once sync.Once
	jobs chan func()
}

// spawn starts cmd on one OS thread that lives as long as the process. Linux delivers the parent-death signal when the
// thread that started a child ends, not the process, so the thread must not be one that the Go runtime may retire.
func spawn(cmd *exec.Cmd) error {
	spawner.once.Do(func() {
		spawner.jobs = make(chan func())
		go func() {
			runtime.LockOSThread()
			for job := range spawner.jobs {
				job()
			}
		}()
	})
	dieWithParent(cmd)
	done := make(chan error)
	spawner.jobs <- func() { done <- cmd.Start() }
	return <-done
}
