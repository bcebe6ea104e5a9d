package wholefile

import (
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{10, 11, 1 << 40} {
		if b, err := Read(path, "a policy", limit); err != nil || string(b) != "0123456789" {
			t.Errorf("limit %d: %q, %v", limit, b, err)
		}
	}
	for _, c := range []struct {
		path  string
		limit int64
		want  string
	}{
		{path, 9, path + " is larger than 9 bytes, so it is not a policy"},
		{"/dev/zero", 8 << 10, "/dev/zero is larger than 8 KiB, so it is not a policy"},
		{dir, 100, dir + " is a folder; give the file of a policy"},
	} {
		if b, err := Read(c.path, "a policy", c.limit); b != nil || err == nil || err.Error() != c.want {
			t.Errorf("%s: %d bytes, error %v; want %q", c.path, len(b), err, c.want)
		}
	}
	if _, err := Read(filepath.Join(dir, "y"), "a policy", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	broken := io.MultiReader(strings.NewReader("x"), failing{})
	if _, err := ReadFrom(broken, "z", "a policy", 5); !errors.Is(err, gzip.ErrChecksum) || !strings.HasPrefix(err.Error(), "read z: ") {
		t.Errorf("error %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, gzip.ErrChecksum }
