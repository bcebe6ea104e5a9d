package catalogue

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/nearest"
	"github.com/kvbench/kvbench/internal/wholefile"
	"github.com/kvbench/kvbench/policies"
)

// Parse makes a policy of text, or of the YAML file that it names after an @. It
// is checked whole: what Parse returns can be built. A mistake is an *Error.
//
// A file has either policy, with the name or with the name over its parameters,
// or filter, score and pick:
//
//	policy:
//	  kv: {temperature: 0.2, overlap: 1.5}
//
//	filter: [{requests-below: 64}]
//	score:
//	  cache: 1
//	  load: {weight: 0.5, by: tokens}
//	pick: {softmax: {temperature: 0.1}}
func Parse(text string, defs []Definition) (*Policy, error) {
	name, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		src := &source{text: text}
		if len(text) > maxText {
			return nil, fmt.Errorf("a policy of %d bytes; more than %d cannot be meant", len(text), maxText)
		}
		e, err := parseText(src)
		if err != nil {
			return nil, err
		}
		return finish(src, e, defs)
	}
	if name == "" {
		return nil, &Error{text: text, Line: 1, Column: 2, Problem: "the name of a YAML file is missing after @"}
	}
	data, err := wholefile.Read(name, "a policy", maxFile)
	if err != nil {
		return nil, err
	}
	return ParseYAML(name, data, defs)
}

// ParseYAML is Parse of the content of a YAML file; name is what errors call it.
func ParseYAML(name string, data []byte, defs []Definition) (*Policy, error) {
	src := &source{file: name}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors on Windows begin files with it
	e, err := parseYAML(src, data)
	if err != nil {
		return nil, err
	}
	return finish(src, e, defs)
}

func finish(src *source, e expr, defs []Definition) (*Policy, error) {
	u, err := (&resolver{src: src, defs: defs}).policy(e)
	if err != nil {
		return nil, err
	}
	p := &Policy{Name: "composed", Text: u.text(false, true), Full: u.text(true, true), use: u}
	if u.sections == nil {
		p.Name = u.def.Name
	}
	pl, err := p.New(0)
	if err != nil {
		return nil, err
	}
	p.inputs = pl.Inputs()
	return p, nil
}

// use is a definition with its values, or a composition.
type use struct {
	def      *Definition
	values   map[string]any
	defaults map[string]any
	weight   float64 // of a scorer

	sections []sectionUse
}

type sectionUse struct {
	name string
	uses []*use
}

// recipe builds what the use stands for.
func (u *use) recipe() (policies.Recipe, error) {
	if u.sections == nil {
		r, err := u.def.Build(Values{u.values})
		if err != nil {
			return r, fmt.Errorf("%s: %w", u.def.Name, err)
		}
		name(&r.Picker.Name, u.def.Name)
		for i := range r.Filters {
			name(&r.Filters[i].Name, u.def.Name)
		}
		for i := range r.Scorers {
			name(&r.Scorers[i].Name, u.def.Name)
			if w := &r.Scorers[i].Weight; u.def.Kind == KindScorer && *w == 0 {
				*w = 1
			}
		}
		return r, u.def.check(r)
	}
	var whole policies.Recipe
	for _, s := range u.sections {
		for _, c := range s.uses {
			r, err := c.recipe()
			if err != nil {
				return whole, err
			}
			whole.Filters = append(whole.Filters, r.Filters...)
			for _, w := range r.Scorers {
				w.Weight *= c.weight
				whole.Scorers = append(whole.Scorers, w)
			}
			if r.Picker.Component != nil {
				whole.Picker = r.Picker
			}
		}
	}
	return whole, nil
}

func name(to *string, name string) {
	if *to == "" {
		*to = name
	}
}

// check returns an error if the recipe is not what the kind promises.
func (d *Definition) check(r policies.Recipe) error {
	picker := 0
	if r.Picker.Component != nil {
		picker = 1
	}
	got := [...]int{len(r.Filters), len(r.Scorers), picker}
	ok := true
	switch d.Kind {
	case KindPolicy:
		ok = picker == 1
	case KindFilter:
		ok = got == [...]int{1, 0, 0}
	case KindScorer:
		ok = got == [...]int{0, 1, 0}
	case KindPicker:
		ok = got == [...]int{0, 0, 1}
	}
	if !ok {
		return fmt.Errorf("the %v %s is defined with %d filters, %d scorers and %d pickers", d.Kind, d.Name, got[0], got[1], got[2])
	}
	return nil
}

