// Package settings gives flags their values from a configuration file and from
// the environment. A key is the name of a flag, so that there is nothing to learn
// twice; a flag on the command line wins over the environment, and the environment
// over the file.
//
// The file is YAML. A key at the top is a flag that is set wherever a command has
// it, or the name of a command with keys of its own, which are stronger:
//
//	quiet: true
//	workers: 128
//	replay:
//	  track-resident-blocks: true
//	trace:
//	  info:
//	    json: true
//
// A variable is KVBENCH_ and a flag (KVBENCH_WORKERS), or a command and a flag
// (KVBENCH_TRACE_INFO_JSON). No file is read that was not named: one that happens
// to lie in a folder must not change a measurement.
//
// A key or variable that names nothing is an error. The package does not know what
// the flags mean.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/nearest"
)

// Prefix begins the names of all variables.
const Prefix = "KVBENCH_"

// FileFlag is the flag that names the file. It can be set by a variable, and not
// in the file.
const FileFlag = "config"

// Setting is a value for one flag of one command, or of all that have it.
type Setting struct {
	Command string   // such as "trace info"; "": every command that has the flag
	Flag    string   // without dashes
	Values  []string // one, unless it is a list in the file
	Origin  string   // FILE:LINE:COLUMN or the name of a variable
}

// Settings are what a file and the environment say. They do not change once read
// and may be used by several goroutines.
type Settings struct {
	list []Setting // the strongest first
}

// Read reads the variables in environ, each as NAME=VALUE, and the file, unless it
// is "". root has the commands that keys may name.
func Read(file string, environ []string, root *cobra.Command) (*Settings, error) {
	k := known(root)
	s := &Settings{}
	if err := s.readEnvironment(environ, k); err != nil {
		return nil, err
	}
	if file != "" {
		if err := s.readFile(file, k); err != nil {
			return nil, err
		}
	}
	// A variable is stronger than the file. Within one source what names more of a
	// command is stronger.
	slices.SortStableFunc(s.list, func(a, b Setting) int {
		if x, y := a.fromVariable(), b.fromVariable(); x != y {
			if x {
				return -1
			}
			return 1
		}
		return len(b.path()) - len(a.path())
	})
	return s, nil
}

// File returns the name of the file that the variables ask for, "" for none.
func File(environ []string) string {
	name := ""
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, Prefix+"CONFIG="); ok {
			name = value
		}
	}
	return name
}

// Without returns an environment without the variables of this package, for a
// child whose flags are given in full.
func Without(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool { return strings.HasPrefix(v, Prefix) })
}

// All returns the settings, the strongest first.
func (s *Settings) All() []Setting { return slices.Clone(s.list) }

// Apply sets the flags in fl that were not given on the command line. command is
// the path of the command below the root, such as "trace info"; flags in except are
// left alone. It returns what it set, by the name of the flag. A value that a flag
// refuses is an error.
func (s *Settings) Apply(fl *pflag.FlagSet, command string, except ...string) ([]Setting, error) {
	chosen := map[string]Setting{}
	for _, x := range s.list {
		if f := fl.Lookup(x.Flag); f == nil || f.Changed || !x.concerns(command) || x.Flag == FileFlag || slices.Contains(except, x.Flag) {
			continue
		}
		if _, ok := chosen[x.Flag]; !ok {
			chosen[x.Flag] = x
		}
	}
	var out []Setting
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		x := chosen[name]
		if err := x.set(fl); err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// set gives the flag its value or values.
func (x *Setting) set(fl *pflag.FlagSet) error {
	f := fl.Lookup(x.Flag)
	list, isList := f.Value.(pflag.SliceValue)
	if !isList && len(x.Values) != 1 {
		return fmt.Errorf("%s: --%s takes one value, and this is a list of %d", x.Origin, x.Flag, len(x.Values))
	}
	if len(x.Values) == 0 {
		return fmt.Errorf("%s: the list for --%s is empty; leave the key out", x.Origin, x.Flag)
	}
	if err := fl.Set(x.Flag, x.Values[0]); err != nil {
		// pflag's text names the flag and the value.
		return fmt.Errorf("%s: %w", x.Origin, err)
	}
	if isList && len(x.Values) > 1 {
		if err := list.Replace(x.Values); err != nil {
			return fmt.Errorf("%s: --%s: %w", x.Origin, x.Flag, err)
		}
	}
	return nil
}

// Arguments returns the setting as arguments of a command line.
func (x *Setting) Arguments() []string {
	out := make([]string, len(x.Values))
	for i, v := range x.Values {
		out[i] = "--" + x.Flag + "=" + v
	}
	return out
}

func (x *Setting) fromVariable() bool { return strings.HasPrefix(x.Origin, Prefix) }

func (x *Setting) path() []string { return strings.Fields(x.Command) }

// concerns says whether the setting is for the command or one above it.
func (x *Setting) concerns(command string) bool {
	return x.Command == "" || x.Command == command || strings.HasPrefix(command, x.Command+" ")
}

// scope is a command and what keys under it may name.
type scope struct {
	path     string
	flags    map[string]bool // of the command or any below it
	commands map[string]*scope
}

// known collects what commands and flags there are.
func known(cmd *cobra.Command) *scope { return scopeOf(cmd, "") }

func scopeOf(cmd *cobra.Command, path string) *scope {
	s := &scope{path: path, flags: map[string]bool{}, commands: map[string]*scope{}}
	add := func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" {
			s.flags[f.Name] = true
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.PersistentFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	for _, c := range cmd.Commands() {
		if c.Name() == "help" || c.Name() == "completion" || strings.HasPrefix(c.Name(), "__") {
			continue
		}
		below := scopeOf(c, strings.TrimSpace(path+" "+c.Name()))
		s.commands[c.Name()] = below
		maps.Copy(s.flags, below.flags)
	}
	return s
}

// variables returns the variable of every flag, with the command it is for.
func (s *scope) variables() map[string]Setting {
	out := map[string]Setting{}
	var visit func(s *scope)
	visit = func(s *scope) {
		for flag := range s.flags {
			name := Prefix + shout(strings.TrimSpace(s.path+" "+flag))
			// What is for more commands was entered before and stays.
			if _, taken := out[name]; !taken {
				out[name] = Setting{Command: s.path, Flag: flag, Origin: name}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.commands)) {
			visit(s.commands[name])
		}
	}
	visit(s)
	return out
}

func shout(name string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(name))
}

