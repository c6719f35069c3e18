package engine

import (
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

func TestCleanMarker(t *testing.T) {
	fsys := newSideDir(t)
	take := func(wantClean bool, wantEpoch int64) {
		t.Helper()
		clean, epoch, err := takeCleanMarker(fsys, sideDir)
		if clean != wantClean || epoch != wantEpoch || err != nil {
			t.Fatalf("got %v, %d, %v", clean, epoch, err)
		}
		if _, err := fsys.Stat(sideDir + "/" + cleanMarkerFileName); err == nil {
			t.Fatal("the marker is still there")
		}
	}
	take(false, -1)
	sideMust(t, putCleanMarker(fsys, sideDir, 42))
	if got := sideRead(t, fsys, cleanMarkerFileName); got != `{"version":0,"brokerEpoch":42}` {
		t.Fatalf("wrote %s", got)
	}
	take(true, 42)
	take(false, -1)
	for data, want := range map[string]bool{
		`{"version":0}`: true,
		`{"version":0,"brokerEpoch":-1,"more":[1,2]}`: true,
		"":                                false,
		`{"brokerEpoch":1}`:               false,
		`{"version":1,"brokerEpoch":1}`:   false,
		`{"version":0,"brokerEpoch":"1"}`: false,
		`{"version":0,"brokerEpoch":1}x`:  false,
		`null`:                            false,
		"\x00\x00\x00\x00":                false,
		string(make([]byte, cleanMarkerBytesMax+1)): false,
	} {
		sidePut(t, fsys, cleanMarkerFileName, []byte(data))
		take(want, -1)
	}
}

// B-A5: once the marker is taken no crash brings it back; and before that a crash leaves it whole or takes it.
func TestCleanMarkerTakeCrash(t *testing.T) {
	put := func(fsys vfs.FS) error { return putCleanMarker(fsys, sideDir, 7) }
	take := func(fsys vfs.FS) error { _, _, err := takeCleanMarker(fsys, sideDir); return err }
	m := newSideDir(t)
	sideMust(t, put(m))
	sideMust(t, take(m))
	atEveryCrash(t, put, func(fsys vfs.FS) error {
		if err := take(fsys); err != nil {
			return err
		}
		_, err := fsys.Usage(sideDir) // an operation more, so that there are enough to count
		return err
	}, func(after vfs.FS, done bool) {
		clean, epoch, err := takeCleanMarker(after, sideDir)
		if err != nil || done && clean || clean && epoch != 7 {
			t.Fatalf("done %v: %v, %d, %v", done, clean, epoch, err)
		}
	})
}

// B-A6, B-A7: a marker is there after a crash only if it was written completely, and certainly if putCleanMarker has returned.
func TestCleanMarkerPutCrash(t *testing.T) {
	atEveryCrash(t, func(vfs.FS) error { return nil }, func(fsys vfs.FS) error { return putCleanMarker(fsys, sideDir, 7) },
		func(after vfs.FS, done bool) {
			clean, epoch, err := takeCleanMarker(after, sideDir)
			if err != nil || done && !clean || clean && epoch != 7 {
				t.Fatalf("done %v: %v, %d, %v", done, clean, epoch, err)
			}
		})
}

func TestCleanMarkerDamaged(t *testing.T) {
	whole := formatCleanMarker(1234)
	damaged(whole, func(bad []byte) {
		if epoch, ok := parseCleanMarker(bad); ok && len(bad) != len(whole) {
			t.Errorf("%q read as %d", bad, epoch)
		}
	})
}
