package host

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvbench/kvbench/internal/text"
)

// WriteText writes a report for people: the verdict, what stands in the way with
// its remedy, then everything else.
func (r *Report) WriteText(w io.Writer) error {
	var b text.Builder
	unfit, doubtful, unknown := r.With(Unfit), r.With(Doubtful), r.With(Unknown)
	b.Wrap("", fmt.Sprintf("%s to measure on: %d checks, %d unfit, %d doubtful, %d unknown",
		strings.ToUpper(string(r.Verdict)), len(r.Findings), len(unfit), len(doubtful), len(unknown)))
	b.Wrap("machine   ", fmt.Sprintf("%s, %s, Linux %s, %.1f GiB, fingerprint %s",
		orUnknown(r.Identity.CPUModel), r.Identity.Arch, orUnknown(r.Identity.Kernel), float64(r.Identity.MemoryBytes)/(1<<30), r.Fingerprint))
	for _, c := range r.Layout.cacheSummary() {
		b.Wrap("cache     ", c)
	}
	if len(r.Layout.Nodes) > 1 {
		for _, n := range r.Layout.Nodes {
			b.Wrap("node      ", fmt.Sprintf("%d: CPUs %s, %.1f GiB", n.Node, orNone(n.CPUs), float64(n.MemoryBytes)/(1<<30)))
		}
	}
	for _, group := range []struct {
		findings []Finding
		remedy   bool
	}{{unfit, true}, {doubtful, true}, {unknown, true}, {r.With(Fit), false}} {
		if len(group.findings) > 0 {
			b.Line("")
		}
		for _, f := range group.findings {
			b.Wrap(fmt.Sprintf("%-8s  %-15s  ", f.Verdict, f.Name), f.Detail)
			if group.remedy && f.Remedy != "" {
				b.Wrap(strings.Repeat(" ", 27)+"> ", f.Remedy)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteText writes a suggestion for people.
func (s *Suggestion) WriteText(w io.Writer) error {
	var b text.Builder
	if s.TooSmall != "" {
		b.Wrap("no set of CPUs: ", s.TooSmall)
		_, err := io.WriteString(w, b.String())
		return err
	}
	b.Wrap("", fmt.Sprintf("%d threads, each on a core of its own:", s.Threads))
	b.Wrap("    ", s.Flags())
	for _, n := range s.Notes {
		b.Wrap("note: ", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteChanges writes what Compare or Happened found, a line or two each.
func WriteChanges(w io.Writer, changes []Change) error {
	var b text.Builder
	for _, c := range changes {
		b.Wrap(fmt.Sprintf("%-8s  %-15s  ", c.Verdict, c.Name), c.Detail)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cacheSummary says how many caches of each kind there are.
func (l *Layout) cacheSummary() []string {
	type kind struct {
		level int
		typ   string
		bytes int64
		cpus  int
	}
	var order []kind
	count := map[kind]int{}
	for _, c := range l.Caches {
		k := kind{c.Level, c.Type, c.Bytes, cpuCount(c.Shared)}
		if count[k] == 0 {
			order = append(order, k)
		}
		count[k]++
	}
	var out []string
	for _, k := range order {
		out = append(out, fmt.Sprintf("L%d %s: %d of %s, each for %s", k.level, strings.ToLower(k.typ), count[k], size(k.bytes), plural(k.cpus, "CPU")))
	}
	return out
}

func size(bytes int64) string {
	switch {
	case bytes == 0:
		return "unknown size"
	case bytes >= 1<<20:
		return fmt.Sprintf("%.4g MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.4g KiB", float64(bytes)/(1<<10))
}
