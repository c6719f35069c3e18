package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/leatmq/leat/client/admin"
)

// diagnose runs `leat doctor` and reads what it finds, by check.
func diagnose(t *testing.T, args ...string) (code int, found map[string]diagnosis) {
	t.Helper()
	code, out, errs := leat(append([]string{"doctor", "--output", "json"}, args...)...)
	var all []diagnosis
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("exit code %d, %s%s: %v", code, out, errs, err)
	}
	found = map[string]diagnosis{}
	for _, d := range all {
		if d.Status != doctorOK && d.Fix == "" || d.Found == "" {
			t.Errorf("%+v says nothing of what to do", d)
		}
		found[d.Check] = d
	}
	return code, found
}

// A broker that works, on its own machine: nothing is bad, and nothing is left behind.
func TestDoctor(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	p := serveProcess(t, dir, "--listen", "127.0.0.1:0")
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, found := diagnose(t, "--data-dir", dir, "--bootstrap-server", p.addr)
	for check, want := range map[string]string{
		"data directory " + dir:     "is there",
		"syncs of " + dir:           "4 KiB take",
		"broker " + p.addr:          "answers",
		"broker 1 (" + p.addr + ")": "can be reached",
		"partitions":                "have a leader",
		"log directory " + dir + " of broker 1 (" + p.addr + ")": "", // the disk of whoever runs this may be full
	} {
		if d, ok := found[check]; !ok || !strings.Contains(d.Found, want) || want != "" && d.Status != doctorOK {
			t.Errorf("%s: %+v, want %q", check, d, want)
		}
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d files became %d, %v", len(before), len(after), err)
	}
	if code, out, _ := leat("doctor", "--data-dir", dir, "--bootstrap-server", p.addr); !strings.Contains(out, "ok    data directory "+dir+": is there\n") || code == exitUsage {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// What is wrong is bad, says what to do, and makes the exit code 1.
func TestDoctorFindsTrouble(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, found := diagnose(t, "--data-dir", file, "--bootstrap-server", "127.0.0.1:1")
	if code != exitFailed || found["data directory "+file].Status != doctorBad || found["broker 127.0.0.1:1"].Status != doctorBad {
		t.Errorf("exit code %d: %+v", code, found)
	}
	fresh := filepath.Join(dir, "a", "b")
	if _, found = diagnose(t, "--data-dir", fresh, "--bootstrap-server", "127.0.0.1:1"); !strings.Contains(found["data directory "+fresh].Found, "would be made in "+dir) {
		t.Errorf("%+v", found)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("it was made")
	}
	if code, _, errs := leat("doctor", "--bootstrap-server", "nonsense"); code != exitUsage || !strings.Contains(errs, "HOST:PORT") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if runtime.GOOS != "linux" {
		return
	}
	if kind, _ := fileSystem("/dev/shm"); strings.HasPrefix(kind, "tmpfs") {
		_, found := diagnose(t, "--data-dir", "/dev/shm", "--bootstrap-server", "127.0.0.1:1")
		if d := found["file system of /dev/shm"]; d.Status != doctorWarn {
			t.Errorf("%+v", d)
		}
	}
}

// A broker that sends clients to their own machine, or to an address where nobody is, is found out.
func TestDoctorAdvertised(t *testing.T) {
	f := &clusterFlags{connection: connection{servers: []string{"broker.example:9092"}}}
	c, err := admin.New(f.clientConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var found diagnoses
	found.broker(context.Background(), f, c, admin.Broker{ID: 3, Addr: "127.0.0.1:1"})
	if len(found) != 2 || found[0].Status != doctorWarn || found[1].Status != doctorBad || !strings.Contains(found[1].Fix, "advertised.listeners") {
		t.Errorf("%+v", found)
	}
	f.servers = []string{"localhost:9092", "[::1]:9092"}
	found = nil
	if found.broker(context.Background(), f, c, admin.Broker{ID: 3, Addr: "127.0.0.1:1"}); len(found) != 1 || found[0].Status != doctorBad {
		t.Errorf("%+v", found)
	}
}

// A disk of which less than a twentieth is free is bad: what a broker has left then does not last.
func TestDoctorJudgesSpace(t *testing.T) {
	for free, want := range map[int64]string{0: doctorBad, 49: doctorBad, 50: doctorOK, 1000: doctorOK} {
		var found diagnoses
		if found.spaceOf("disk", free, 1000); len(found) != 1 || found[0].Status != want {
			t.Errorf("%d of 1000 free: %+v", free, found)
		}
	}
}
