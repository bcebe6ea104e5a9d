package host

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// textWidth is the width that no line of WriteText exceeds.
const textWidth = 80

// WriteText writes a report for people: the verdict, what stands in the way with
// its remedy, then everything else.
func (r *Report) WriteText(w io.Writer) error {
	var b textBuilder
	unfit, doubtful, unknown := r.With(Unfit), r.With(Doubtful), r.With(Unknown)
	b.wrap("", fmt.Sprintf("%s to measure on: %d checks, %d unfit, %d doubtful, %d unknown",
		strings.ToUpper(string(r.Verdict)), len(r.Findings), len(unfit), len(doubtful), len(unknown)))
	b.wrap("machine   ", fmt.Sprintf("%s, %s, Linux %s, %.1f GiB, fingerprint %s",
		orUnknown(r.Identity.CPUModel), r.Identity.Arch, orUnknown(r.Identity.Kernel), float64(r.Identity.MemoryBytes)/(1<<30), r.Fingerprint))
	for _, c := range r.Layout.cacheSummary() {
		b.wrap("cache     ", c)
	}
	if len(r.Layout.Nodes) > 1 {
		for _, n := range r.Layout.Nodes {
			b.wrap("node      ", fmt.Sprintf("%d: CPUs %s, %.1f GiB", n.Node, orNone(n.CPUs), float64(n.MemoryBytes)/(1<<30)))
		}
	}
	for _, group := range []struct {
		findings []Finding
		remedy   bool
	}{{unfit, true}, {doubtful, true}, {unknown, false}, {r.With(Fit), false}} {
		if len(group.findings) > 0 {
			b.line("")
		}
		for _, f := range group.findings {
			b.wrap(fmt.Sprintf("%-8s  %-15s  ", f.Verdict, f.Name), f.Detail)
			if group.remedy && f.Remedy != "" {
				b.wrap(strings.Repeat(" ", 27)+"> ", f.Remedy)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteText writes a suggestion for people.
func (s *Suggestion) WriteText(w io.Writer) error {
	var b textBuilder
	if s.TooSmall != "" {
		b.wrap("no set of CPUs: ", s.TooSmall)
		_, err := io.WriteString(w, b.String())
		return err
	}
	b.wrap("", fmt.Sprintf("%d threads, each on a core of its own:", s.Threads))
	b.wrap("    ", s.Flags())
	for _, n := range s.Notes {
		b.wrap("note: ", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteChanges writes what Compare or Happened found, a line or two each.
func WriteChanges(w io.Writer, changes []Change) error {
	var b textBuilder
	for _, c := range changes {
		b.wrap(fmt.Sprintf("%-8s  %-15s  ", c.Verdict, c.Name), c.Detail)
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

// textBuilder breaks lines. What comes from files is shown as a terminal may
// safely show it.
type textBuilder struct{ strings.Builder }

func (b *textBuilder) line(text string) {
	b.WriteString(strings.TrimRight(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text), " "))
	b.WriteByte('\n')
}

// wrap writes text after first, with later lines indented as far.
func (b *textBuilder) wrap(first, text string) {
	indent := strings.Repeat(" ", len([]rune(first)))
	current, empty := []rune(first), true
	for word := range strings.FieldsSeq(text) {
		w := []rune(word)
		if !empty && len(current)+1+len(w) > textWidth {
			b.line(string(current))
			current, empty = []rune(indent), true
		}
		if !empty {
			current = append(current, ' ')
		}
		for len(current)+len(w) > textWidth { // a word wider than a line is cut
			room := textWidth - len(current)
			b.line(string(append(current, w[:room]...)))
			current, w = []rune(indent), w[room:]
		}
		current, empty = append(current, w...), false
	}
	b.line(string(current))
}
