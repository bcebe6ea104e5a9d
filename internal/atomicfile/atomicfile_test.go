package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// names returns what a folder holds.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
}

// wantError checks that both functions fail and say the same.
func wantError(t *testing.T, path string, overwrite bool, is error, says string) {
	t.Helper()
	filled := false
	for name, err := range map[string]error{
		"CheckWritable": CheckWritable(path, overwrite),
		"Write":         Write(path, overwrite, func(io.Writer) error { filled = true; return nil }),
	} {
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) || is != nil && !errors.Is(err, is) {
			t.Errorf("%s(%q, %v): %v, want an error with %q", name, path, overwrite, err, says)
		}
	}
	if filled {
		t.Errorf("%q: the content was asked for though it could not be kept", path)
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	if err := CheckWritable(path, false); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != "" {
		t.Fatalf("CheckWritable left %s", got)
	}
	if err := Write(path, false, text("first")); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "first")
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	a, b := stat(t, path), stat(t, plain)
	if a.Mode() != b.Mode() {
		t.Errorf("mode %v, any other new file has %v", a.Mode(), b.Mode())
	}

	wantError(t, path, false, fs.ErrExist, "choose another name, remove it, or pass --overwrite")
	wantFile(t, path, "first")
	if err := CheckWritable(path, true); err != nil {
		t.Error(err)
	}
	wantFile(t, path, "first")
	if err := Write(path, true, text("second")); err != nil {
		t.Error(err)
	}
	wantFile(t, path, "second")
	// With overwrite the file need not exist.
	if err := Write(filepath.Join(dir, "new"), true, text("x")); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); got != "new plain run.json" {
		t.Errorf("the folder holds %s", got)
	}
	// A relative name.
	t.Chdir(dir)
	if err := Write("here", false, text("y")); err != nil {
		t.Error(err)
	}
	wantFile(t, path[:len(path)-len("run.json")]+"here", "y")
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestBadPlaces(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("kept"), 0o666); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, overwrite := range []bool{false, true} {
		wantError(t, "", overwrite, nil, "no name")
		wantError(t, dir, overwrite, nil, "it is a folder; name a file in it")
		wantError(t, filepath.Join(dir, "none", "run.json"), overwrite, fs.ErrNotExist, "none does not exist; make it first")
		wantError(t, filepath.Join(file, "run.json"), overwrite, unix.ENOTDIR, "file is not a folder")
		wantError(t, link, overwrite, fs.ErrExist, "not a regular file")
		wantError(t, "/dev/null", overwrite, fs.ErrExist, "not a regular file")
		wantError(t, filepath.Join(dir, strings.Repeat("x", 300)), overwrite, nil, "file name too long")
	}
	wantFile(t, file, "kept")
	if got := names(t, dir); got != "file link" {
		t.Errorf("the folder holds %s", got)
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	broken := errors.New("broken")
	for _, exists := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "run.json")
		want := ""
		if exists {
			want = "run.json"
			if err := os.WriteFile(path, []byte("kept"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		err := Write(path, true, func(w io.Writer) error {
			// More than the buffer, so that some of it is in the file.
			if _, err := w.Write(make([]byte, 3<<20)); err != nil {
				return err
			}
			return broken
		})
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, want %v and the name", err, broken)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = Write(path, true, func(io.Writer) error { panic("broken") })
		}()
		if got := names(t, dir); got != want {
			t.Errorf("the folder holds %q, want %q", got, want)
		}
		if exists {
			wantFile(t, path, "kept")
		}
	}
}

// TestLateExistence lets the file appear while the content is written.
func TestLateExistence(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	err := Write(path, false, func(w io.Writer) error {
		if err := os.WriteFile(path, []byte("theirs"), 0o666); err != nil {
			return err
		}
		return text("ours")(w)
	})
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "--overwrite") {
		t.Errorf("%v, want %v", err, fs.ErrExist)
	}
	wantFile(t, path, "theirs")
	if got := names(t, dir); got != "run.json" {
		t.Errorf("the folder holds %s", got)
	}
}

// TestOneWriterWins has many write the same new file at once.
func TestOneWriterWins(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	var wins, losses atomic.Int64
	var winner atomic.Value
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			content := fmt.Sprint("writer ", i)
			switch err := Write(path, false, text(content)); {
			case err == nil:
				wins.Add(1)
				winner.Store(content)
			case errors.Is(err, fs.ErrExist):
				losses.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if wins.Load() != 1 || losses.Load() != 15 {
		t.Fatalf("%d writers won and %d lost", wins.Load(), losses.Load())
	}
	wantFile(t, path, winner.Load().(string))
	if got := names(t, dir); got != "run.json" {
		t.Errorf("the folder holds %s", got)
	}
}

// TestLinkTo is the way of file systems that cannot rename without replacing.
func TestLinkTo(t *testing.T) {
	dir := t.TempDir()
	tmp, path := filepath.Join(dir, "tmp"), filepath.Join(dir, "run.json")
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(tmp, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		err := linkTo(tmp, path)
		if content == "first" && err != nil || content == "second" && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", content, err)
		}
	}
	wantFile(t, path, "first")
	if got := names(t, dir); got != "run.json tmp" {
		t.Errorf("the folder holds %s", got)
	}
}

