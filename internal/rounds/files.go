package rounds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/results"
)

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

// explain says in words what each difference is of, so that nobody has to look up
// the number of a variant or a file. m is what was, is what is.
func (m *Manifest) explain(differences []Difference, is *Manifest) {
	for i := range differences {
		d := &differences[i]
		var v, f int
		part := "" // of a variant
		if n, _ := fmt.Sscanf(d.Field, "variants[%d]", &v); n == 1 {
			_, part, _ = strings.Cut(d.Field, "].")
		}
		of := m
		if v >= len(m.Variants) {
			of = is
		}
		if part != "" && v >= len(of.Variants) {
			continue
		}
		switch n, _ := fmt.Sscanf(part, "files[%d].sha256", &f); {
		case n == 1 && f < len(of.Variants[v].Files):
			d.What = fmt.Sprintf("the file %s that variant %s names, SHA-256", of.Variants[v].Files[f].Path, of.Variants[v].Name)
		case part == "sha256":
			d.What = fmt.Sprintf("the program of variant %s, %s, SHA-256", of.Variants[v].Name, of.Variants[v].Path)
		case part != "":
			d.What = fmt.Sprintf("variant %s, %s", of.Variants[v].Name, part)
		case d.Field == "work.sha256":
			d.What = "the corpus, SHA-256"
		case strings.HasSuffix(d.Field, "_ns"):
			d.Was, d.Is = duration(d.Was), duration(d.Is)
			d.What = strings.TrimSuffix(d.Field, "_ns")
		case d.Field == "environment":
			d.Was, d.Is = apart(m.Env, is.Env)
		}
	}
}

// duration writes a number of ns as people do, and what is none as it is.
func duration(ns string) string {
	n, err := strconv.ParseInt(ns, 10, 64)
	if err != nil {
		return ns
	}
	return time.Duration(n).String()
}

// apart writes what each of two lists has that the other has not.
func apart(a, b []string) (onlyA, onlyB string) {
	only := func(x, y []string) string {
		x = slices.DeleteFunc(slices.Clone(x), func(s string) bool { return slices.Contains(y, s) })
		if len(x) == 0 {
			return "without"
		}
		return strconv.Quote(strings.Join(x, " "))
	}
	return only(a, b), only(b, a)
}

// changedFiles says which files of a variant are not what they were when the
// experiment began. Before, or after a trial, that is a reason not to count it.
func (r *runner) changedFiles(v *Entrant) []results.Reason {
	var out []results.Reason
	for _, f := range v.Files {
		if sum, changed := r.watch.Changed(f); changed {
			out = append(out, results.Reason{Rule: "changed_file", Detail: fmt.Sprintf("%s was %s when the experiment began and is %s; restore it, or begin another experiment", f.Path, f.SHA256, sum)})
		}
	}
	return out
}
