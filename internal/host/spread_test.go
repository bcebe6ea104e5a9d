package host

import (
	"reflect"
	"testing"
)

// smt is a machine of four cores whose CPUs 0-3 and 4-7 are siblings.
func smt() []CPU {
	var out []CPU
	for n := range 8 {
		out = append(out, CPU{Number: n, Core: n % 4, Siblings: []int{n % 4, n%4 + 4}})
	}
	return out
}

func TestSpread(t *testing.T) {
	for _, c := range []struct{ cpus, want []int }{
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{[]int{0, 4, 1, 5}, []int{0, 1, 4, 5}},
		{[]int{5, 6, 7}, []int{5, 6, 7}},
		{[]int{1, 5, 9}, []int{1, 9, 5}}, // CPU 9 is on no core that is known
		{nil, nil},
	} {
		if got := Spread(c.cpus, smt()); !reflect.DeepEqual(got, c.want) {
			t.Errorf("Spread(%v) = %v, want %v", c.cpus, got, c.want)
		}
	}
	if got := Spread([]int{3, 1}, nil); !reflect.DeepEqual(got, []int{3, 1}) {
		t.Errorf("without a topology: %v", got)
	}
}

func TestSharedCores(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		want [][]int
	}{
		{[]int{0, 1, 2, 3}, nil},
		{[]int{0, 4, 2}, [][]int{{0, 4}}},
		{[]int{7, 3, 6, 2, 0}, [][]int{{2, 6}, {3, 7}}},
	} {
		if got := SharedCores(c.cpus, smt()); !reflect.DeepEqual(got, c.want) {
			t.Errorf("SharedCores(%v) = %v, want %v", c.cpus, got, c.want)
		}
	}
}
