package settings

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

// Default is the origin of a value that nothing sets.
const Default = "default"

// Value is a setting or the default of a flag, to be shown.
type Value struct {
	Setting
	List bool // the flag takes a list
}

// MarshalJSON gives one value as a text and a list as a list.
func (v Value) MarshalJSON() ([]byte, error) {
	var value any = v.Values
	if !v.List && len(v.Values) == 1 {
		value = v.Values[0]
	}
	return yaml.MarshalWithOptions(yaml.MapSlice{
		{Key: "command", Value: v.Command}, {Key: "flag", Value: v.Flag},
		{Key: "value", Value: value}, {Key: "origin", Value: v.Origin},
	}, yaml.JSON())
}

// WriteYAML writes values in the form of a file, with their origins as comments.
// Of several values for one flag of one command the first is written and the
// others are comments, as they have no effect; so are defaults.
func WriteYAML(w io.Writer, values []Value) error {
	root := &node{}
	for i := range values {
		at := root
		for _, name := range values[i].path() {
			at = at.child(name)
		}
		at.values = append(at.values, &values[i])
	}
	var b strings.Builder
	if err := root.write(&b, ""); err != nil {
		return err
	}
	if b.Len() == 0 {
		b.WriteString("# nothing is set\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// node is a command with its values.
type node struct {
	name   string
	values []*Value
	below  []*node
}

func (n *node) child(name string) *node {
	for _, c := range n.below {
		if c.name == name {
			return c
		}
	}
	c := &node{name: name}
	n.below = append(n.below, c)
	return c
}

func (n *node) write(b *strings.Builder, indent string) error {
	seen := map[string]bool{}
	for _, v := range n.values {
		texts := make([]string, len(v.Values))
		for i, value := range v.Values {
			var err error
			if texts[i], err = scalar(value); err != nil {
				return fmt.Errorf("write %s: %w", v.Flag, err)
			}
		}
		text := strings.Join(texts, ", ")
		if v.List || len(texts) != 1 {
			text = "[" + text + "]"
		}
		line := v.Flag + ": " + text
		switch {
		case (v.List || len(texts) != 1) && len(texts) == 0:
			line = "# " + v.Flag + ":" // an empty list is the default and cannot be set
		case v.Origin == Default:
			// To give a flag its default is not to leave it out: some must not be
			// empty when they are given, and others exclude each other.
			line = "# " + line
		}
		if seen[v.Flag] {
			line = "# has no effect: " + line
		}
		seen[v.Flag] = true
		fmt.Fprintf(b, "%s%-40s # %s\n", indent, line, v.Origin)
	}
	for _, c := range n.below {
		fmt.Fprintf(b, "%s%s:\n", indent, c.name)
		if err := c.write(b, indent+"  "); err != nil {
			return err
		}
	}
	return nil
}

// plain is what needs no quotes: a value is read word for word, whatever its type.
var plain = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._/+%-]*$`)

func scalar(value string) (string, error) {
	if plain.MatchString(value) && !strings.EqualFold(value, "null") {
		return value, nil
	}
	text, err := json.Marshal(value) // a text in JSON is one in YAML
	return string(text), err
}
