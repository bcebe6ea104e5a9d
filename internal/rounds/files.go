package rounds

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/results"
)

// namedFiles returns the regular files that words of a command line name: a word
// itself, the value of a flag behind its =, or either behind an @, as of a policy.
// A relative path is that from dir, where trials run. A file is listed once, in
// the order of the words.
func namedFiles(words []string, dir string) []string {
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

// settingsPrefix begins the names of variables that kvbench reads, one of which
// names a file of settings.
const settingsPrefix = "KVBENCH_"

// words are what may name files of a variant: its arguments, for a kvbench those
// that all have, and the values of variables that kvbench reads.
func (m *Manifest) words(v *Variant) []string {
	var out []string
	if v.Kind != Command {
		out = append(out, m.Arguments...)
	}
	out = append(out, v.Args...)
	for _, e := range m.Env {
		if name, value, _ := strings.Cut(e, "="); strings.HasPrefix(name, settingsPrefix) {
			out = append(out, value)
		}
	}
	return out
}

// nameFiles adds the path of the file to each difference of a hash, so that nobody
// has to look it up by its number.
func (m *Manifest) nameFiles(differences []Difference) {
	for i := range differences {
		d := &differences[i]
		var v, f int
		n, err := fmt.Sscanf(d.Field, "variants[%d].files[%d].sha256", &v, &f)
		if err == nil && n == 2 && v < len(m.Variants) && f < len(m.Variants[v].Files) {
			d.Field += " (" + m.Variants[v].Files[f].Path + ")"
		}
	}
}

// changedFiles says which files of a variant are not what they were when the
// experiment began. Before, or after a trial, that is a reason not to count it.
func (r *runner) changedFiles(v *Entrant) []results.Reason {
	var out []results.Reason
	for _, f := range v.Files {
		if sum, changed := r.changed(f); changed {
			out = append(out, results.Reason{Rule: "changed_file", Detail: fmt.Sprintf("%s was %s when the experiment began and is %s; restore it, or begin another experiment", f.Path, f.SHA256, sum)})
		}
	}
	return out
}

// changed says whether a file has another content than the manifest says, and the
// hash of that. It reads the file only if it looks different.
func (r *runner) changed(f File) (sum string, changed bool) {
	info, err := os.Stat(f.Path)
	old := r.seen[f.Path]
	if err == nil && old != nil && os.SameFile(info, old) && info.Size() == old.Size() && info.ModTime().Equal(old.ModTime()) {
		return f.SHA256, false
	}
	if sum = hashNow(f.Path, map[string]string{}); sum != f.SHA256 {
		return sum, true
	}
	r.seen[f.Path] = info
	return sum, false
}
