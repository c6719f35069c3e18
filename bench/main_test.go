//go:build linux

package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	roundCount = flag.Int("rounds", 5, "how often a workload and its floor take turns")
	roundTime  = flag.Duration("round", 700*time.Millisecond, "how long a turn of a socket workload takes")
	profileDir = flag.String("profile", "", "write CPU and allocation profiles of brokers to this directory")
	settings   = flag.String("set", "", "broker keys for the socket workloads: key=value,key=value")
	dataDir    = flag.String("dir", "", "where the data is kept; default: the system's directory for temporary files")
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		os.Exit(childMain(role))
	}
	flag.Parse()
	code := m.Run()
	printTable(os.Stdout)
	removeProgram()
	os.Exit(code)
}

// scratch is an empty directory for one benchmark.
func scratch(b testing.TB) string {
	b.Helper()
	dir, err := os.MkdirTemp(*dataDir, "leat-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// brokerSpec is a child that is a broker with the settings of the command line.
func brokerSpec(dir string) childSpec {
	s := childSpec{Role: "broker", Dir: dir}
	if *settings != "" {
		s.Settings = strings.Split(*settings, ",")
	}
	return s
}

// memoryTouched: the first touch of memory costs a fresh virtual machine 2 s/GB, and would be charged to whoever runs first.
var memoryTouched bool

const touchBytes = 2 << 30

// touchMemory writes a file larger than what any benchmark has in the page cache, and removes it.
func touchMemory(b *testing.B) {
	b.Helper()
	if memoryTouched {
		return
	}
	memoryTouched = true
	name := filepath.Join(scratch(b), "warm-up")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for n := 0; n < touchBytes; n += len(buf) {
		if _, err := f.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.Remove(name); err != nil {
		b.Fatal(err)
	}
}

// cpuTime is what this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprintf("getrusage: %v", err)) // cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
