package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// servedDir is the data directory of a broker that had three records, took snapshots of its metadata, and was stopped: cleanly, or with kill -9.
func servedDir(t *testing.T, stop os.Signal) string {
	dir := t.TempDir()
	p := serveProcess(t, dir, "--listen", "127.0.0.1:0", "--set", "metadata.log.max.record.bytes.between.snapshots=1")
	c := p.dial()
	c.touch("verified")
	for i := range 3 {
		if err := c.produce("verified", fmt.Sprint("value ", i)); err != nil {
			t.Fatal(err)
		}
	}
	p.signal(stop)
	p.wait(patience)
	return dir
}

// Every file that a broker makes is known to the check, however the broker ended.
func TestLogVerify(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, stop := range []os.Signal{syscall.SIGTERM, os.Kill} {
		t.Run(stop.String(), func(t *testing.T) {
			dir := servedDir(t, stop)
			code, out, stderr := leat("log", "verify", dir)
			if code != 0 || strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, " 0 problems\n") {
				t.Fatalf("exit %d, %s%s", code, out, stderr)
			}
			foreign := filepath.Join(dir, "verified-0", "notes.txt")
			if err := os.WriteFile(foreign, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			code, out, _ = leat("log", "verify", dir)
			if code != 0 || !strings.Contains(out, foreign+": not checked, not a file of leat\n") {
				t.Fatalf("exit %d, %s", code, out)
			}
		})
	}
}

// Damage is found with file and position, and nothing is changed.
func TestLogVerifyFindsDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := servedDir(t, syscall.SIGTERM)
	path := filepath.Join(dir, "verified-0", "00000000000000000000.log")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := len(data) / 3
	data[second+70] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := leat("log", "verify", "-o", "json", dir)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err, out, stderr)
	}
	if code != exitFailed || len(r.Problems) != 1 || r.Problems[0].File != path || r.Problems[0].Position != int64(second) || len(r.Unchecked) != 0 {
		t.Fatalf("exit %d, %+v", code, r)
	}
	if code, out, _ := leat("log", "verify", filepath.Dir(path)); code != exitFailed || !strings.Contains(out, fmt.Sprintf("%s: position %d: ", path, second)) {
		t.Fatalf("exit %d, %s", code, out)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(data) {
		t.Fatal("the check changed the file", err)
	}
}

func TestLogVerifyOfSomethingElse(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{dir}, {filepath.Join(dir, "missing")}} {
		if code, out, stderr := leat(append([]string{"log", "verify"}, args...)...); code != exitFailed || stderr == "" {
			t.Errorf("%v: exit %d, %s%s", args, code, out, stderr)
		}
	}
}
