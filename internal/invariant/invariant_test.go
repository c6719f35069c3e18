package invariant

import "testing"

func panicOf(fn func()) (r any) {
	defer func() { r = recover() }()
	fn()
	return nil
}

func TestMust(t *testing.T) {
	if r := panicOf(func() { Must(true, "no") }); r != nil {
		t.Fatalf("Must(true) panicked: %v", r)
	}
	r := panicOf(func() { Must(1 > 2, "%d > %d", 1, 2) })
	if r != "BUG: 1 > 2" {
		t.Fatalf("Must(false) panicked with %v", r)
	}
}

func TestCheck(t *testing.T) {
	r := panicOf(func() { Check(false, "%s", "x") })
	if Enabled && r != "BUG: x" {
		t.Fatalf("enabled Check(false) panicked with %v", r)
	}
	if !Enabled && r != nil {
		t.Fatalf("disabled Check(false) panicked: %v", r)
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	n := 7
	got := testing.AllocsPerRun(100, func() {
		Check(n > 3, "n is %d", n)
		Must(n > 3, "n is %d", n)
	})
	if got != 0 {
		t.Fatalf("%v allocations", got)
	}
}
