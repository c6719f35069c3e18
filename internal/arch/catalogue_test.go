package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// catalogueIDs are the ids that docs/TESTING.md must have a row for.
var catalogueIDs = []struct {
	prefix string
	count  int
}{{"R", 18}, {"A", 28}, {"C", 14}, {"D", 6}, {"E", 8}, {"F", 13}, {"G", 20}, {"B-A", 19}, {"B-B", 7}, {"B-F", 5}, {"B-G", 5}}

// testName is a test as the document names it: `package.TestName`.
var testName = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)`")

// TestCatalogue: docs/TESTING.md has a row for each id, with a test or a reason, and every test that the document names is there.
func TestCatalogue(t *testing.T) {
	doc, err := os.ReadFile("../../docs/TESTING.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		id := strings.TrimSpace(cells[1])
		if _, twice := rows[id]; twice && !strings.HasPrefix(id, "-") && id != "id" {
			t.Errorf("%s has two rows", id)
		}
		rows[id] = strings.TrimSpace(cells[3])
	}
	for _, ids := range catalogueIDs {
		for n := range ids.count {
			if id := fmt.Sprint(ids.prefix, n+1); len(rows[id]) < 10 {
				t.Errorf("%s has no test and no reason: %q", id, rows[id])
			}
		}
	}
	named := testName.FindAllStringSubmatch(string(doc), -1)
	if len(named) < 100 {
		t.Errorf("%d tests are named: the pattern no longer finds them", len(named))
	}
	for _, m := range named {
		if !hasTest(t, m[1], m[2]) {
			t.Errorf("docs/TESTING.md names %s.%s, which does not exist", m[1], m[2])
		}
	}
}

// hasTest looks for a test function in the directory of a package.
func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
