package replication

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func (r *role) String() string {
	who := "follows"
	if r.leading {
		who = "leads"
	}
	s := fmt.Sprintf("%s in epoch %d, end %d, flushed %d, hw %d, isr %v", who, r.epoch, r.logEnd, r.flushed, r.hw, r.isr)
	for _, f := range r.followers {
		s += fmt.Sprintf(", %d at %d/%d", f.id, f.logEnd, f.flushed)
	}
	return s
}

// TestRoleScripts replays testdata/*.role: each line is an input; what the role says and becomes follows as "-> ...".
func TestRoleScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.role")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, name := range files {
		script, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got := playRole(t, string(script))
		if *rewrite {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got != string(script) {
			t.Errorf("%s gives (-rewrite writes it anew)\n%s", name, got)
		}
	}
}

func playRole(t *testing.T, script string) string {
	r := &role{self: 1, epoch: -1}
	var out strings.Builder
	for lines := bufio.NewScanner(strings.NewReader(script)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "->") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || line[0] == '#' {
			continue
		}
		before := r.hw
		said := r.play(t, strings.Fields(line))
		if said != (r.hw != before) && !strings.HasPrefix(line, "lead") && !strings.HasPrefix(line, "follow") {
			t.Errorf("%s: says moved=%v, the high watermark went from %d to %d", line, said, before, r.hw)
		}
		fmt.Fprintf(&out, "-> %v: %v\n", said, r)
	}
	return out.String()
}

func (r *role) play(t *testing.T, words []string) bool {
	nums := func(s string) (ids []int32) {
		for w := range strings.SplitSeq(s, ",") {
			var id int32
			if _, err := fmt.Sscan(w, &id); err != nil {
				t.Fatal(s, err)
			}
			ids = append(ids, id)
		}
		return ids
	}
	num := func(n int) int64 { return int64(nums(words[n])[0]) }
	switch words[0] {
	case "lead":
		return r.becomeLeader(int32(num(1)), nums(words[2]), nums(words[3]))
	case "follow":
		return r.becomeFollower(int32(num(1)))
	case "isr":
		return r.setISR(nums(words[1]))
	case "caching":
		return r.setCaching(words[1] == "on")
	case "appended":
		return r.appended(num(1))
	case "flushed":
		return r.flushedTo(num(1))
	case "fetched":
		return r.fetched(int32(num(1)), num(2), num(3))
	}
	t.Fatal("unknown input", words)
	return false
}

// TestRoleProperty: the invariants of role hold under any inputs.
func TestRoleProperty(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	for range 500 {
		r := &role{self: 1, epoch: -1}
		replicas := []int32{1, 2, 3}[:1+rnd.IntN(3)]
		ever := false // write.caching was on at some time
		for range 60 {
			before := *r
			said := r.random(rnd, replicas)
			ever = ever || r.caching
			if r.hw < before.hw || r.epoch < before.epoch {
				t.Fatalf("went back: %v, %v before", r, &before)
			}
			if said != (r.hw > before.hw) {
				t.Fatalf("says %v: %v, %v before", said, r, &before)
			}
			if r.hw > r.logEnd || !ever && r.hw > r.flushed {
				t.Fatalf("shows what may be lost: %v", r)
			}
			if r.hw == before.hw || r.caching {
				continue
			}
			for _, f := range r.followers {
				if slices.Contains(r.isr, f.id) && r.hw > f.flushed {
					t.Fatalf("shows what an in-sync replica may lose: %v", r)
				}
			}
		}
	}
}

func (r *role) random(rnd *rand.Rand, replicas []int32) bool {
	isr := replicas[:1+rnd.IntN(len(replicas))]
	switch rnd.IntN(10) {
	case 0:
		r.becomeLeader(r.epoch+int32(rnd.IntN(3))-1, replicas, isr)
		return false
	case 1:
		if rnd.IntN(3) == 0 {
			r.becomeFollower(r.epoch + int32(rnd.IntN(3)) - 1)
		}
		return false
	case 2:
		return r.setISR(isr)
	case 3:
		return rnd.IntN(4) == 0 && r.setCaching(rnd.IntN(2) == 0)
	case 4, 5, 6:
		return r.appended(r.logEnd + int64(rnd.IntN(5)))
	case 7, 8:
		return r.flushedTo(r.flushed + rnd.Int64N(r.logEnd-r.flushed+1))
	}
	end := rnd.Int64N(r.logEnd + 1)
	return r.fetched(replicas[rnd.IntN(len(replicas))], end, rnd.Int64N(end+1))
}
