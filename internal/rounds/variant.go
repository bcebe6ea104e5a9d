package rounds

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	shellquote "github.com/kballard/go-shellquote"

	"github.com/kvbench/kvbench/internal/nearest"
)

// Kind says what a variant runs.
type Kind string

// The kinds of variants.
const (
	Flags   Kind = "flags"   // this kvbench, with flags added
	Binary  Kind = "binary"  // another kvbench, with flags added
	Command Kind = "command" // any program that writes a result record
)

// Placeholders in the words of a Command.
const (
	corpusWord = "{corpus}" // path of the corpus
	outWord    = "{out}"    // path to write the record to
)

// Variant is one of the things that are compared.
type Variant struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Program is what the user wrote: a path, or a name that is looked up in
	// PATH. "" for Flags.
	Program string `json:"program,omitempty"`
	// Args are the flags added to replay, or the arguments of a Command.
	Args []string `json:"args"`
}

// maxName bounds the length of a variant's name, which tables have to hold.
const maxName = 40

// ParseVariant reads name=, name=--flags, name=@binary --flags or
// name=!program arguments. Words are split as a POSIX shell does; nothing is
// expanded.
func ParseVariant(s string) (Variant, error) {
	name, spec, found := strings.Cut(s, "=")
	if !found {
		return Variant{}, fmt.Errorf("variant %q has no =; write name=--flags, name=@./kvbench --flags, or name=!./program arguments", s)
	}
	if err := checkName(name); err != nil {
		return Variant{}, fmt.Errorf("variant %q: %w", s, err)
	}
	v := Variant{Name: name, Kind: Flags}
	rest := strings.TrimSpace(spec)
	switch {
	case strings.HasPrefix(rest, "@"):
		v.Kind, rest = Binary, rest[1:]
	case strings.HasPrefix(rest, "!"):
		v.Kind, rest = Command, rest[1:]
	}
	words, err := shellquote.Split(rest)
	if err != nil {
		return Variant{}, fmt.Errorf("variant %s: cannot split %q into words: %w", name, rest, err)
	}
	if slices.ContainsFunc(words, func(w string) bool { return strings.ContainsRune(w, 0) }) {
		return Variant{}, fmt.Errorf("variant %s: a word holds a zero byte, which no program can be given", name)
	}
	if v.Kind != Flags {
		if len(words) == 0 || words[0] == "" {
			return Variant{}, fmt.Errorf("variant %s: no program is named after the %q", name, strings.TrimSpace(spec)[:1])
		}
		v.Program, words = words[0], words[1:]
	}
	v.Args = slices.Clip(append([]string{}, words...))
	return v, v.check()
}

// check finds what is wrong with one variant by itself.
func (v *Variant) check() error {
	switch v.Kind {
	case Flags, Binary:
		if len(v.Args) > 0 && !strings.HasPrefix(v.Args[0], "-") {
			return fmt.Errorf("variant %s: %q is not a flag; write %s=@%s for another kvbench, %s=!%s for another program",
				v.Name, v.Args[0], v.Name, v.Args[0], v.Name, v.Args[0])
		}
	case Command:
		for _, word := range []struct{ name, what string }{{outWord, "where to write the record"}, {corpusWord, "which corpus to replay"}} {
			if !slices.ContainsFunc(v.Args, func(a string) bool { return strings.Contains(a, word.name) }) {
				return fmt.Errorf("variant %s: no argument holds %s, which tells the program %s", v.Name, word.name, word.what)
			}
		}
	default:
		return fmt.Errorf("variant %s: kind %q; there are %s, %s and %s", v.Name, v.Kind, Flags, Binary, Command)
	}
	return nil
}

// String writes the variant as ParseVariant reads it.
func (v Variant) String() string {
	var b strings.Builder
	b.WriteString(v.Name + "=")
	words := v.Args
	if v.Kind != Flags {
		b.WriteString(map[Kind]string{Binary: "@", Command: "!"}[v.Kind])
		words = append([]string{v.Program}, words...)
	}
	b.WriteString(shellquote.Join(words...))
	return b.String()
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > maxName:
		return fmt.Errorf("the name has %d characters; at most %d fit a table", len(name), maxName)
	}
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.+", c)) {
			return fmt.Errorf("the name holds %q; letters, digits and - _ . + are allowed", c)
		}
	}
	return nil
}

// Ratio is a comparison: the figure of one variant over that of another in the
// same round.
type Ratio struct {
	Of string `json:"of"`
	To string `json:"to"`
}

// ParseRatio reads a/b.
func ParseRatio(s string) (Ratio, error) {
	of, to, found := strings.Cut(s, "/")
	if !found || of == "" || to == "" || strings.Contains(to, "/") {
		return Ratio{}, fmt.Errorf("ratio %q is not of the form a/b with the names of two variants", s)
	}
	return Ratio{Of: of, To: to}, nil
}

func (r Ratio) String() string { return r.Of + "/" + r.To }

// checkRatio finds a ratio whose variants do not exist.
func checkRatio(r Ratio, names []string) error {
	if r.Of == r.To {
		return fmt.Errorf("ratio %s compares a variant with itself; --aa adds a second copy of the base under another name", r)
	}
	for _, name := range []string{r.Of, r.To} {
		if slices.Contains(names, name) {
			continue
		}
		if near, ok := nearest.Name(name, names); ok {
			return fmt.Errorf("ratio %s: no variant is called %s; did you mean %s?", r, name, near)
		}
		return fmt.Errorf("ratio %s: no variant is called %s; there are %s", r, name, strings.Join(names, ", "))
	}
	return nil
}
