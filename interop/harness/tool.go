package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Tool runs one of Kafka's Java command line tools by class name and returns its standard output. A failure is fatal.
func Tool(t testing.TB, limit time.Duration, stdin io.Reader, class string, args ...string) string {
	t.Helper()
	Need(t, "java", "mvn", "bash")
	return Program(t, limit, stdin, "bash", toolArgs(class, args)...)
}

// ToolTo is Tool with the standard output going to a writer and a failure as an error.
func ToolTo(limit time.Duration, stdout io.Writer, class string, args ...string) error {
	return Pipe(limit, nil, stdout, "bash", toolArgs(class, args)...)
}

func toolArgs(class string, args []string) []string {
	return append([]string{KafkaScript(), "tool", class}, args...)
}

// toolOptions make the JVM of a tool start fast.
const toolOptions = "KAFKA_TOOL_OPTS=-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"

// Program runs a program to its end and returns its standard output. A failure is fatal.
func Program(t testing.TB, limit time.Duration, stdin io.Reader, name string, args ...string) string {
	t.Helper()
	out, err := TryProgram(limit, stdin, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TryProgram is Program with the failure as an error that holds what the program printed.
func TryProgram(limit time.Duration, stdin io.Reader, name string, args ...string) (string, error) {
	var out bytes.Buffer
	err := Pipe(limit, stdin, &out, name, args...)
	return out.String(), err
}

// Pipe runs a program to its end, its standard output going to stdout.
func Pipe(limit time.Duration, stdin io.Reader, stdout io.Writer, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &errOut
	if os.Getenv("KAFKA_TOOL_OPTS") == "" {
		cmd.Env = append(os.Environ(), toolOptions)
	}
	cmd.WaitDelay = 5 * time.Second
	err := spawn(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("not done after %v", limit)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", shorten(name, args), err, errOut.Bytes())
	}
	return nil
}

// shorten is a command line for a message.
func shorten(name string, args []string) string {
	line := name + " " + strings.Join(args, " ")
	if len(line) > 300 {
		line = line[:300] + "..."
	}
	return line
}