// resolver gives what is written its meaning.
type resolver struct {
	src  *source
	defs []Definition
}

func (r *resolver) policy(e expr) (*use, error) {
	if e.call != nil {
		return r.call(*e.call, KindPolicy)
	}
	u := &use{}
	seen := map[string]bool{}
	for _, s := range e.sections {
		if seen[s.name] {
			return nil, r.src.errorf(s.at, "%s stands twice; list its components in one", s.name)
		}
		seen[s.name] = true
	}
	for _, name := range sectionNames {
		for _, s := range e.sections {
			if s.name != name {
				continue
			}
			out, err := r.section(s)
			if err != nil {
				return nil, err
			}
			u.sections = append(u.sections, out)
		}
	}
	if !seen["pick"] {
		return nil, r.src.errorf(e.at, "a composed policy needs a picker, as pick(%s)", strings.Join(r.names(KindPicker), ") or pick("))
	}
	return u, nil
}

func (r *resolver) section(s section) (sectionUse, error) {
	kind := map[string]Kind{"filter": KindFilter, "score": KindScorer, "pick": KindPicker}[s.name]
	out := sectionUse{name: s.name}
	if kind == KindPicker && len(s.items) > 1 {
		return out, r.src.errorf(s.items[1].call.at, "a policy has one picker")
	}
	for _, it := range s.items {
		u, err := r.call(it.call, kind)
		if err != nil {
			return out, err
		}
		u.weight = 1
		if it.weighted {
			if kind != KindScorer {
				return out, r.src.errorf(it.weightAt, "a %v has no weight", kind)
			}
			w, err := strconv.ParseFloat(it.weight, 64)
			if err != nil || !(w >= 0) || math.IsInf(w, 0) {
				return out, r.src.errorf(it.weightAt, "weight %q; it must be a finite number of at least 0", it.weight)
			}
			u.weight = w + 0 // no -0
		}
		out.uses = append(out.uses, u)
	}
	return out, nil
}

func (r *resolver) names(k Kind) []string {
	var names []string
	for i := range r.defs {
		if r.defs[i].Kind == k {
			names = append(names, r.defs[i].Name)
		}
	}
	return names
}

func (r *resolver) call(c call, k Kind) (*use, error) {
	var def *Definition
	for i := range r.defs {
		if r.defs[i].Kind == k && r.defs[i].Name == c.name {
			def = &r.defs[i]
		}
	}
	if def == nil {
		names := r.names(k)
		if near, ok := nearest.Name(c.name, names); ok {
			return nil, r.src.errorf(c.at, "no %v is named %q; did you mean %s?", k, c.name, near)
		}
		return nil, r.src.errorf(c.at, "no %v is named %q; there are %s", k, c.name, strings.Join(names, ", "))
	}
	u := &use{def: def, values: map[string]any{}, defaults: map[string]any{}, weight: 1}
	for i, a := range c.args {
		p, err := r.param(def, a, i)
		if err != nil {
			return nil, err
		}
		if _, twice := u.values[p.Name]; twice {
			return nil, r.src.errorf(a.at, "%s is given twice", p.Name)
		}
		if u.values[p.Name], err = r.value(p, a.value); err != nil {
			return nil, err
		}
	}
	for i := range def.Params {
		p := &def.Params[i]
		v, err := r.defaultOf(p)
		if err != nil {
			return nil, fmt.Errorf("the default of %s of %s: %w", p.Name, def.Name, err)
		}
		u.defaults[p.Name] = v
		if _, set := u.values[p.Name]; !set {
			u.values[p.Name] = v
		}
	}
	return u, nil
}

func (r *resolver) param(def *Definition, a arg, position int) (*Param, error) {
	if len(def.Params) == 0 {
		return nil, r.src.errorf(a.at, "%s has no parameters", def.Name)
	}
	if a.name == "" {
		if position > 0 {
			return nil, r.src.errorf(a.at, "only the first argument may go without its name; write name=value")
		}
		return &def.Params[0], nil
	}
	names := make([]string, len(def.Params))
	for i := range def.Params {
		if names[i] = def.Params[i].Name; names[i] == a.name {
			return &def.Params[i], nil
		}
	}
	if near, ok := nearest.Name(a.name, names); ok {
		return nil, r.src.errorf(a.at, "%s has no parameter %q; did you mean %s?", def.Name, a.name, near)
	}
	return nil, r.src.errorf(a.at, "%s has no parameter %q; it has %s", def.Name, a.name, strings.Join(names, ", "))
}

