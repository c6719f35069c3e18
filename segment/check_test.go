package segment

import (
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// checkFiles verifies all files of a segment as `leat log verify` does and accepts what is harmless.
func checkFiles(t testing.TB, fsys vfs.FS, dir string, base int64) {
	t.Helper()
	must(t, VerifySegment(fsys, dir, base, true, func(p Problem) error {
		if !p.Harmless() {
			t.Error(p)
		}
		return nil
	}))
}
