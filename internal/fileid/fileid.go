// Package fileid identifies files by their content: which files a command line names,
// what their hashes are, and whether they still are what they were. An experiment
// that goes on with a changed policy or program compares things that nobody named.
//
// It knows no experiments and gives no verdict.
package fileid

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is a file with the hash of its content.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // hexadecimal
}

// Named returns the regular files that words of a command line name: a word itself,
// the value of a flag behind its =, or either behind an @, as of a policy. A relative
// path is one from dir. A file is listed once, in the order of the words.
func Named(words []string, dir string) []string {
	var out []string
	for _, w := range words {
		names := []string{w}
		if _, value, ok := strings.Cut(w, "="); ok && strings.HasPrefix(w, "-") {
			names = append(names, value)
		}
		for _, name := range names {
			for _, path := range []string{name, strings.TrimPrefix(name, "@")} {
				if path == "" || strings.ContainsRune(path, 0) {
					continue
				}
				if !filepath.IsAbs(path) {
					path = filepath.Join(dir, path)
				}
				if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !slices.Contains(out, path) {
					out = append(out, path)
				}
			}
		}
	}
	return out
}

// Hash returns the SHA-256 of a file's content, hexadecimal.
func Hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Watch says whether files have changed, and reads again only those that look
// different. The zero value is ready; it is not for concurrent use.
type Watch struct{ seen map[string]fs.FileInfo }

// Trust takes the file at path for what it is supposed to be, as one that was hashed
// just now.
func (w *Watch) Trust(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if w.seen == nil {
		w.seen = map[string]fs.FileInfo{}
	}
	w.seen[path] = info
	return nil
}

// Changed says whether a file has another content than its hash says, and what it has:
// a hash, or the text of the error by which it cannot be read.
func (w *Watch) Changed(f File) (now string, changed bool) {
	info, err := os.Stat(f.Path)
	old := w.seen[f.Path]
	if err == nil && old != nil && os.SameFile(info, old) && info.Size() == old.Size() && info.ModTime().Equal(old.ModTime()) {
		return f.SHA256, false
	}
	sum, hashErr := Hash(f.Path)
	switch {
	case hashErr != nil:
		return hashErr.Error(), true
	case sum != f.SHA256:
		return sum, true
	}
	if err == nil {
		if w.seen == nil {
			w.seen = map[string]fs.FileInfo{}
		}
		w.seen[f.Path] = info // of before it was read: a later change is seen
	}
	return sum, false
}
