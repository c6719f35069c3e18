//go:build unix

package engine

import "syscall"

// errQuota is the "disk full" of a file system with quotas.
var errQuota error = syscall.EDQUOT
