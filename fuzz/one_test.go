//go:build unix

package fuzz

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the fuzzer prints: at its end, when only its own deadline has passed (golang/go#75804), and when an input fails.
const (
	fuzzerPasses   = "fuzz: elapsed: 2s, execs: 100 (50/sec), new interesting: 0 (total: 3)\nPASS\nok  \texample/pkg\t2.1s"
	fuzzerDeadline = "fuzz: elapsed: 3s, execs: 100 (0/sec), new interesting: 0 (total: 3)\n--- FAIL: FuzzX (3.01s)\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL\texample/pkg\t3.1s"
	fuzzerFinds    = "--- FAIL: FuzzX (0.03s)\n    --- FAIL: FuzzX (0.00s)\n\n    Failing input written to testdata/fuzz/FuzzX/771e938e4458e983\nFAIL"
	fuzzerSeed     = "--- FAIL: FuzzX (0.00s)\n    --- FAIL: FuzzX/seed#0 (0.00s)\n        x_test.go:9: it is wrong\n    context deadline exceeded\nFAIL"
	fuzzerPanics   = "--- FAIL: FuzzX (0.03s)\n    --- FAIL: FuzzX (0.00s)\n        testing.go:1591: panic: it is wrong\n    context deadline exceeded\nFAIL"
	fuzzerBroken   = "# example/pkg\n./x.go:3:1: syntax error\nFAIL\texample/pkg [build failed]"
)

// one.sh takes nothing but a pass for a pass, and repeats nothing but the fuzzer's own deadline.
func TestOneScript(t *testing.T) {
	for _, tc := range []struct {
		name  string
		says  []string // what the fuzzer prints at each run; the last one goes on
		ok    bool
		tries int
	}{
		{"a pass", []string{fuzzerPasses}, true, 1},
		{"a failing input", []string{fuzzerFinds, fuzzerPasses}, false, 1},
		{"a seed that fails, and the deadline", []string{fuzzerSeed, fuzzerPasses}, false, 1},
		{"a panic and the deadline", []string{fuzzerPanics, fuzzerPasses}, false, 1},
		{"no build", []string{fuzzerBroken, fuzzerPasses}, false, 1},
		{"nothing said", []string{"", fuzzerPasses}, false, 1},
		{"a failing input and the deadline", []string{fuzzerDeadline + "\n" + fuzzerFinds, fuzzerPasses}, false, 1},
		{"the deadline, then a pass", []string{fuzzerDeadline, fuzzerPasses}, true, 2},
		{"four deadlines, then a pass", []string{fuzzerDeadline, fuzzerDeadline, fuzzerDeadline, fuzzerDeadline, fuzzerPasses}, true, 5},
		{"the deadline, then a failing input", []string{fuzzerDeadline, fuzzerFinds, fuzzerPasses}, false, 2},
		{"five deadlines", []string{fuzzerDeadline, fuzzerDeadline, fuzzerDeadline, fuzzerDeadline, fuzzerDeadline, fuzzerPasses}, false, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			ok, said := oneScript(t, dir, tc.says)
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil {
				t.Fatal(err, said)
			}
			want := "test -run ^$ -fuzz ^FuzzX$ -fuzztime 2s -fuzzminimizetime 10x ./pkg\n"
			if ok != tc.ok || string(calls) != strings.Repeat(want, tc.tries) {
				t.Errorf("passed %t, want %t; %d runs, want %d:\n%s%s", ok, tc.ok, strings.Count(string(calls), "\n"), tc.tries, calls, said)
			}
			for _, text := range tc.says[:tc.tries] {
				if !strings.Contains(said, text) {
					t.Errorf("it is not shown: %q", text)
				}
			}
		})
	}
}

// oneScript runs one.sh with a go command that fails, unless PASS is said, and notes its arguments in the file calls.
func oneScript(t *testing.T, dir string, says []string) (ok bool, out string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("#!/usr/bin/env bash\ncd \"$(dirname \"$0\")\"\necho \"$*\" >> calls\ncase $(wc -l < calls | tr -d ' ') in\n")
	for i, text := range says {
		name := filepath.Join(dir, "says"+string(rune('1'+i)))
		if err := os.WriteFile(name, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		b.WriteString(string(rune('1'+i)) + ") said=says" + string(rune('1'+i)) + " ;;\n")
	}
	b.WriteString("esac\ncat \"$said\"\ngrep -q '^PASS$' \"$said\"\n")
	command := filepath.Join(dir, "go")
	if err := os.WriteFile(command, []byte(b.String()), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("./one.sh", "./pkg", "FuzzX", "2s")
	cmd.Env = append(os.Environ(), "GO="+command)
	said, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return err == nil, string(said)
}
