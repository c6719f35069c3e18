package load

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	stat := "1234 (a (strange) name 1) S 1 1234 1234 0 -1 4194560 100 0 0 0 250 125 0 0 20 0 9 0 100 1000 100"
	if d, err := parseStat([]byte(stat)); err != nil || d != 3750*time.Millisecond {
		t.Fatal(d, err)
	}
	for _, bad := range []string{"", "1 (x) S 1 2", "1 (x) S 1 1 1 0 -1 0 0 0 0 0 a b 0"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestThisProcess(t *testing.T) {
	if _, err := ProcessCPU(os.Getpid()); err != nil {
		t.Error(err)
	}
	if rss, err := ProcessRSS(os.Getpid()); err != nil || rss < 1<<20 {
		t.Error(rss, err)
	}
	if d, err := ProcessCPU(0); d != 0 || err != nil {
		t.Error(d, err)
	}
}
