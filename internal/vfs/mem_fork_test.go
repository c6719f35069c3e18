package vfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// A fork crashes as its origin does, whatever happens to the origin afterwards, and the other way round.
func TestForkCrashesAlike(t *testing.T) {
	for seed := range uint64(30) {
		m := NewMem(seed)
		s := newScribbler(t, m, seed)
		s.scribble(60)
		f := m.Fork()
		want := crashImages(t, m)
		if got := crashImages(t, f); got != want {
			t.Fatalf("seed %d: the fork crashes to\n%s\nits origin to\n%s", seed, got, want)
		}
		s.scribble(60)
		if got := crashImages(t, f); got != want {
			t.Fatalf("seed %d: what was done to the origin shows in the fork", seed)
		}
		want = crashImages(t, m)
		newScribbler(t, f, seed+1000).scribble(60)
		if got := crashImages(t, m); got != want {
			t.Fatalf("seed %d: what was done to the fork shows in the origin", seed)
		}
	}
}

// scribbler changes a file system at random.
type scribbler struct {
	t    *testing.T
	m    *Mem
	rng  *rand.Rand
	open map[string]File
	maps map[string]Region
}

func newScribbler(t *testing.T, m *Mem, seed uint64) *scribbler {
	if err := m.MkdirAll("/d", 0o755); err != nil {
		t.Fatal(err)
	}
	return &scribbler{t: t, m: m, rng: rand.New(rand.NewPCG(seed, 5)), open: map[string]File{}, maps: map[string]Region{}}
}

func (s *scribbler) scribble(n int) {
	for range n {
		if err := s.step(); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scribbler) file() (string, File, error) {
	name := fmt.Sprintf("/d/f%d", s.rng.IntN(4))
	if f := s.open[name]; f != nil {
		return name, f, nil
	}
	f, err := s.m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	s.open[name] = f
	return name, f, err
}

func (s *scribbler) step() error {
	name, f, err := s.file()
	if err != nil {
		return err
	}
	switch s.rng.IntN(9) {
	case 0, 1:
		_, err = f.WriteAt(bytes.Repeat([]byte{byte(1 + s.rng.IntN(255))}, 1+s.rng.IntN(6000)), s.rng.Int64N(30000))
	case 2:
		if s.maps[name] == nil {
			err = f.Truncate(s.rng.Int64N(30000))
		}
	case 3:
		err = f.Sync()
	case 4:
		err = s.m.SyncDir("/d")
	case 5:
		if s.maps[name] == nil {
			if err = f.Allocate(0, 8192); err == nil {
				s.maps[name], err = f.Map(8192)
			}
		}
	case 6:
		if r := s.maps[name]; r != nil {
			r.Bytes()[s.rng.IntN(8192)] = byte(s.rng.IntN(256))
		}
	case 7:
		to := fmt.Sprintf("/d/f%d", s.rng.IntN(4))
		if to != name {
			err = s.m.Rename(name, to)
			s.open[to], s.maps[to] = f, s.maps[name]
			delete(s.open, name)
			delete(s.maps, name)
		}
	case 8:
		err = s.m.SyncDir("/")
	}
	return err
}

// crashImages describes what crashes of every mode leave.
func crashImages(t *testing.T, m *Mem) string {
	var b bytes.Buffer
	for _, mode := range CrashModes {
		for seed := range uint64(3) {
			after := m.CrashAt(mode, seed)
			fmt.Fprintf(&b, "%v %d:", mode, seed)
			list, _ := after.ReadDir("/d")
			for _, e := range list {
				data, err := ReadFile(after, "/d/"+e.Name, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, " %s %d %x", e.Name, e.Size, checksum(data))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func checksum(data []byte) (sum uint64) {
	for _, x := range data {
		sum = sum*1099511628211 + uint64(x) + 1
	}
	return sum
}
