package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
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
