package catalogue

import (
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// parseYAML reads the form of a policy in a file. It has the same meaning as the
// text: both become an expr, which is checked in one way.
func parseYAML(src *source, data []byte) (expr, error) {
	if len(data) > maxFile {
		return expr{}, src.errorf(place{1, 1}, "larger than %d bytes; that is not a policy", maxFile)
	}
	if at, deep := tooDeep(data); deep {
		return expr{}, src.errorf(at, "more than %d brackets are open; that is not a policy", 2*maxDepth)
	}
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		at, problem := place{1, 1}, err.Error()
		var y yaml.Error
		if errors.As(err, &y) {
			problem = y.GetMessage()
			if t := y.GetToken(); t != nil && t.Position != nil {
				at = place{t.Position.Line, t.Position.Column}
			}
		}
		return expr{}, src.errorf(at, "not YAML: %s", problem)
	}
	y := &yamlReader{src}
	if len(f.Docs) > 1 && f.Docs[1].Body != nil {
		return expr{}, src.errorf(y.at(f.Docs[1].Body), "a file has one policy")
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil {
		return expr{}, src.errorf(place{1, 1}, "the file is empty; write 'policy: NAME', or score and pick")
	}
	fields, err := y.fields(f.Docs[0].Body)
	if err != nil {
		return expr{}, err
	}
	for _, field := range fields {
		if field.name != "policy" {
			continue
		}
		if len(fields) > 1 {
			other := fields[slices.IndexFunc(fields, func(f yamlField) bool { return f.name != "policy" })]
			return expr{}, src.errorf(other.at, "%s stands beside policy; a policy has a name or is composed of filter, score and pick", other.name)
		}
		c, err := y.call(field.value, 0)
		return expr{at: c.at, call: &c}, err
	}
	return y.composed(fields, y.at(f.Docs[0].Body), 0)
}

// tooDeep says where too many brackets are open for a policy. Those in strings
// and comments count too.
func tooDeep(data []byte) (place, bool) {
	open, at := 0, place{1, 0}
	for _, c := range string(data) {
		at.column++
		switch c {
		case '\n':
			at = place{at.line + 1, 0}
		case '[', '{':
			if open++; open > 2*maxDepth {
				return at, true
			}
		case ']', '}':
			open = max(0, open-1)
		}
	}
	return place{}, false
}

// yamlReader turns nodes of YAML into what textParser makes of text.
type yamlReader struct{ src *source }

// yamlField is a key with its value, which is nil if there is none.
type yamlField struct {
	at    place
	name  string
	value ast.Node
}

func (y *yamlReader) at(n ast.Node) place {
	if m, ok := n.(ast.MapNode); ok {
		if it := m.MapRange(); it.Next() {
			n = it.Key()
		}
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, t.Position.Column}
	}
	return place{1, 1}
}

