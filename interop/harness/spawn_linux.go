package harness

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill cmd's process when this one ends. kafka.sh execs java, which keeps the setting.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
