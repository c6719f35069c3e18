package vfs

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"
)

// crashes returns what n crashes of m in mode leave.
func crashes(m *Mem, mode CrashMode, n int) []*Mem {
	list := make([]*Mem, n)
	for i := range list {
		list[i] = m.Crash(mode)
	}
	return list
}

// seen collects the outcomes of many random crashes.
func seen(m *Mem, mode CrashMode, outcome func(after *Mem) string) map[string]int {
	got := map[string]int{}
	for _, after := range crashes(m, mode, 300) {
		got[outcome(after)]++
	}
	return got
}

// mustSee checks that the outcomes are exactly the wanted ones.
func mustSee(t *testing.T, got map[string]int, want ...string) {
	t.Helper()
	left := maps.Clone(got)
	for _, w := range want {
		if got[w] == 0 {
			t.Errorf("never saw %q in %v", w, got)
		}
		delete(left, w)
	}
	if len(left) > 0 {
		t.Errorf("unexpected outcomes: %v", left)
	}
}

func pagesOf(letters string) string {
	var b strings.Builder
	for _, c := range letters {
		if c == '0' {
			c = 0
		}
		b.WriteString(strings.Repeat(string(c), memPageSize))
	}
	return b.String()
}

// letters is the inverse of pagesOf; '?' stands for a page that is a mixture.
func letters(t *testing.T, content string) string {
	var b strings.Builder
	for len(content) > 0 {
		page := content[:min(memPageSize, len(content))]
		content = content[len(page):]
		c := page[0]
		switch {
		case strings.Trim(page, page[:1]) != "":
			c = '?'
		case c == 0:
			c = '0'
		}
		b.WriteByte(c)
	}
	return b.String()
}

func TestCrashOfPages(t *testing.T) {
	m := newMemDir(t, "d")
	f := create(t, m, "d/f")
	must(t, m.SyncDir("d"))
	writeAt(t, f, pagesOf("abc"), 0)
	must(t, f.Sync())
	writeAt(t, f, pagesOf("B"), memPageSize)
	writeAt(t, f, pagesOf("D"), 3*memPageSize)

	content := func(after *Mem) string { return letters(t, read(t, after, "d/f")) }
	equal(t, content(m.Crash(LoseUnsynced)), "abc")
	equal(t, content(m.Crash(KeepAll)), "aBcD")
	mustSee(t, seen(m, RandomPages, content), "abc", "aBc", "abcD", "aBcD", "abc0", "aBc0")
	mustSee(t, seen(m, Torn512, func(after *Mem) string { return content(after)[1:2] }), "b", "B", "?")

	must(t, f.Sync())
	for _, mode := range CrashModes {
		mustSee(t, seen(m, mode, content), "aBcD")
	}
}

func TestCrashTearsAtSectors(t *testing.T) {
	m := newMemDir(t, "d")
	f := create(t, m, "d/f")
	must(t, m.SyncDir("d"))
	writeAt(t, f, pagesOf("a"), 0)
	must(t, f.Sync())
	writeAt(t, f, pagesOf("B"), 0)
	for _, after := range crashes(m, Torn512, 50) {
		data := read(t, after, "d/f")
		for at := 0; at < len(data); at += sectorSize {
			if s := data[at : at+sectorSize]; strings.Trim(s, s[:1]) != "" {
				t.Fatalf("sector at %d is torn", at)
			}
		}
	}
}

func TestCrashOfMappedPages(t *testing.T) {
	m := newMemDir(t, "d")
	f := create(t, m, "d/f")
	must(t, m.SyncDir("d"))
	must(t, f.Allocate(0, 2*memPageSize))
	r, err := f.Map(8 * memPageSize)
	must(t, err)
	copy(r.Bytes(), pagesOf("ab"))
	must(t, r.Sync())
	copy(r.Bytes(), pagesOf("A"))
	content := func(after *Mem) string { return letters(t, read(t, after, "d/f")) }
	mustSee(t, seen(m, LoseUnsynced, content), "ab")
	mustSee(t, seen(m, KeepAll, content), "Ab")
	mustSee(t, seen(m, RandomPages, content), "ab", "Ab")
	must(t, f.Sync())
	mustSee(t, seen(m, LoseUnsynced, content), "Ab")
	must(t, r.Close())
	must(t, f.Truncate(memPageSize))
	must(t, f.Sync())
	mustSee(t, seen(m, RandomPages, content), "A")
}

