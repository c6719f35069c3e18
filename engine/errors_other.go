//go:build !unix

package engine

import "errors"

// errQuota is the "disk full" of a file system with quotas; there is none here.
var errQuota = errors.New("quota exceeded")
