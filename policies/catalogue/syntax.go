package catalogue

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is a mistake in the text of a policy.
type Error struct {
	// File is the YAML file, empty for text.
	File string
	// Line and Column start at 1; Line is 1 for text. Column counts characters.
	Line, Column int
	// Problem says what is wrong there and what to do.
	Problem string
	text    string
}

// Error returns the problem with its place: file:line:column for a file, else
// the text with a caret under the place.
func (e *Error) Error() string {
	if e.File != "" {
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
	}
	msg := fmt.Sprintf("policy, column %d: %s", e.Column, e.Problem)
	if strings.ContainsFunc(e.text, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
		return msg // a caret would stand elsewhere
	}
	return fmt.Sprintf("%s\n  %s\n  %s^", msg, e.text, strings.Repeat(" ", e.Column-1))
}

// source is the text or file that nodes point into.
type source struct{ file, text string }

func (s *source) errorf(at place, format string, args ...any) error {
	return &Error{File: s.file, text: s.text, Line: at.line, Column: at.column, Problem: fmt.Sprintf(format, args...)}
}

// place is where something is written.
type place struct{ line, column int }

// expr is a policy as written: a call, or sections.
type expr struct {
	at       place
	call     *call
	sections []section
}

// call is a name with arguments.
type call struct {
	at   place
	name string
	args []arg
	// colon says that the arguments stand after one.
	colon bool
}

// arg is one argument. name is empty if it goes by its position.
type arg struct {
	at    place
	name  string
	value expr // a plain word is a call without arguments
}

// section is filter(...), score(...) or pick(...).
type section struct {
	at    place
	name  string
	items []item
}

// item is a component of a section.
type item struct {
	call     call
	weighted bool
	weight   string
	weightAt place
}

// maxText bounds a policy, which people write by hand, and maxDepth its nesting.
// maxFile bounds a file: the parser of YAML takes a time that can grow with the
// square of its length.
const (
	maxText  = 1 << 16
	maxFile  = 1 << 13
	maxDepth = 32
)

// textParser reads the text form.
type textParser struct {
	src   *source
	text  string
	pos   int
	depth int
}

func (p *textParser) here() place {
	return place{1, utf8.RuneCountInString(p.text[:p.pos]) + 1}
}

func (p *textParser) space() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

// peek returns the next character that is not space, 0 at the end.
func (p *textParser) peek() byte {
	p.space()
	if p.pos == len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

// take skips c if it is next.
func (p *textParser) take(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.pos++
	return true
}

// found describes what is next, for errors.
func (p *textParser) found() string {
	if p.peek() == 0 && p.pos == len(p.text) {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	return fmt.Sprintf("%q", r)
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-+._", c) >= 0
}

func (p *textParser) word(what string) (string, place, error) {
	p.space()
	at, start := p.here(), p.pos
	for p.pos < len(p.text) && isWord(p.text[p.pos]) {
		p.pos++
	}
	if p.pos == start {
		return "", at, p.src.errorf(at, "%s is missing before %s", what, p.found())
	}
	return p.text[start:p.pos], at, nil
}

// isSection says whether a section begins at the next word.
func (p *textParser) isSection() bool {
	p.space()
	rest := p.text[p.pos:]
	for _, name := range sectionNames {
		if after, ok := strings.CutPrefix(rest, name); ok && strings.HasPrefix(strings.TrimLeft(after, " \t\n"), "(") {
			return true
		}
	}
	return false
}

var sectionNames = [...]string{"filter", "score", "pick"}

// expr reads a policy. whole says that nothing comes after it, so that a colon
// takes all arguments.
func (p *textParser) expr(what string, whole bool) (expr, error) {
	if p.depth++; p.depth > maxDepth {
		return expr{}, p.src.errorf(p.here(), "policies are nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	p.space()
	e := expr{at: p.here()}
	if !p.isSection() {
		c, err := p.call(what, whole)
		e.call = &c
		return e, err
	}
	for p.isSection() {
		s, err := p.section()
		if err != nil {
			return e, err
		}
		e.sections = append(e.sections, s)
	}
	return e, nil
}

// call reads NAME, NAME(args) or NAME:args.
func (p *textParser) call(what string, whole bool) (call, error) {
	name, at, err := p.word(what)
	c := call{at: at, name: name}
	if err != nil {
		return c, err
	}
	switch {
	case p.take('('):
		if p.take(')') {
			return c, nil
		}
		for {
			if err := p.arg(&c); err != nil {
				return c, err
			}
			if p.take(')') {
				return c, nil
			}
			if !p.take(',') {
				return c, p.src.errorf(p.here(), "expected a comma or ) after an argument of %s, found %s", name, p.found())
			}
		}
	case p.take(':'):
		c.colon = true
		for {
			if err := p.arg(&c); err != nil || !whole || !p.take(',') {
				return c, err
			}
		}
	}
	return c, nil
}

// arg reads VALUE or NAME=VALUE.
func (p *textParser) arg(c *call) error {
	value, err := p.expr("a value", false)
	if err != nil {
		return err
	}
	a := arg{at: value.at, value: value}
	if p.peek() == '=' {
		if value.call == nil || value.call.args != nil {
			return p.src.errorf(p.here(), "= stands after the name of a parameter")
		}
		p.pos++
		a.name = value.call.name
		if a.value, err = p.expr("the value of "+a.name, false); err != nil {
			return err
		}
	}
	c.args = append(c.args, a)
	return nil
}

// section reads filter(...), score(...) or pick(...).
func (p *textParser) section() (section, error) {
	name, at, err := p.word("a section")
	s := section{at: at, name: name}
	if err != nil {
		return s, err
	}
	p.take('(')
	for {
		// A picker is alone, so that a colon takes all its arguments.
		c, err := p.call("a component of "+name, name == "pick")
		colon := err == nil && c.colon
		if err != nil {
			return s, err
		}
		it := item{call: c}
		if name == "score" && colon {
			return s, p.src.errorf(c.at, "in score, parameters stand in parentheses, as %s(name=value)=0.5, so that the weight is told apart", c.name)
		}
		if p.take('=') {
			it.weighted = true
			if it.weight, it.weightAt, err = p.word("a weight"); err != nil {
				return s, err
			}
		}
		s.items = append(s.items, it)
		if p.take(')') {
			return s, nil
		}
		if !p.take(',') {
			return s, p.src.errorf(p.here(), "expected a comma or ) in %s, found %s", name, p.found())
		}
	}
}

// parseText reads the whole text.
func parseText(src *source) (expr, error) {
	p := &textParser{src: src, text: src.text}
	e, err := p.expr("the name of a policy", true)
	if err != nil {
		return e, err
	}
	if p.peek() != 0 || p.pos < len(p.text) {
		return e, src.errorf(p.here(), "%s is too much; a policy is NAME:parameter=value,... or score(...) pick(...)", p.found())
	}
	return e, nil
}