func (r *resolver) defaultOf(p *Param) (any, error) {
	src := &source{text: p.Default}
	e, err := parseText(src)
	if err != nil {
		return nil, err
	}
	return (&resolver{src: src, defs: r.defs}).value(p, e)
}

func (r *resolver) value(p *Param, e expr) (any, error) {
	if p.Type == Inner {
		return r.policy(e)
	}
	if e.call == nil || e.call.args != nil {
		return nil, r.src.errorf(e.at, "%s is a %v, not a policy", p.Name, p.Type)
	}
	word := e.call.name
	bad := func() error {
		return r.src.errorf(e.at, "%s is %q; it must be %s", p.Name, word, p.Range())
	}
	inRange := func(x float64) bool {
		return x >= p.Min && x <= p.Max && !(p.Above && x == p.Min)
	}
	switch p.Type {
	case Number:
		x, err := strconv.ParseFloat(word, 64)
		if err != nil || !inRange(x) {
			return nil, bad()
		}
		return x + 0, nil // no -0
	case Integer:
		n, err := strconv.Atoi(word)
		if err != nil || !inRange(float64(n)) {
			return nil, bad()
		}
		return n, nil
	case Duration:
		d, err := time.ParseDuration(word)
		if err != nil || !inRange(d.Seconds()) {
			return nil, bad()
		}
		return d, nil
	}
	for _, c := range p.Choices {
		if c == word {
			return word, nil
		}
	}
	if near, ok := nearest.Name(word, p.Choices); ok {
		return nil, r.src.errorf(e.at, "%s is %q; did you mean %s?", p.Name, word, near)
	}
	return nil, bad()
}

// Range says in words what values the parameter takes.
func (p *Param) Range() string {
	switch p.Type {
	case Choice:
		return strings.Join(p.Choices, " or ")
	case Inner:
		return "a policy"
	}
	show := func(x float64) string {
		if p.Type == Duration {
			return time.Duration(x * float64(time.Second)).String()
		}
		return number(x)
	}
	what := map[Type]string{Number: "a number", Integer: "an integer", Duration: "a duration"}[p.Type]
	switch from := "of at least " + show(p.Min); {
	case p.Above && math.IsInf(p.Max, 1):
		return fmt.Sprintf("%s above %s", what, show(p.Min))
	case p.Above:
		return fmt.Sprintf("%s above %s, at most %s", what, show(p.Min), show(p.Max))
	case math.IsInf(p.Max, 1):
		return what + " " + from
	}
	return fmt.Sprintf("%s from %s to %s", what, show(p.Min), show(p.Max))
}

// text writes the use. full: every parameter; top: nothing comes after it.
func (u *use) text(full, top bool) string {
	if u.sections == nil {
		return u.callText(full, top)
	}
	var parts []string
	for _, s := range u.sections {
		var items []string
		for _, c := range s.uses {
			text := c.callText(full, s.name == "pick")
			if s.name == "score" {
				text += "=" + number(c.weight)
			}
			items = append(items, text)
		}
		parts = append(parts, s.name+"("+strings.Join(items, ",")+")")
	}
	return strings.Join(parts, " ")
}

func (u *use) callText(full, top bool) string {
	var args []string
	for i := range u.def.Params {
		p := &u.def.Params[i]
		text := valueText(u.values[p.Name], full)
		if full || text != valueText(u.defaults[p.Name], full) {
			args = append(args, p.Name+"="+text)
		}
	}
	switch {
	case len(args) == 0:
		return u.def.Name
	case top:
		return u.def.Name + ":" + strings.Join(args, ",")
	}
	return u.def.Name + "(" + strings.Join(args, ",") + ")"
}

// number writes x as short as it reads back.
func number(x float64) string {
	if math.IsInf(x, 1) {
		return "inf"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func valueText(v any, full bool) string {
	switch v := v.(type) {
	case float64:
		return number(v)
	case int:
		return strconv.Itoa(v)
	case time.Duration:
		return strings.Replace(v.String(), "µ", "u", 1)
	case string:
		return v
	case *use:
		return v.text(full, false)
	}
	panic(fmt.Sprintf("a value of type %T", v))
}
