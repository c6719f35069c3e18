package protocol

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated into docs/ instead of comparing it")

// docs/COMPATIBILITY.md shows the table that ApiVersions is answered from.
func TestCompatibilityDocument(t *testing.T) {
	const path = "../docs/COMPATIBILITY.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), "<!-- apis: begin")
	mark, rest, ok2 := strings.Cut(rest, "\n")
	section, after, ok3 := strings.Cut(rest, "<!-- apis: end -->")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has lost the marks around the table of APIs", path)
	}
	want := "\n" + CompatibilityTable() + "\n"
	if section == want {
		return
	}
	if !*update {
		t.Fatalf("%s does not show the table of APIs as it is; run go test ./protocol -run TestCompatibilityDocument -update", path)
	}
	if err := os.WriteFile(path, []byte(before+"<!-- apis: begin"+mark+"\n"+want+"<!-- apis: end -->"+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
