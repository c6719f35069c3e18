package segment

import (
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

func checkFiles(t testing.TB, fsys vfs.FS, dir string, base int64) { t.Helper() }
