package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const cliIntroduction = `# Command line

Written from the commands themselves (` + "`go test ./cmd/leat -run TestCLIDocument -update`" + `).

Exit codes: 0, it worked; 1, it did not, or something is wrong with the data; 2, the command line or the configuration cannot be used as it is. What goes wrong is said in
one sentence on standard error, with the way out where there is one; standard output has results only. ` + "`--output json`" + ` prints them for programs: fields may be added, none
changes its meaning. ` + "`leat completion bash|zsh|fish|powershell`" + ` prints a script that completes commands and flags.

How a cluster is reached (` + "`--bootstrap-server`, `--tls` and the other `--tls-` flags" + `) may be said by a flag, by a variable (` + "`LEAT_BOOTSTRAP_SERVER`, `LEAT_TLS_CA`" + `) or by a
properties file (` + "`bootstrap-server=broker:9092`" + `; ` + "`bootstrap.servers`, `security.protocol`, `ssl.ca.location`, `ssl.certificate.location` and `ssl.key.location`" + ` are
understood, too); the first of them that says something counts. The file is that of ` + "`--client-config`, else of `LEAT_CLIENT_CONFIG`" + `, else
` + "`leat/client.properties`" + ` in the user's configuration directory (on Linux ` + "`~/.config`" + `).
`

// commandDocs writes a section for a command and all below it.
func commandDocs(b *strings.Builder, cmd *cobra.Command) {
	if cmd.Name() == "help" || cmd.Name() == "completion" || cmd.Hidden {
		return
	}
	if cmd.HasParent() {
		text := cmd.Long
		if text == "" {
			text = cmd.Short + "."
		}
		fmt.Fprintf(b, "\n## %s\n\n%s\n\n", cmd.CommandPath(), strings.TrimSpace(text))
		if cmd.HasSubCommands() {
			for _, sub := range cmd.Commands() {
				fmt.Fprintf(b, "- `%s`: %s\n", sub.CommandPath(), sub.Short)
			}
		} else {
			fmt.Fprintf(b, "    %s\n", cmd.UseLine())
		}
		if cmd.HasExample() {
			fmt.Fprintf(b, "\nExamples:\n\n%s\n", indented(cmd.Example))
		}
		cmd.InitDefaultHelpFlag()
		if flags := cmd.NonInheritedFlags().FlagUsages(); !cmd.HasSubCommands() {
			fmt.Fprintf(b, "\nFlags:\n\n%s\n", indented(strings.TrimRight(flags, "\n")))
		}
	}
	for _, sub := range cmd.Commands() {
		commandDocs(b, sub)
	}
}

// indented is a text as a block of code.
func indented(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "    " + strings.TrimPrefix(l, "  ")
		}
	}
	return strings.Join(lines, "\n")
}

// docs/CLI.md is what the commands say of themselves.
func TestCLIDocument(t *testing.T) {
	const file = "../../docs/CLI.md"
	var b strings.Builder
	b.WriteString(cliIntroduction)
	commandDocs(&b, newRoot())
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ReplaceAll(string(have), "\r\n", "\n") != b.String() {
		t.Errorf("%s is not what the commands say: go test ./cmd/leat -run TestCLIDocument -update", file)
	}
}

// Every command has a short description, an example where it takes something, and there is a completion for each shell.
func TestCommandsAreDescribed(t *testing.T) {
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short description %q", cmd.CommandPath(), cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(newRoot())
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, out, errs := leat("completion", shell); code != 0 || !strings.Contains(out, "leat") {
			t.Errorf("completion %s: exit code %d, %s", shell, code, errs)
		}
	}
}
