// Package text writes lines for people at a terminal: none is wider than Width,
// and none holds what a terminal would obey.
package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Width is what no line exceeds, in columns.
const Width = 80

// Builder collects lines. The zero value is empty and ready.
type Builder struct{ b strings.Builder }

// String returns the lines.
func (b *Builder) String() string { return b.b.String() }

// Line ends one line. It is not broken; trailing spaces are left out, and what is
// not printable becomes a question mark: names come from outside.
func (b *Builder) Line(text string) {
	b.b.WriteString(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.TrimRight(text, " ")))
	b.b.WriteByte('\n')
}

// Wrap writes text after first, in as many lines as it needs, with the later ones
// indented as far; if that is more than half the width, by two. A word wider than
// a line is cut.
func (b *Builder) Wrap(first, text string) {
	line, indent := []rune(first), []rune(strings.Repeat(" ", utf8.RuneCountInString(first)))
	if len(indent) > Width/2 {
		indent = indent[:2]
	}
	start := len(line) // of the text in this line
	next := func() {
		b.Line(string(line))
		line, start = append([]rune(nil), indent...), len(indent)
	}
	for text := range strings.FieldsSeq(text) {
		word := []rune(text)
		if len(line) > start {
			if len(line)+1+len(word) > Width {
				next()
			} else {
				line = append(line, ' ')
			}
		}
		for len(line)+len(word) > Width {
			room := max(0, Width-len(line))
			line, word = append(line, word[:room]...), word[room:]
			next()
		}
		line = append(line, word...)
	}
	b.Line(string(line))
}

// Count writes a number with what is counted, whose plural has an s: "1 router",
// "3 routers".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
