package fileid

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNamed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	words := []string{"--policy=@a.yaml", "--index=folder", "b.yaml", "@" + filepath.Join(dir, "c"), "--again=b.yaml", "x=c", "", "@", "--empty=", "a\x00b", "missing"}
	want := []string{filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml"), filepath.Join(dir, "c")}
	if got := Named(words, dir); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	sum, err := Hash(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"; sum != want { // sha256sum
		t.Errorf("%s, want %s", sum, want)
	}
	f := File{path, sum}
	var w Watch
	if now, changed := w.Changed(f); changed || now != sum {
		t.Errorf("%s, %v", now, changed)
	}
	write("other")
	if now, changed := w.Changed(f); !changed || now == sum || len(now) != len(sum) {
		t.Errorf("%s, %v", now, changed)
	}
	write("one")
	if now, changed := w.Changed(f); changed {
		t.Errorf("restored: %s", now)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if now, changed := w.Changed(f); !changed || !strings.Contains(now, "no such file") {
		t.Errorf("removed: %s, %v", now, changed)
	}
	if err := w.Trust(path); err == nil {
		t.Error("a file that is missing was trusted")
	}
	write("2")
	if err := w.Trust(path); err != nil {
		t.Fatal(err)
	}
	if _, changed := w.Changed(f); changed {
		t.Error("a trusted file was read")
	}
}
