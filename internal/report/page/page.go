// Package page writes a report as one HTML file that needs nothing else: no
// network, no scripts, no fonts, no images. It knows sections, paragraphs, tables,
// charts and provenance, and nothing of what they are about.
//
// The page says itself that nothing may be loaded and no script may run (a content
// security policy), so that even a mistake in escaping could do no harm; all text
// is escaped. It follows the light or dark theme of its reader, reads on a phone
// without scrolling sideways, prints in the light theme, and has landmarks, one
// heading of the first level, a link that skips to the content, and names for all
// that a keyboard can reach.
package page

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/kvbench/kvbench/internal/chart"
)

// Page is a report. New makes one; it is filled from top to bottom and then
// written. It is not for concurrent use.
type Page struct {
	title    string
	lead     string
	verdicts []verdict
	sections []*Section
	facts    []Fact
	ids      map[string]bool
	charts   []Figure
}

// Fact is a name and what it is, such as a commit.
type Fact struct{ Name, Value string }

// Figure is a chart with the id that it has in the page.
type Figure struct {
	ID    string
	Chart chart.Chart
}

// Tone colours a verdict.
type Tone string

// The tones.
const (
	Plain Tone = "plain"
	Good  Tone = "good"
	Bad   Tone = "bad"
	Doubt Tone = "doubt"
)

type verdict struct {
	tone Tone
	word string
	text string
}

// New begins a page. The title is its heading; the lead says in a sentence what
// the page is about.
func New(title, lead string) *Page {
	return &Page{title: title, lead: lead, ids: map[string]bool{"content": true, "top": true, "provenance": true, "contents": true}}
}

// Verdict adds what matters most: a word or two, such as PASS, and a sentence.
// Verdicts come before all sections.
func (p *Page) Verdict(tone Tone, word, text string) {
	p.verdicts = append(p.verdicts, verdict{tone, word, text})
}

// Provenance adds facts to the foot of the page.
func (p *Page) Provenance(facts ...Fact) { p.facts = append(p.facts, facts...) }

// Figures returns the charts of the page in order, for files beside it.
func (p *Page) Figures() []Figure { return p.charts }

// Section adds a section with a heading.
func (p *Page) Section(title string) *Section {
	s := &Section{page: p, title: title, id: p.id(title)}
	p.sections = append(p.sections, s)
	return s
}

// id makes an id of a title that no other part of the page has.
func (p *Page) id(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 48 {
			break
		}
	}
	base := strings.Trim(b.String(), "-")
	if base == "" || unicode.IsDigit(rune(base[0])) {
		base = "part-" + base
		base = strings.TrimSuffix(base, "-")
	}
	id := base
	for n := 2; p.ids[id]; n++ {
		id = base + "-" + strconv.Itoa(n)
	}
	p.ids[id] = true
	return id
}

// Section is a part of a page with a heading of its own.
type Section struct {
	page  *Page
	title string
	id    string
	parts []func(w *writer)
}

func (s *Section) add(f func(w *writer)) { s.parts = append(s.parts, f) }

// Text adds a paragraph.
func (s *Section) Text(text string) {
	s.add(func(w *writer) { w.tag("<p>", text, "</p>\n") })
}

// Textf adds a paragraph made as fmt.Sprintf does.
func (s *Section) Textf(format string, args ...any) { s.Text(fmt.Sprintf(format, args...)) }

// Missing says that something is not shown and why: a report does not leave out
// in silence.
func (s *Section) Missing(what string) {
	s.add(func(w *writer) { w.tag(`<p class="missing">`, what, "</p>\n") })
}

// Heading adds a heading within the section.
func (s *Section) Heading(text string) {
	id := s.page.id(text)
	s.add(func(w *writer) { w.tag(`<h3 id="`+id+`">`, text, "</h3>\n") })
}

// List adds a list.
func (s *Section) List(items ...string) { s.list("", items) }

// Warnings adds a list of warnings; without any it says that there are none.
func (s *Section) Warnings(items ...string) {
	if len(items) == 0 {
		s.Text("No warnings.")
		return
	}
	s.list(` class="warnings"`, items)
}

func (s *Section) list(class string, items []string) {
	s.add(func(w *writer) {
		w.raw("<ul" + class + ">")
		for _, i := range items {
			w.tag("<li>", i, "</li>")
		}
		w.raw("</ul>\n")
	})
}

