// Package pagetest holds the rules that every HTML page of kvbench must keep, for
// the tests of whoever writes one. It reads the page as a browser parses it;
// package browsertest looks at what a browser makes of it.
package pagetest

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

// Node is an element of a parsed page.
type Node = html.Node

// Problems parses a page and returns what is wrong with it:
//
//   - it parses, names its language and title, forbids scripts and loads nothing
//   - no element runs a script or loads from elsewhere
//   - ids are unique, and what refers to one finds it
//   - one heading of the first level, and no level is skipped
//   - main, header and footer are there once
//   - every picture is labelled, lies in a figure and has its data in a table
//   - every table has a caption, column headings, and rows as long as these
func Problems(page string) []string {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return []string{err.Error()}
	}
	c := &checker{ids: map[string]int{}, counts: map[string]int{}}
	if !strings.HasPrefix(page, "<!DOCTYPE html>") {
		c.say("the page does not begin with a doctype")
	}
	c.walk(root)
	for id, n := range c.ids {
		if n > 1 {
			c.say("id %q is there %d times", id, n)
		}
	}
	for _, ref := range c.refs {
		if c.ids[ref] == 0 {
			c.say("something refers to id %q, which is nowhere", ref)
		}
	}
	for _, name := range []string{"title-of-head", "h1", "main", "header", "footer"} {
		if n := c.counts[name]; n != 1 {
			c.say("%d of %s instead of 1", n, name)
		}
	}
	if !c.policy {
		c.say("the page has no content security policy that begins with default-src 'none'")
	}
	return c.problems
}

type checker struct {
	problems []string
	ids      map[string]int
	refs     []string
	counts   map[string]int
	heading  int
	policy   bool
}

func (c *checker) say(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// Attr returns an attribute of an element, "" if it has none.
func Attr(n *Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// Find returns the elements of a name below n, in order.
func Find(n *Node, name string) []*Node {
	var out []*Node
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == name {
			out = append(out, d)
		}
	}
	return out
}

// Text returns the text below n.
func Text(n *Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// loads finds what in a style or an attribute would be fetched.
var loads = regexp.MustCompile(`(?i)@import|url\(|https?:|//[a-z]|javascript:`)

// forbidden are elements that run, load or send something.
var forbidden = map[string]bool{"script": true, "iframe": true, "object": true, "embed": true, "form": true, "input": true, "base": true, "img": true, "image": true, "use": true, "foreignobject": true, "foreignObject": true, "audio": true, "video": true, "animate": true, "set": true}

func (c *checker) walk(n *Node) {
	if n.Type == html.ElementNode {
		c.element(n)
	}
	for d := n.FirstChild; d != nil; d = d.NextSibling {
		c.walk(d)
	}
}

func (c *checker) element(n *Node) {
	c.counts[n.Data]++
	if forbidden[n.Data] {
		c.say("there is an element %s", n.Data)
	}
	for _, a := range n.Attr {
		switch {
		case strings.HasPrefix(strings.ToLower(a.Key), "on"):
			c.say("%s has an attribute %s", n.Data, a.Key)
		case a.Key == "id":
			c.ids[a.Val]++
			if a.Val == "" || strings.ContainsAny(a.Val, " \t\n") {
				c.say("an id is %q", a.Val)
			}
		case a.Key == "aria-labelledby" || a.Key == "aria-describedby":
			c.refs = append(c.refs, strings.Fields(a.Val)...)
		case a.Key == "href" && strings.HasPrefix(a.Val, "#"):
			c.refs = append(c.refs, a.Val[1:])
		case a.Key == "href" && !(n.Data == "link" && strings.HasPrefix(a.Val, "data:")), a.Key == "src":
			c.say("%s has %s=%q", n.Data, a.Key, a.Val)
		case a.Key == "style":
			c.say("%s has a style of its own", n.Data)
		}
	}
	switch n.Data {
	case "html":
		if Attr(n, "lang") == "" {
			c.say("the page does not name its language")
		}
	case "meta":
		if strings.EqualFold(Attr(n, "http-equiv"), "Content-Security-Policy") && strings.HasPrefix(Attr(n, "content"), "default-src 'none'") && !strings.Contains(Attr(n, "content"), "script-src") {
			c.policy = true
		}
	case "title":
		if n.Parent != nil && n.Parent.Data == "head" && strings.TrimSpace(Text(n)) != "" {
			c.counts["title-of-head"]++
		}
	case "style":
		if found := loads.FindString(Text(n)); found != "" {
			c.say("the style holds %q", found)
		}
	case "h1", "h2", "h3", "h4":
		level := int(n.Data[1] - '0')
		if level > c.heading+1 {
			c.say("heading %q is of level %d after one of level %d", Text(n), level, c.heading)
		}
		if strings.TrimSpace(Text(n)) == "" {
			c.say("a heading of level %d is empty", level)
		}
		c.heading = level
	case "svg":
		c.picture(n)
	case "table":
		c.table(n)
	case "section":
		if Attr(n, "aria-labelledby") == "" {
			c.say("a section has no name")
		}
	}
	if Attr(n, "tabindex") == "0" && Attr(n, "role") == "region" && Attr(n, "aria-label") == "" {
		c.say("a region that the keyboard reaches has no name")
	}
}

func (c *checker) picture(n *Node) {
	if Attr(n, "role") != "img" || Attr(n, "aria-labelledby") == "" {
		c.say("a picture has no role or no label")
	}
	titles := Find(n, "title")
	if len(titles) == 0 || strings.TrimSpace(Text(titles[0])) == "" {
		c.say("a picture has no title")
	}
	if len(Find(n, "path"))+len(Find(n, "circle"))+len(Find(n, "text")) == 0 {
		c.say("a picture is empty")
	}
	figure := n.Parent
	for figure != nil && figure.Data != "figure" {
		figure = figure.Parent
	}
	if figure == nil {
		c.say("a picture lies in no figure")
		return
	}
	if len(Find(figure, "figcaption")) != 1 || len(Find(figure, "table")) != 1 {
		c.say("figure %q has no caption or not one table", Attr(figure, "id"))
	}
}

func (c *checker) table(n *Node) {
	caption := ""
	if found := Find(n, "caption"); len(found) == 1 {
		caption = Text(found[0])
	}
	if caption == "" {
		c.say("a table has no caption")
	}
	rows := Find(n, "tr")
	if len(rows) == 0 {
		c.say("table %q has no heading", caption)
		return
	}
	columns := len(Find(rows[0], "th"))
	for i, r := range rows {
		if cells := len(Find(r, "th")) + len(Find(r, "td")); cells != columns {
			c.say("table %q: row %d has %d cells for %d columns", caption, i, cells, columns)
		}
	}
}

// Table returns the words of a table: its heading and its rows. A figure that is
// rounded for people is given by its value.
func Table(n *Node) [][]string {
	var out [][]string
	for _, r := range Find(n, "tr") {
		var row []string
		for d := r.FirstChild; d != nil; d = d.NextSibling {
			if d.Type != html.ElementNode {
				continue
			}
			text := Text(d)
			if data := Find(d, "data"); len(data) == 1 {
				text = Attr(data[0], "value")
			}
			row = append(row, text)
		}
		out = append(out, row)
	}
	return out
}

// Parse parses a page.
func Parse(page string) (*Node, error) { return html.Parse(strings.NewReader(page)) }
