package catalogue

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/kvbench/kvbench/internal/nearest"
	"github.com/kvbench/kvbench/internal/text"
)

// kinds in the order of lists, with their headings.
var kinds = []struct {
	kind    Kind
	heading string
}{
	{KindPolicy, "Policies, as --policy NAME or NAME:parameter=value,..."},
	{KindFilter, "Filters, for filter(...)"},
	{KindScorer, "Scorers, for score(NAME=weight,...)"},
	{KindPicker, "Pickers, for pick(...)"},
}

// reads returns what the definition reads with default parameters.
func (d *Definition) reads(defs []Definition) (string, error) {
	u, err := (&resolver{src: &source{text: d.Name}, defs: defs}).call(call{name: d.Name}, d.Kind)
	if err != nil {
		return "", err
	}
	r, err := u.recipe()
	if err != nil {
		return "", fmt.Errorf("the %v %s with its defaults: %w", d.Kind, d.Name, err)
	}
	return r.Inputs().String(), nil
}

// Find returns the definitions of that name, of any kind.
func Find(defs []Definition, name string) ([]Definition, error) {
	var found []Definition
	names := make([]string, 0, len(defs))
	for _, d := range defs {
		if names = append(names, d.Name); d.Name == name {
			found = append(found, d)
		}
	}
	if found != nil {
		return found, nil
	}
	if near, ok := nearest.Name(name, names); ok {
		return nil, fmt.Errorf("no policy or component is named %q; did you mean %s?", name, near)
	}
	return nil, fmt.Errorf("no policy or component is named %q; 'kvbench policies list' shows those there are", name)
}

// List writes a line for each definition, in 80 columns.
func List(defs []Definition) string {
	var b text.Builder
	width := 0
	for _, d := range defs {
		width = max(width, len(d.Name))
	}
	for i, k := range kinds {
		if i > 0 {
			b.Line("")
		}
		b.Line(k.heading + ":")
		for _, d := range defs {
			if d.Kind == k.kind {
				b.Wrap("  "+d.Name+strings.Repeat(" ", width-len(d.Name)+2), d.Summary)
			}
		}
	}
	return b.String()
}

// Show describes definitions in full, in 80 columns. defs are those that they
// may refer to.
func Show(found, defs []Definition) (string, error) {
	var b text.Builder
	for i := range found {
		d := &found[i]
		in, err := d.reads(defs)
		if err != nil {
			return "", err
		}
		if i > 0 {
			b.Line("")
		}
		b.Wrap("", d.Name+" ("+d.Kind.String()+"): "+d.Summary)
		b.Line("")
		for _, row := range []struct{ name, text string }{{"rule", d.Doc}, {"reads", in}, {"source", d.Source}, {"goes wrong", d.GoesWrong}} {
			if row.text != "" {
				b.Wrap(row.name+strings.Repeat(" ", 12-len(row.name)), row.text)
			}
		}
		if len(d.Params) == 0 {
			b.Line("no parameters")
		}
		for i := range d.Params {
			p := &d.Params[i]
			b.Line("")
			b.Line(p.Name + "=" + p.Default)
			b.Wrap("    ", p.Doc+"; "+p.Range())
		}
	}
	return b.String(), nil
}

// definitionJSON is a definition as programs read it.
type definitionJSON struct {
	Kind       string      `json:"kind"`
	Name       string      `json:"name"`
	Summary    string      `json:"summary"`
	Rule       string      `json:"rule"`
	Source     string      `json:"source,omitempty"`
	GoesWrong  string      `json:"goes_wrong,omitempty"`
	Inputs     string      `json:"inputs"`
	Parameters []paramJSON `json:"parameters"`
}

type paramJSON struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Default string   `json:"default"`
	Range   string   `json:"range"`
	Min     *float64 `json:"min,omitempty"`
	Above   bool     `json:"min_excluded,omitempty"`
	Max     *float64 `json:"max,omitempty"` // none: infinite
	Choices []string `json:"choices,omitempty"`
	Doc     string   `json:"doc"`
}

// WriteJSON writes definitions as a JSON array. Bounds of durations are in
// seconds.
func WriteJSON(w io.Writer, found, defs []Definition) error {
	out := make([]definitionJSON, len(found))
	for i := range found {
		d := &found[i]
		in, err := d.reads(defs)
		if err != nil {
			return err
		}
		out[i] = definitionJSON{d.Kind.String(), d.Name, d.Summary, d.Doc, d.Source, d.GoesWrong, in, []paramJSON{}}
		for j := range d.Params {
			p := &d.Params[j]
			q := paramJSON{Name: p.Name, Type: p.Type.String(), Default: p.Default, Range: p.Range(), Choices: p.Choices, Doc: p.Doc}
			if p.Type <= Duration {
				q.Min, q.Above = &p.Min, p.Above
				if !math.IsInf(p.Max, 1) {
					q.Max = &p.Max
				}
			}
			out[i].Parameters = append(out[i].Parameters, q)
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

// Complete returns what could follow in a policy that was typed in part: names,
// or after NAME: the parameters that are not given yet. Each is a whole text,
// a tab and a description.
func Complete(typed string, defs []Definition) []string {
	var out []string
	name, args, inArgs := strings.Cut(typed, ":")
	for i := range defs {
		d := &defs[i]
		switch {
		case d.Kind != KindPolicy:
		case !inArgs:
			out = append(out, d.Name+"\t"+d.Summary)
		case d.Name == name:
			done := strings.LastIndexByte(args, ',') + 1
			given := "," + args[:done]
			for j := range d.Params {
				p := &d.Params[j]
				if !strings.Contains(given, ","+p.Name+"=") {
					out = append(out, name+":"+args[:done]+p.Name+"=\t"+p.Doc+"; "+p.Range())
				}
			}
		}
	}
	return out
}