// mount makes a small file system of its own. It needs root.
func mount(t *testing.T) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir = t.TempDir()
	if err := unix.Mount("kvbench-test", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("cannot mount a small file system here: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := mount(t)
	path := filepath.Join(dir, "run.json")
	if err := Write(path, false, text("kept")); err != nil {
		t.Fatal(err)
	}
	err := Write(path, true, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 4<<20))
		return err
	})
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want %v and the name", err, unix.ENOSPC)
	}
	// One that fits the buffer fails at its end.
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20-12<<10), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, true, text(strings.Repeat("x", 100<<10))); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v, want %v", err, unix.ENOSPC)
	}
	wantFile(t, path, "kept")
	if got := names(t, dir); got != "filler run.json" {
		t.Errorf("the folder holds %s", got)
	}
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := mount(t)
	path := filepath.Join(dir, "run.json")
	if err := Write(path, false, text("kept")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	wantError(t, filepath.Join(dir, "new.json"), false, unix.EROFS, "may not be written to; choose another")
	wantError(t, path, true, unix.EROFS, "may not be written to; choose another")
	wantFile(t, path, "kept")
}

func TestReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write to any folder")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	wantError(t, filepath.Join(dir, "run.json"), false, fs.ErrPermission, "may not be written to; choose another")
}

func TestPieces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	write := func(overwrite bool) *File {
		t.Helper()
		f, err := Create(path, overwrite)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"one ", "two"} {
			if _, err := f.Write([]byte(s)); err != nil {
				t.Fatal(err)
			}
		}
		return f
	}
	f := write(false)
	if err := errors.Join(f.Abort(), f.Abort()); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != "" {
		t.Fatalf("after Abort there is %s", got)
	}
	if err := f.Commit(); err == nil {
		t.Error("Commit after Abort did nothing and said nothing")
	}
	f = write(false)
	if err := errors.Join(f.Commit(), f.Abort()); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "one two")
	if _, err := Create(path, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an existing file is begun anew: %v", err)
	}
	// One that appears meanwhile is not replaced.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f = write(false)
	if err := os.WriteFile(path, []byte("theirs"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("committed over another's file: %v", err)
	}
	wantFile(t, path, "theirs")
	if got := names(t, dir); got != "a" {
		t.Errorf("there is %s", got)
	}
}

func TestMove(t *testing.T) {
	dir := t.TempDir()
	tmp, path := filepath.Join(dir, "tmp"), filepath.Join(dir, "file")
	for i, overwrite := range []bool{false, false, true} {
		if err := os.WriteFile(tmp, []byte{byte('a' + i)}, 0o644); err != nil {
			t.Fatal(err)
		}
		err := Move(tmp, path, overwrite)
		got, readErr := os.ReadFile(path)
		if readErr != nil {
			t.Fatal(readErr)
		}
		switch want := []string{"a", "a", "c"}[i]; {
		case string(got) != want:
			t.Errorf("move %d: the file holds %q, want %q", i, got, want)
		case i == 1 && !errors.Is(err, fs.ErrExist):
			t.Errorf("move %d: %v, want that the file exists", i, err)
		case i != 1 && err != nil:
			t.Errorf("move %d: %v", i, err)
		}
		if _, err := os.Stat(tmp); (err == nil) != (i == 1) {
			t.Errorf("move %d: the temporary file: %v", i, err)
		}
	}
}

// TestClean removes what was left unfinished, and nothing else.
func TestClean(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".kvbench-0123abcd.tmp", ".kvbench-long-name.tmp", ".kvbench", "kvbench-0123abcd.tmp", "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".kvbench-01234567.tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	f, err := Create(filepath.Join(dir, "half"), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := Clean(dir); err != nil {
		t.Fatal(err)
	}
	var got []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := ".kvbench .kvbench-01234567.tmp .kvbench-long-name.tmp kvbench-0123abcd.tmp x"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("%q, %v, want %s", got, err, want)
	}
	_ = f.Abort()
	if err := Clean(filepath.Join(dir, "missing")); err == nil {
		t.Error("a folder that is missing was cleaned")
	}
}

// TestRoom leaves nothing, whether there is room or not.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	if err := Room(dir, 100_000); err != nil {
		t.Error(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := Room(dir, 100_000); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v", err)
	}
	if err := Room(dir, 50_000); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if err := Room(filepath.Join(dir, "missing"), 1); err == nil {
		t.Error("there is room in a folder that is missing")
	}
}