// Facts adds names with their values.
func (s *Section) Facts(facts ...Fact) {
	s.add(func(w *writer) { w.facts(facts) })
}

// Table adds a table.
func (s *Section) Table(t *chart.Table) {
	s.add(func(w *writer) { w.keep(chart.WriteTable(w.w, t)) })
}

// Folded adds a table that unfolds when its name is chosen.
func (s *Section) Folded(name string, t *chart.Table) {
	s.add(func(w *writer) {
		w.tag("<details><summary>", name, "</summary>")
		w.keep(chart.WriteTable(w.w, t))
		w.raw("</details>\n")
	})
}

// Code adds text as it is, such as a command line.
func (s *Section) Code(text string) {
	s.add(func(w *writer) { w.tag(`<pre tabindex="0"><code>`, text, "</code></pre>\n") })
}

// Charts adds charts; where there is room they stand beside each other. Each has
// its data in a table that unfolds.
func (s *Section) Charts(charts ...chart.Chart) {
	var figures []Figure
	for _, c := range charts {
		figures = append(figures, Figure{s.page.id(chart.Title(c)), c})
	}
	s.page.charts = append(s.page.charts, figures...)
	s.add(func(w *writer) {
		w.raw(`<div class="charts">` + "\n")
		for _, f := range figures {
			w.keep(chart.WriteFigure(w.w, f.ID, f.Chart))
		}
		w.raw("</div>\n")
	})
}

// Write writes the page. It fails if a chart contradicts itself or w fails.
func (p *Page) Write(to io.Writer) error {
	w := &writer{w: bufio.NewWriter(to)}
	w.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	w.raw(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">` + "\n")
	w.raw(`<meta name="viewport" content="width=device-width, initial-scale=1">` + "\n<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"kvbench\">\n")
	w.tag("<title>", p.title, "</title>\n")
	w.raw("<link rel=\"icon\" href=\"data:,\">\n<style>" + css() + "</style>\n</head>\n<body>\n")
	w.raw(`<a class="skip" href="#content">Skip to the content</a>` + "\n<header id=\"top\">")
	w.tag("<h1>", p.title, "</h1>")
	if p.lead != "" {
		w.tag("<p>", p.lead, "</p>")
	}
	w.raw("</header>\n")
	if len(p.sections) > 1 {
		w.raw(`<nav aria-label="Contents" id="contents"><ul>`)
		for _, s := range p.sections {
			w.tag(`<li><a href="#`+s.id+`">`, s.title, "</a></li>")
		}
		if len(p.facts) > 0 {
			w.raw(`<li><a href="#provenance">Provenance</a></li>`)
		}
		w.raw("</ul></nav>\n")
	}
	w.raw(`<main id="content" tabindex="-1">` + "\n")
	for _, v := range p.verdicts {
		w.tag(`<p class="verdict `+string(v.tone)+`"><strong>`, v.word, "</strong> ")
		w.text(v.text)
		w.raw("</p>\n")
	}
	for _, s := range p.sections {
		w.tag(`<section aria-labelledby="`+s.id+`"><h2 id="`+s.id+`">`, s.title, "</h2>\n")
		for _, part := range s.parts {
			part(w)
		}
		w.raw("</section>\n")
	}
	w.raw("</main>\n<footer>")
	if len(p.facts) > 0 {
		w.raw(`<h2 id="provenance">Provenance</h2>`)
		w.facts(p.facts)
	}
	w.raw(`<p>Written by kvbench. This page loads nothing and runs no script. <a href="#top">To the top</a></p></footer>` + "\n</body>\n</html>\n")
	w.keep(w.w.Flush())
	return w.err
}

type writer struct {
	w   *bufio.Writer
	err error
}

func (w *writer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) raw(s string) { _, _ = w.w.WriteString(s) } // Flush reports errors

func (w *writer) text(s string) { w.raw(html.EscapeString(chart.Clean(s))) }

func (w *writer) tag(open, text, end string) {
	w.raw(open)
	w.text(text)
	w.raw(end)
}

func (w *writer) facts(facts []Fact) {
	w.raw(`<dl class="facts">`)
	for _, f := range facts {
		w.tag("<div><dt>", f.Name, "</dt>")
		w.tag("<dd>", f.Value, "</dd></div>\n")
	}
	w.raw("</dl>\n")
}
