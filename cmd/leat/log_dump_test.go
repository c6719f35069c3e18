package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leatmq/leat/record"
)

func TestLogDump(t *testing.T) {
	b := record.NewBuilder(record.Options{})
	b.Append(1_700_000_000_000, []byte("k"), []byte("v"), nil)
	for _, tc := range []struct {
		name, file string
		data       []byte
		table      []string // what each line ends with
		jsonLines  int
	}{
		{"no bytes", "00000000000000000000.log", nil, []string{" no batches"}, 0},
		{"allocated ahead", "00000000000000000000.log", make([]byte, 8192), []string{" no batches", "unused: 8192 bytes allocated ahead"}, 1},
		{"deleted", "00000000000000000000.log.deleted", nil, []string{" no batches"}, 0},
		{"one batch", "00000000000000000000.log", b.Bytes(), []string{""}, 1},
		{"empty checkpoint", "recovery-point-offset-checkpoint", []byte("0\n0\n"), []string{" no entries"}, 0},
		{"empty index", "00000000000000000000.timeindex", nil, []string{" no entries"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), tc.file)
			if err := os.WriteFile(path, tc.data, 0o644); err != nil {
				t.Fatal(err)
			}
			code, out, stderr := leat("log", "dump", path)
			lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			if code != 0 || len(lines) != len(tc.table) {
				t.Fatalf("exit %d, %q %s", code, out, stderr)
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, path+" ") || !strings.HasSuffix(line, tc.table[i]) {
					t.Errorf("line %q", line)
				}
			}
			code, out, stderr = leat("log", "dump", "-o", "json", path)
			if code != 0 || strings.Count(out, "\n") != tc.jsonLines {
				t.Fatalf("exit %d, %q %s", code, out, stderr)
			}
			for line := range strings.Lines(out) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %q", line)
				}
			}
		})
	}
}

// What cannot be read is a failure with its reason, not damage of a file; nothing is printed of it.
func TestLogDumpOfMissingFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000000.txnindex", "00000000000000000000.snapshot",
		"leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "partition.metadata", "meta.properties", "00000000000000000000-0000000000.checkpoint",
	} {
		path := filepath.Join(dir, name)
		code, out, stderr := leat("log", "dump", path)
		if code != exitFailed || out != "" || !strings.Contains(stderr, path) || !strings.Contains(stderr, "no such file") && !strings.Contains(stderr, "file does not exist") {
			t.Errorf("%s: exit %d, %q %s", name, code, out, stderr)
		}
	}
	directory := filepath.Join(dir, "leader-epoch-checkpoint")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := leat("log", "dump", directory); code != exitFailed || out != "" || stderr == "" {
		t.Errorf("a directory: exit %d, %q %s", code, out, stderr)
	}
}

// Every file that `leat log verify` knows is one that dump prints; the metadata's snapshots are seen to be damaged as a whole, too.
func TestLogDumpOfEveryFile(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := servedDir(t, syscall.SIGTERM)
	var snapshots []string
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == ".lock" || e.Name() == ".reserve" {
			return err
		}
		if filepath.Ext(path) == ".checkpoint" {
			snapshots = append(snapshots, path)
		}
		if code, out, stderr := leat("log", "dump", path); code != 0 || !strings.HasPrefix(out, path+" ") {
			t.Errorf("%s: exit %d, %q %s", path, code, out, stderr)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(snapshots) == 0 {
		t.Fatal("a stopped broker has left no snapshot of its metadata")
	}
	path := snapshots[len(snapshots)-1]
	if code, out, _ := leat("log", "dump", "--records", path); code != 0 || !strings.Contains(out, "baseOffset: 0") || !strings.Contains(out, "offset: 0 ") || !strings.Contains(out, "metadata.version") {
		t.Errorf("exit %d, %s", code, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, _, err := record.Frame(data)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(data)
	flipped[len(flipped)-1] ^= 1
	for name, damaged := range map[string][]byte{"a flipped bit": flipped, "no trailer": first, "no bytes": nil} {
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if code, out, stderr := leat("log", "dump", path); code != exitFailed || !strings.Contains(out, path+" ") || !strings.Contains(out, "damage: ") {
			t.Errorf("%s: exit %d, %q %s", name, code, out, stderr)
		}
	}
}