// reserved begins the variables that are no settings: the padding of the
// environment of the trials of rounds.
const reserved = Prefix + "PAD"

func (s *Settings) readEnvironment(environ []string, k *scope) error {
	names := k.variables()
	var errs []error
	for _, v := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, Prefix) || strings.HasPrefix(name, reserved) {
			continue
		}
		x, ok := names[name]
		if !ok {
			err := fmt.Errorf("the environment has %s, which names no flag; unset it", name)
			if near, ok := nearest.Name(name, slices.Sorted(maps.Keys(names))); ok {
				err = fmt.Errorf("%w, or did you mean %s?", err, near)
			}
			errs = append(errs, err)
			continue
		}
		x.Values = []string{value}
		s.list = append(s.list, x)
	}
	return errors.Join(errs...)
}

func (s *Settings) readFile(file string, k *scope) error {
	data, err := readAll(file)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	list, err := parse(file, data, k)
	if err != nil {
		return fmt.Errorf("configuration %w", err)
	}
	s.list = append(s.list, list...)
	return nil
}

// maxFile is more than any use of all flags needs. The parser takes long for large
// files that are no YAML.
const maxFile = 64 << 10

func readAll(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes, which no configuration is", file, maxFile)
	}
	return data, err
}

// parse reads the text of a file.
func parse(file string, data []byte, k *scope) ([]Setting, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors on Windows begin files with it
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	doc, err := parser.ParseBytes(data, 0)
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			at := syntax.GetToken().Position
			return nil, fmt.Errorf("%s:%d:%d: %s", file, at.Line, at.Column, syntax.GetMessage())
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r := reader{file: file}
	bodies := 0
	for _, d := range doc.Docs {
		if d.Body == nil {
			continue
		}
		if _, comment := d.Body.(*ast.CommentGroupNode); comment {
			continue
		}
		if bodies++; bodies > 1 {
			r.fail(d.Body, "a second document; put all keys into one")
			break
		}
		r.mapping(d.Body, k)
	}
	return r.list, errors.Join(r.errs...)
}

type reader struct {
	file string
	list []Setting
	errs []error
}

func (r *reader) at(n ast.Node) string {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return fmt.Sprintf("%s:%d:%d", r.file, t.Position.Line, t.Position.Column)
	}
	return r.file
}

func (r *reader) fail(n ast.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(r.at(n)+": "+format, args...))
}

func (r *reader) mapping(n ast.Node, k *scope) {
	m, ok := n.(ast.MapNode)
	if !ok {
		r.fail(n, "keys and values are expected, such as workers: 128")
		return
	}
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		key, value := it.Key(), it.Value()
		name := key.GetToken().Value
		if seen[name] {
			r.fail(key, "%s is here twice", name)
			continue
		}
		seen[name] = true
		if _, nested := value.(ast.MapNode); nested {
			if below, ok := k.commands[name]; ok {
				r.mapping(value, below)
			} else {
				r.unknown(key, "command", name, slices.Sorted(maps.Keys(k.commands)))
			}
			continue
		}
		if _, empty := value.(*ast.NullNode); empty && k.commands[name] != nil && !k.flags[name] {
			continue // a command whose values are all comments
		}
		switch {
		case !k.flags[name]:
			all := slices.Collect(maps.Keys(k.flags))
			r.unknown(key, "flag", name, slices.Sorted(slices.Values(all)))
		case name == FileFlag && k.path == "":
			r.fail(key, "a configuration cannot name another one; leave %s out", name)
		default:
			if values, ok := r.values(value, name); ok {
				r.list = append(r.list, Setting{Command: k.path, Flag: name, Values: values, Origin: r.at(key)})
			}
		}
	}
}

func (r *reader) unknown(key ast.Node, what, name string, names []string) {
	text := fmt.Sprintf("%s is no %s", name, what)
	if near, ok := nearest.Name(name, names); ok {
		text += "; did you mean " + near + "?"
	}
	r.fail(key, "%s", text)
}

// values returns what is written, word for word: a flag knows best what a number
// or a duration of its looks like.
func (r *reader) values(n ast.Node, name string) ([]string, bool) {
	if list, ok := n.(*ast.SequenceNode); ok {
		var out []string
		for _, v := range list.Values {
			text, ok := r.scalar(v, name)
			if !ok {
				return nil, false
			}
			out = append(out, text)
		}
		if len(out) == 0 {
			r.fail(n, "the list for %s is empty; leave the key out", name)
			return nil, false
		}
		return out, true
	}
	text, ok := r.scalar(n, name)
	return []string{text}, ok
}

func (r *reader) scalar(n ast.Node, name string) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	r.fail(n, "%s needs a value: a number, a text, true or false, or a list of them", name)
	return "", false
}