func TestCrashOfAllocatedSpace(t *testing.T) {
	m := newMemDir(t, "d")
	f := create(t, m, "d/f")
	must(t, m.SyncDir("d"))
	must(t, f.Allocate(0, 3*memPageSize))
	content := func(after *Mem) string { return letters(t, read(t, after, "d/f")) }
	mustSee(t, seen(m, RandomPages, content), "", "0", "00", "000")
	must(t, f.Sync())
	mustSee(t, seen(m, Torn512, content), "000")
}

// A cut that is not synced happened or did not; what was written behind it later never mixes with what was there before.
func TestCrashOfTruncation(t *testing.T) {
	m := newMemDir(t, "d")
	f := create(t, m, "d/f")
	must(t, m.SyncDir("d"))
	writeAt(t, f, pagesOf("abc"), 0)
	must(t, f.Sync())
	must(t, f.Truncate(memPageSize))
	writeAt(t, f, pagesOf("XY"), memPageSize)
	content := func(after *Mem) string { return letters(t, read(t, after, "d/f")) }
	mustSee(t, seen(m, LoseUnsynced, content), "abc")
	mustSee(t, seen(m, RandomPages, content), "abc", "a", "aX", "a0", "aXY", "a0Y", "aX0", "a00")
	must(t, f.Truncate(100))
	must(t, f.Sync())
	mustSee(t, seen(m, RandomPages, func(after *Mem) string { return read(t, after, "d/f") }), strings.Repeat("a", 100))
}

// fileLetters lists the files below d, with their content: "a=1 b=2".
func fileLetters(t *testing.T, m *Mem) string {
	list, err := m.ReadDir("d")
	must(t, err)
	var parts []string
	for _, e := range list {
		if e.IsDir {
			parts = append(parts, e.Name+"/")
		} else {
			parts = append(parts, e.Name+"="+read(t, m, "d/"+e.Name))
		}
	}
	return strings.Join(parts, " ")
}

func synced(t *testing.T, m *Mem, name, data string) {
	f := create(t, m, name)
	must(t, f.Truncate(0))
	writeAt(t, f, data, 0)
	must(t, f.Sync())
}

func TestCrashOfEntries(t *testing.T) {
	m := newMemDir(t, "d")
	outcome := func(after *Mem) string { return fileLetters(t, after) }
	synced(t, m, "d/a", "1")
	mustSee(t, seen(m, LoseUnsynced, outcome), "")
	mustSee(t, seen(m, KeepAll, outcome), "a=1")
	mustSee(t, seen(m, RandomPages, outcome), "", "a=1")
	must(t, m.SyncDir("d"))
	mustSee(t, seen(m, RandomPages, outcome), "a=1")

	// A rename happens as a whole, also when the file's creation was not synced either.
	synced(t, m, "d/b", "2")
	must(t, m.Rename("d/b", "d/a"))
	mustSee(t, seen(m, LoseUnsynced, outcome), "a=1")
	mustSee(t, seen(m, KeepAll, outcome), "a=2")
	mustSee(t, seen(m, RandomPages, outcome), "a=1", "a=1 b=2", "a=2")
	must(t, m.SyncDir("d"))
	mustSee(t, seen(m, RandomPages, outcome), "a=2")

	must(t, m.Remove("d/a"))
	synced(t, m, "d/c", "3")
	mustSee(t, seen(m, RandomPages, outcome), "a=2", "a=2 c=3", "c=3", "")

	// SyncFS covers everything.
	writeAt(t, create(t, m, "d/c"), "4", 0)
	must(t, m.SyncFS("d"))
	mustSee(t, seen(m, RandomPages, outcome), "c=4")
}

