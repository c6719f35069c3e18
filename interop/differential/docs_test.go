package differential

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update", false, "write the accepted differences into docs/COMPATIBILITY.md instead of comparing them")

// docs/COMPATIBILITY.md lists the accepted differences as they are.
func TestAcceptedDocument(t *testing.T) {
	watch(t)
	const path = "../../docs/COMPATIBILITY.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), "<!-- differences: begin")
	mark, rest, ok2 := strings.Cut(rest, "\n")
	section, after, ok3 := strings.Cut(rest, "<!-- differences: end -->")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has lost the marks around the differences", path)
	}
	want := "\n" + strings.TrimSpace(AcceptedMarkdown()) + "\n\n"
	if section == want {
		return
	}
	if !*updateDocs {
		t.Fatalf("%s does not list the accepted differences as they are; run go test ./differential -run TestAcceptedDocument -update in interop", path)
	}
	if err := os.WriteFile(path, []byte(before+"<!-- differences: begin"+mark+"\n"+want+"<!-- differences: end -->"+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