// fields reads a mapping.
func (y *yamlReader) fields(n ast.Node) ([]yamlField, error) {
	m, ok := n.(ast.MapNode)
	if !ok {
		return nil, y.src.errorf(y.at(n), "expected names with a colon and values")
	}
	var out []yamlField
	for it := m.MapRange(); it.Next(); {
		key, ok := it.Key().(*ast.StringNode)
		if !ok {
			return nil, y.src.errorf(y.at(it.Key()), "expected a name")
		}
		f := yamlField{at: y.at(key), name: key.Value, value: it.Value()}
		if _, null := f.value.(*ast.NullNode); null {
			f.value = nil
		}
		for _, other := range out {
			if other.name == f.name {
				return nil, y.src.errorf(f.at, "%s stands twice", f.name)
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// word reads a scalar.
func (y *yamlReader) word(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.InfinityNode:
		return strings.Replace(n.GetToken().Value, ".", "", 1), true // .inf
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// call reads NAME, or NAME over its arguments.
func (y *yamlReader) call(n ast.Node, depth int) (call, error) {
	if n == nil {
		return call{}, y.src.errorf(place{1, 1}, "the name of a policy is missing")
	}
	if name, ok := y.word(n); ok {
		return call{at: y.at(n), name: name}, nil
	}
	fields, err := y.fields(n)
	if err != nil {
		return call{}, err
	}
	if len(fields) != 1 {
		return call{}, y.src.errorf(y.at(n), "expected one name with its parameters under it, found %d", len(fields))
	}
	c, _, err := y.arguments(fields[0], false, depth)
	return c, err
}

// arguments reads what stands under a name: a value for the first parameter,
// or a mapping. With weighted, a value is the weight, and so is the field weight.
func (y *yamlReader) arguments(f yamlField, weighted bool, depth int) (call, *yamlField, error) {
	c := call{at: f.at, name: f.name}
	if f.value == nil {
		return c, nil, nil
	}
	if _, ok := y.word(f.value); ok {
		if weighted {
			return c, &yamlField{at: y.at(f.value), value: f.value}, nil
		}
		v, err := y.expr(f.value, depth)
		c.args = []arg{{at: v.at, value: v}}
		return c, nil, err
	}
	fields, err := y.fields(f.value)
	if err != nil {
		return c, nil, err
	}
	var weight *yamlField
	for _, a := range fields {
		if weighted && a.name == "weight" {
			weight = &a
			continue
		}
		if a.value == nil {
			return c, nil, y.src.errorf(a.at, "%s has no value", a.name)
		}
		v, err := y.expr(a.value, depth)
		if err != nil {
			return c, nil, err
		}
		c.args = append(c.args, arg{at: a.at, name: a.name, value: v})
	}
	return c, weight, nil
}

// expr reads a value: a scalar, a policy over its parameters, or a composition.
func (y *yamlReader) expr(n ast.Node, depth int) (expr, error) {
	if depth++; depth > maxDepth {
		return expr{}, y.src.errorf(y.at(n), "policies are nested more than %d deep", maxDepth)
	}
	if _, ok := n.(ast.MapNode); ok {
		fields, err := y.fields(n)
		if err != nil {
			return expr{}, err
		}
		for _, f := range fields {
			if slices.Contains(sectionNames[:], f.name) {
				return y.composed(fields, y.at(n), depth)
			}
		}
	}
	c, err := y.call(n, depth)
	return expr{at: c.at, call: &c}, err
}

// composed reads filter, score and pick.
func (y *yamlReader) composed(fields []yamlField, at place, depth int) (expr, error) {
	e := expr{at: at}
	for _, f := range fields {
		if !slices.Contains(sectionNames[:], f.name) {
			return e, y.src.errorf(f.at, "unknown field %q; there are policy, or filter, score and pick", f.name)
		}
		if f.value == nil {
			return e, y.src.errorf(f.at, "%s is empty", f.name)
		}
		s := section{at: f.at, name: f.name}
		var err error
		if s.items, err = y.items(f, depth); err != nil {
			return e, err
		}
		e.sections = append(e.sections, s)
	}
	return e, nil
}

// items reads the components of a section: one name, a mapping, or a list of both.
func (y *yamlReader) items(f yamlField, depth int) ([]item, error) {
	var out []item
	add := func(n ast.Node) error {
		if name, ok := y.word(n); ok {
			out = append(out, item{call: call{at: y.at(n), name: name}})
			return nil
		}
		fields, err := y.fields(n)
		if err != nil {
			return err
		}
		for _, g := range fields {
			c, weight, err := y.arguments(g, f.name == "score", depth)
			if err != nil {
				return err
			}
			it := item{call: c}
			if weight != nil {
				w, ok := y.word(weight.value)
				if !ok {
					return y.src.errorf(weight.at, "the weight of %s must be a number", g.name)
				}
				it.weighted, it.weight, it.weightAt = true, w, weight.at
			}
			out = append(out, it)
		}
		return nil
	}
	list, ok := f.value.(*ast.SequenceNode)
	if !ok {
		return out, add(f.value)
	}
	for _, n := range list.Values {
		if err := add(n); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, y.src.errorf(f.at, "%s is empty", f.name)
	}
	return out, nil
}