// A chain of renames of one file survives up to some link: the file is never there twice.
func TestCrashOfRenameChain(t *testing.T) {
	m := newMemDir(t, "d")
	synced(t, m, "d/a", "1")
	must(t, m.SyncDir("d"))
	must(t, m.Rename("d/a", "d/b"))
	must(t, m.Rename("d/b", "d/c"))
	mustSee(t, seen(m, RandomPages, func(after *Mem) string { return fileLetters(t, after) }), "a=1", "b=1", "c=1")
}

func TestCrashOfDirectories(t *testing.T) {
	m := newMemDir(t, "d")
	must(t, m.MkdirAll("d/x/y", 0o755))
	synced(t, m, "d/x/y/f", "1")
	must(t, m.SyncDir("d/x/y"))
	outcome := func(after *Mem) string {
		return fmt.Sprint(fileLetters(t, after), " ", read(t, after, "d/x/y/f"))
	}
	// The file's own directory was synced, but not those above.
	mustSee(t, seen(m, LoseUnsynced, outcome), " -")
	mustSee(t, seen(m, RandomPages, outcome), " -", "x/ -", "x/ 1")
	must(t, m.SyncDir("d/x"))
	must(t, m.SyncDir("d"))
	mustSee(t, seen(m, RandomPages, outcome), "x/ 1")

	// From one directory to another: SyncDir of either makes it durable.
	must(t, m.Rename("d/x/y/f", "d/f"))
	mustSee(t, seen(m, RandomPages, func(after *Mem) string { return read(t, after, "d/f") + read(t, after, "d/x/y/f") }), "-1", "1-")
	must(t, m.SyncDir("d/x/y"))
	mustSee(t, seen(m, LoseUnsynced, func(after *Mem) string { return read(t, after, "d/f") + read(t, after, "d/x/y/f") }), "1-")

	must(t, m.RemoveAll("d/x"))
	mustSee(t, seen(m, LoseUnsynced, outcome), "f=1 x/ -")
	must(t, m.SyncDir("d"))
	mustSee(t, seen(m, LoseUnsynced, outcome), "f=1 -")
}

// A crashed disk is another disk: neither sees what is written to the other one afterwards.
func TestCrashIsACopy(t *testing.T) {
	m := newMemDir(t, "d")
	f := create(t, m, "d/f")
	must(t, m.SyncDir("d"))
	writeAt(t, f, "one", 0)
	must(t, f.Sync())
	writeAt(t, f, "two", 0)
	for _, mode := range CrashModes {
		after := m.Crash(mode)
		before := read(t, after, "d/f")
		writeAt(t, f, mode.String(), 0)
		equal(t, read(t, after, "d/f"), before)
		writeAt(t, create(t, after, "d/f"), "other", 0)
		equal(t, contentOf(t, f)[:len(mode.String())], mode.String())
		equal(t, read(t, after.Crash(LoseUnsynced), "d/f"), before)
	}
}

func TestCrashIsDeterministic(t *testing.T) {
	run := func() string {
		m := NewMem(77)
		must(t, m.MkdirAll("d", 0o755))
		must(t, m.SyncDir("/"))
		var history strings.Builder
		for i := range 20 {
			f := create(t, m, fmt.Sprintf("d/%d", i%7))
			writeAt(t, f, pagesOf("abcdef"[i%6:]), int64(i%3)*memPageSize)
			if i%4 == 0 {
				must(t, m.SyncDir("d"))
			}
			after := m.Crash(CrashModes[i%4])
			list, err := after.ReadDir("d")
			must(t, err)
			for _, e := range list {
				fmt.Fprintln(&history, i, e.Name, letters(t, read(t, after, "d/"+e.Name)))
			}
		}
		return history.String()
	}
	equal(t, run(), run())
}

