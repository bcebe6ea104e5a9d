package corpus

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// onlyFiles fails unless the folder holds the named files and nothing else.
func onlyFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	if strings.Join(have, " ") != strings.Join(names, " ") {
		t.Fatalf("the folder holds %q, want %q", have, names)
	}
}

func TestWriteAndOpen(t *testing.T) {
	for _, n := range []int{0, 1, 3000} {
		dir := t.TempDir()
		path := filepath.Join(dir, "c.kvc")
		c := random(8, n)
		if err := c.Write(path, false); err != nil {
			t.Fatal(err)
		}
		onlyFiles(t, dir, "c.kvc")
		got, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		assertSame(t, c, got)
		got.Touch()
		if info, err := os.Stat(path); err != nil || info.Size() < got.SizeBytes() || info.Size() > got.SizeBytes()+2048 {
			t.Fatalf("file of %d bytes (%v) for %d in memory", info.Size(), err, got.SizeBytes())
		}
		if info, _ := os.Stat(path); info.Mode().Perm()&0o044 != 0o044&^umask(t) {
			t.Fatalf("mode %v", info.Mode())
		}

		// An opened corpus writes the very same file.
		again := filepath.Join(dir, "d.kvc")
		if err := got.Write(again, false); err != nil {
			t.Fatal(err)
		}
		a, _ := os.ReadFile(path)
		b, _ := os.ReadFile(again)
		if !bytes.Equal(a, b) {
			t.Fatal("the second file differs")
		}
		if err := got.Close(); err != nil {
			t.Fatal(err)
		}
		if err := got.Close(); err != nil {
			t.Fatalf("second close: %v", err)
		}
		mustPanic(t, func() { got.SHA256() })
	}
}

func umask(t *testing.T) fs.FileMode {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Umask:"); ok {
			var m fs.FileMode
			for _, d := range strings.TrimSpace(v) {
				m = m*8 + fs.FileMode(d-'0')
			}
			return m
		}
	}
	t.Skip("the kernel does not tell the umask")
	return 0
}

func TestCloseInMemory(t *testing.T) {
	c := random(8, 50)
	if err := c.Close(); err != nil || len(c.Ops) != 50 {
		t.Fatalf("close: %v, %d ops left", err, len(c.Ops))
	}
}

func TestWriteKeepsExisting(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.kvc")
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := random(9, 100)
	err := c.Write(path, false)
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Fatalf("the file now holds %q", b)
	}
	onlyFiles(t, dir, "c.kvc")

	if err := c.Write(path, true); err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, dir, "c.kvc")
	got, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()

	// Replacing the file does not disturb who has it open.
	if err := random(10, 10).Write(path, true); err != nil {
		t.Fatal(err)
	}
	assertSame(t, c, got)
}

// Of many writers one wins.
func TestWriteRace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.kvc")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = random(uint64(i), 100).Write(path, false) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, fs.ErrExist):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d writers won", won)
	}
	onlyFiles(t, dir, "c.kvc")
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	c := random(9, 100)

	missing := filepath.Join(dir, "missing", "c.kvc")
	if err := c.Write(missing, false); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "folder "+filepath.Dir(missing)) {
		t.Errorf("missing folder: %v", err)
	}
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(sub, true); err == nil || !strings.Contains(err.Error(), "it is a folder") {
		t.Errorf("onto a folder: %v", err)
	}
	link := filepath.Join(sub, "link")
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(link, true); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("onto a link: %v", err)
	}
	bad := clone(c)
	bad.Ops[3].Kind = 9
	if err := bad.Write(filepath.Join(dir, "bad"), false); err == nil || !strings.Contains(err.Error(), "malformed corpus: op 3") {
		t.Errorf("malformed: %v", err)
	}
	onlyFiles(t, dir, "sub")
}

// mount gives the test a file system of its own, which needs privileges.
func mount(t *testing.T, options string, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("cannot mount a file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestWriteFullDisk(t *testing.T) {
	dir := mount(t, "size=64k", 0)
	path := filepath.Join(dir, "c.kvc")
	small, big := random(1, 10), random(2, 20_000)
	if err := small.Write(path, false); err != nil {
		t.Fatal(err)
	}
	if err := big.Write(path, true); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, want no space", err)
	}
	onlyFiles(t, dir, "c.kvc")
	got, err := Open(path)
	if err != nil {
		t.Fatalf("the file that was there is spoiled: %v", err)
	}
	defer got.Close()
	assertSame(t, small, got)
}

func TestWriteReadOnlyFileSystem(t *testing.T) {
	dir := mount(t, "", unix.MS_RDONLY)
	if err := random(1, 10).Write(filepath.Join(dir, "c.kvc"), false); !errors.Is(err, unix.EROFS) {
		t.Fatalf("got %v", err)
	}
}

func TestWriteReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write to any folder")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if err := random(1, 10).Write(filepath.Join(dir, "c.kvc"), false); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("got %v", err)
	}
}

// failAfter fails with the n-th byte.
type failAfter struct{ n int }

var errDisk = errors.New("the disk is full")

func (f *failAfter) Write(b []byte) (int, error) {
	if len(b) > f.n {
		return f.n, errDisk
	}
	f.n -= len(b)
	return len(b), nil
}

func TestWriteToFailsAnywhere(t *testing.T) {
	c := random(11, 40)
	img, err := c.seal()
	if err != nil {
		t.Fatal(err)
	}
	size := len(encode(t, c))
	for n := range size {
		if err := img.writeTo(&failAfter{n}); !errors.Is(err, errDisk) {
			t.Fatalf("full after %d of %d bytes: %v", n, size, err)
		}
	}
	if err := img.writeTo(&failAfter{size}); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	good := encode(t, random(12, 50))
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path string
		is   error
		want string
	}{
		{filepath.Join(dir, "none"), fs.ErrNotExist, "no such file"},
		{dir, ErrNotCorpus, "it is a directory"},
		{pipe, ErrNotCorpus, "it is a pipe"},
		{"/dev/null", ErrNotCorpus, "it is a device"},
		{write("empty", nil), ErrNotCorpus, "the file is empty"},
		{write("text", []byte("hello, world")), ErrNotCorpus, "it starts with"},
		{write("short", good[:len(good)-1]), nil, "truncated: has"},
		{write("long", append(bytes.Clone(good), 1)), nil, "appended"},
		{write("damaged", append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1)), nil, "checksum mismatch in section hashes"},
	} {
		c, err := Open(tc.path)
		if err == nil || c != nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.path) {
			t.Errorf("%s: got %v, want an error that names it with %q", tc.path, err, tc.want)
		}
		if tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %v is not %v", tc.path, err, tc.is)
		}
	}
	c, err := Open(write("good", good))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestIsCorpusFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c")
	if err := random(1, 5).Write(path, false); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "t")
	short := filepath.Join(dir, "s")
	pipe := filepath.Join(dir, "p")
	if err := errors.Join(os.WriteFile(text, []byte(`{"timestamp": 0}`), 0o644), os.WriteFile(short, magic[:7], 0o644), unix.Mkfifo(pipe, 0o644)); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{path: true, text: false, short: false, dir: false, pipe: false} {
		if got, err := IsCorpusFile(p); err != nil || got != want {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
	if _, err := IsCorpusFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}
