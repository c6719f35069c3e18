// Package arch keeps the house in order: a package imports only packages of a lower layer.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"
)

const module = "github.com/leatmq/leat"

// layers is the house, bottom up. A package not named here is refused, so that a new one gets its place on purpose.
// The reason stands beside the layer and is printed when a rule is broken.
var layers = []struct {
	packages string
	reason   string
}{
	{"internal/invariant internal/loglimit internal/metricstest internal/logtest internal/arch internal/properties", "knows nothing; everything may use it"},
	{"internal/vfs internal/metrics record protocol config security client/assign", "leaves: bytes, files, keys, codes and who gets what, without each other"},
	{"index netio internal/rpc", "one kind of file, one kind of socket"},
	{"segment client", "a data file with its indexes; a client of any broker"},
	{"client/admin", "asking a cluster about itself, and changing it"},
	{"bench/load", "a load generator for any broker"},
	{"engine", "partition logs on disk: it knows no protocol and no cluster"},
	{"metadata", "one truth about the cluster, kept in a log of the engine"},
	{"replication", "the role of a partition on this node"},
	{"coordinator/machine coordinator/group/assign", "what a state machine over a partition says and hears; who gets which partitions"},
	{"coordinator coordinator/group coordinator/txn", "state machines over internal partitions; the pure ones know nothing of what runs them"},
	{"broker console", "the only place where storage, network and agreement meet"},
	{"cmd/leat bench fuzz client/leattest", "programs and suites; a broker for tests"},
}

// forbidden names imports that no layer number would catch.
var forbidden = []struct{ from, to, reason string }{
	{"client/admin", module + "/netio", "users of the client must not inherit the server's event loop"},
	{"client/admin", module + "/engine", "users of the client must not inherit the storage engine"},
	{"client", module + "/netio", "users of the client must not inherit the server's event loop"},
	{"client", module + "/engine", "users of the client must not inherit the storage engine"},
	{"engine", module + "/protocol", "storage does not know the wire"},
	{"engine", module + "/netio", "storage does not know the network"},
	{"segment", module + "/protocol", "storage does not know the wire"},
	{"index", module + "/protocol", "storage does not know the wire"},
	{"netio", module + "/protocol", "the network knows frames, not requests"},
	{"coordinator/group", module + "/engine", "the groups are a pure core: no log, clock or socket"},
	{"coordinator/group", module + "/replication", "the groups are a pure core: no log, clock or socket"},
	{"coordinator/group", module + "/metadata", "the groups are a pure core: they are told about topics"},
	{"record", "github.com/twmb/franz-go", "batches are views over bytes, not message structs"},
}

type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func TestLayers(t *testing.T) {
	rank := map[string]int{}
	for i, l := range layers {
		for p := range strings.FieldsSeq(l.packages) {
			rank[path.Join(module, p)] = i
		}
	}
	for _, p := range list(t) {
		mine, ok := rank[p.ImportPath]
		if !ok {
			t.Errorf("%s has no layer: give it one in internal/arch", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			theirs, ok := rank[imp]
			if ok && theirs >= mine {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports go strictly downward.\n  layer %d is: %s",
					p.ImportPath, mine, imp, theirs, mine, layers[mine].reason)
			}
		}
		for _, f := range forbidden {
			if p.ImportPath != path.Join(module, f.from) {
				continue
			}
			for _, d := range p.Deps {
				if d == f.to || strings.HasPrefix(d, f.to+"/") {
					t.Errorf("%s depends on %s: %s", p.ImportPath, d, f.reason)
				}
			}
		}
	}
}

// list asks the go command for every package of the module.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list printed something that is not JSON: %v", err)
		}
		packages = append(packages, p)
	}
	if len(packages) < 2 {
		t.Fatalf("go list found %d packages: the test would check nothing", len(packages))
	}
	return packages
}