// WriteFileAtomic leaves the old or the new content at every crash point, and the new one once it has returned.
func TestWriteFileAtomicSurvivesCrashes(t *testing.T) {
	m := newMemDir(t, "d")
	must(t, WriteFileAtomic(m, "d/f", []byte("old")))
	points := 0
	m.OnOp = func(op Op) {
		points++
		for _, mode := range CrashModes {
			for _, after := range crashes(m, mode, 30) {
				if got := read(t, after, "d/f"); got != "old" && got != strings.Repeat("new", 5000) {
					t.Fatalf("%v after %v: %.20q", mode, op, got)
				}
			}
		}
	}
	must(t, WriteFileAtomic(m, "d/f", []byte(strings.Repeat("new", 5000))))
	if points < 5 {
		t.Fatalf("only %d crash points", points)
	}
	mustSee(t, seen(m, LoseUnsynced, func(after *Mem) string { return read(t, after, "d/f")[:3] }), "new")
}

// A full disk: the old file stays, and the space of the failed attempt is given back.
func TestWriteFileAtomicOnFullDisk(t *testing.T) {
	m := newMemDir(t, "d")
	must(t, WriteFileAtomic(m, "d/f", []byte("old")))
	m.SetCapacity(3 * memPageSize)
	mustBe(t, WriteFileAtomic(m, "d/f", make([]byte, 3*memPageSize)), syscall.ENOSPC)
	equal(t, read(t, m, "d/f"), "old")
	u, err := m.Usage("d")
	must(t, err)
	equal(t, u, Usage{Total: 3 * memPageSize, Free: 2 * memPageSize})
}

func TestMemCapacity(t *testing.T) {
	m := newMemDir(t, "d")
	m.SetCapacity(4 * memPageSize)
	free := func() int64 {
		u, err := m.Usage("d")
		must(t, err)
		return u.Free / memPageSize
	}
	f := create(t, m, "d/f")
	n, err := f.WriteAt(make([]byte, 5*memPageSize), 100)
	mustBe(t, err, syscall.ENOSPC)
	equal(t, n, 4*memPageSize-100)
	equal(t, free(), 0)
	writeAt(t, f, "overwriting needs no space", 4000)
	must(t, f.Truncate(memPageSize+1))
	equal(t, free(), 2)
	n64, err := f.WritevAt([][]byte{make([]byte, memPageSize), make([]byte, 3*memPageSize)}, 2*memPageSize)
	mustBe(t, err, syscall.ENOSPC)
	equal(t, n64, 2*memPageSize)
	must(t, f.Truncate(0))

	mustBe(t, f.Allocate(0, 5*memPageSize), syscall.ENOSPC)
	must(t, f.Truncate(0))
	must(t, f.Allocate(0, 4*memPageSize))
	equal(t, free(), 0)
	g := create(t, m, "d/g")
	_, err = g.WriteAt([]byte("x"), 0)
	mustBe(t, err, syscall.ENOSPC)
	r, err := f.Map(memPageSize)
	must(t, err)
	must(t, f.Close())
	must(t, m.Remove("d/f"))
	equal(t, free(), 0) // still mapped
	must(t, r.Close())
	equal(t, free(), 4)
	writeAt(t, g, "x", 0)
	must(t, g.Sync())
	must(t, m.SyncDir("d"))
	u, err := m.Crash(LoseUnsynced).Usage("d")
	must(t, err)
	equal(t, u.Free, 3*memPageSize)
	m.SetCapacity(0)
	writeAt(t, g, pagesOf("abcdefgh"), 0)
}

// Writing through a mapping behind the end of the file is a fault on a real file system. Mem finds out when the file grows over it.
func TestMemFindsWritesBehindTheEnd(t *testing.T) {
	m := newMemDir(t, "d")
	f := create(t, m, "d/f")
	r, err := f.Map(2 * memPageSize)
	must(t, err)
	must(t, f.Allocate(0, memPageSize))
	r.Bytes()[memPageSize+5] = 1
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "BUG: byte 4101") {
			t.Fatalf("got %v", p)
		}
		m.mu.Unlock() // the panic left it locked
	}()
	f.Allocate(0, 2*memPageSize)
}

