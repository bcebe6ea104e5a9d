package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	for _, n := range []int{0, 1, inMemory, inMemory + 1, 5*inMemory + 7} {
		folder := t.TempDir()
		t.Setenv("TMPDIR", folder)
		var l List[int64]
		want := make([]int64, n)
		for i := range want {
			want[i] = int64(n - i)
			if err := l.Add(want[i]); err != nil {
				t.Fatal(err)
			}
		}
		got, m, err := l.Values()
		if err != nil || l.Len() != n || !slices.Equal(got, want) || (m != nil) != (n > inMemory) {
			t.Fatalf("%d values: %d, mapped %v, %v", n, len(got), m != nil, err)
		}
		slices.Sort(got)
		slices.Sort(want)
		m.Unload()
		if !slices.Equal(got, want) {
			t.Errorf("%d values changed when they were unloaded", n)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("files are left: %v, %v", left, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Add(1); err == nil {
			t.Error("a closed list takes values")
		}
	}
}

func TestMake(t *testing.T) {
	for _, n := range []int{0, inMemory, inMemory + 1, 300_001} {
		v, m, err := Make[[3]int32](n)
		if err != nil || len(v) != n || (m != nil) != (n > inMemory) {
			t.Fatalf("%d values: %d, %v", n, len(v), err)
		}
		for i := range v {
			if v[i] != ([3]int32{}) {
				t.Fatalf("value %d is %v", i, v[i])
			}
			v[i][2] = int32(i)
		}
		m.Unload()
		for i := range v {
			if v[i] != ([3]int32{0, 0, int32(i)}) {
				t.Fatalf("value %d is %v", i, v[i])
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNoRoom(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	l := List[int64]{file: full}
	err = l.Add(make([]int64, inMemory+1)...)
	if err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("error %v", err)
	}
	if _, _, again := l.Values(); again == nil {
		t.Error("a list that failed has values")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	if _, _, err := Make[int64](inMemory + 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
