// Package traces holds the small generated traces that ship with kvbench, and the
// catalogue of public ones. Each generated one records the parameters that it was
// generated with; a test makes sure that they still give it.
//
// It does not read traces, which package trace does, nor fetch them, which package
// fetch does.
package traces

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// To write the traces again after their parameters or the generator changed:
//
//go:generate go test . -run TestRegenerate -update

//go:embed *.jsonl.zst
var files embed.FS

const suffix = ".jsonl.zst"

// Entry describes an embedded trace.
type Entry struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Bytes       int64  `json:"bytes"` // as stored, compressed
}

var descriptions = map[string]string{
	"agentic-small":      "2,000 requests of agents that call tools (generated)",
	"conversation-small": "2,000 requests of people who chat with an assistant (generated)",
}

// Names returns the names of the embedded traces, sorted.
func Names() []string {
	// The pattern is valid, so Glob does not fail.
	paths, _ := fs.Glob(files, "*"+suffix)
	for i := range paths {
		paths[i] = strings.TrimSuffix(paths[i], suffix)
	}
	return paths
}

// Lookup describes the embedded trace of that name, if there is one.
func Lookup(name string) (Entry, bool) {
	info, err := fs.Stat(files, name+suffix)
	if err != nil {
		return Entry{}, false
	}
	return Entry{Name: name, Description: descriptions[name], Bytes: info.Size()}, true
}

// Embedded describes all embedded traces, sorted by name.
func Embedded() []Entry {
	var out []Entry
	for _, name := range Names() {
		e, _ := Lookup(name)
		out = append(out, e)
	}
	return out
}

// Open opens the embedded trace of that name, compressed as it is stored: see
// trace.LoadReader.
func Open(name string) (fs.File, error) {
	f, err := files.Open(name + suffix)
	if err != nil {
		return nil, fmt.Errorf("there is no embedded trace %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return f, nil
}

// OpenFile opens the trace in a file, or the embedded trace of that name if there
// is no such file.
func OpenFile(source string) (fs.File, error) {
	f, err := os.Open(source)
	switch {
	case err == nil:
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s: is a directory; give the file of a trace", source)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	case !errors.Is(err, fs.ErrNotExist) || strings.ContainsRune(source, os.PathSeparator):
		return nil, fmt.Errorf("cannot read the trace: %w", err)
	}
	if embedded, err := files.Open(source + suffix); err == nil {
		return embedded, nil
	}
	text := fmt.Sprintf("%s: no such file, and no embedded trace of that name; there are %s", source, strings.Join(Names(), ", "))
	if _, err := Find(source); err == nil {
		text = fmt.Sprintf("%s: no such file; 'kvbench trace fetch %s' downloads the public trace of that name, whose file is then to be given", source, source)
	}
	return nil, errors.New(text)
}