func TestMemRemap(t *testing.T) {
	m := newMemDir(t, "d")
	f := create(t, m, "d/f")
	r1, err := f.Map(memPageSize)
	must(t, err)
	if _, err := f.Map(memPageSize + 1); err == nil {
		t.Fatal("mapped a longer part while a shorter one is mapped")
	}
	r2, err := f.Map(10)
	must(t, err)
	must(t, f.Allocate(0, 10))
	r1.Bytes()[9] = 7
	equal(t, r2.Bytes()[9], 7)
	must(t, r1.Close())
	must(t, r2.Close())
	mustBe(t, r2.Sync(), os.ErrClosed)
}

func TestMemOnOp(t *testing.T) {
	m := NewMem(1)
	var got []string
	m.OnOp = func(op Op) { got = append(got, op.String()) }
	must(t, m.MkdirAll("/d", 0o755))
	must(t, m.MkdirAll("/d", 0o755)) // changes nothing
	f := create(t, m, "/d/f")
	create(t, m, "/d/f") // exists
	writeAt(t, f, "abc", 1)
	_, err := f.WritevAt([][]byte{{1}, {2, 3}}, 4)
	must(t, err)
	must(t, f.Allocate(0, 100))
	must(t, f.Truncate(50))
	must(t, f.Sync())
	must(t, m.Rename("/d/f", "/d/g"))
	must(t, m.SyncDir("/d"))
	must(t, m.SyncFS("/d"))
	must(t, m.Remove("/d/g"))
	must(t, m.RemoveAll("/d"))
	if _, err := m.Stat("/d"); err == nil {
		t.Fatal("still there")
	}
	equal(t, strings.Join(got, "\n"), strings.Join([]string{
		"mkdir-all /d", "create /d/f", "write /d/f [1,+3)", "write /d/f [4,+3)", "allocate /d/f [0,+100)", "truncate /d/f 50", "sync /d/f",
		"rename /d/f /d/g", "sync-dir /d", "sync-fs /d", "remove /d/g", "remove-all /d",
	}, "\n"))
}

// Random operations and crashes: what was synced is there in every mode, and KeepAll is what readers saw.
func TestCrashKeepsWhatWasSynced(t *testing.T) {
	for seed := range uint64(8) {
		m := NewMem(seed)
		must(t, m.MkdirAll("d", 0o755))
		must(t, m.SyncDir("/"))
		f := create(t, m, "d/f")
		must(t, m.SyncDir("d"))
		durable := []byte{}
		for i := range 60 {
			p := bytes.Repeat([]byte{byte(i + 1)}, 1+int(seed)*531%9000)
			off := int64(i*7919) % 40000
			writeAt(t, f, string(p), off)
			if i%5 == 0 {
				must(t, f.Sync())
				durable = []byte(contentOf(t, f))
			}
			equal(t, read(t, m.Crash(LoseUnsynced), "d/f"), string(durable))
			equal(t, read(t, m.Crash(KeepAll), "d/f"), contentOf(t, f))
			random := read(t, m.Crash(RandomPages), "d/f")
			for at := 0; at < len(random); at += memPageSize {
				page := pageOf(random, at)
				if page != pageOf(string(durable), at) && page != pageOf(contentOf(t, f), at) && page != pageOf(contentOf(t, f)[:len(random)], at) {
					t.Fatalf("seed %d step %d: page at %d is neither old nor new", seed, i, at)
				}
			}
		}
	}
}

// pageOf returns the page of s at off, filled up with zeros.
func pageOf(s string, off int) string {
	page := [memPageSize]byte{}
	if off < len(s) {
		copy(page[:], s[off:])
	}
	return string(page[:])
}

// CrashAt is the same for the same seed, whatever was asked before, and differs for others.
func TestCrashAtIsDecidedBySeed(t *testing.T) {
	m := NewMem(1)
	f, err := m.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte{7}, 32*memPageSize), 0); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	left := func(seed uint64) []byte {
		data, err := ReadFile(m.CrashAt(RandomPages, seed), "f", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	first := left(1)
	others := 0
	for seed := range uint64(20) {
		if !bytes.Equal(left(seed), first) {
			others++
		}
	}
	if !bytes.Equal(left(1), first) || others < 10 {
		t.Fatalf("seed 1 repeats: %v, %d of 20 seeds differ", bytes.Equal(left(1), first), others)
	}
}
