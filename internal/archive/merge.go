package archive

import (
	"fmt"
	"slices"

	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/internal/text"
)

// Merge merges experiments into a new folder e.Path, or tables into a file there,
// and says what it did.
func Merge(paths []string, e *Export) (string, error) {
	var sources []*Source
	for _, path := range paths {
		s, err := Open(path)
		if err != nil {
			return "", err
		}
		sources = append(sources, s)
	}
	var b text.Builder
	if !slices.ContainsFunc(sources, func(s *Source) bool { return s.Experiment == nil }) {
		var experiments []*rounds.Experiment
		for _, s := range sources {
			experiments = append(experiments, s.Experiment)
		}
		merged, err := rounds.Merge(e.Path, experiments)
		if err != nil {
			return "", err
		}
		for _, m := range merged {
			b.Wrap("", fmt.Sprintf("rounds %d to %d: %s, begun %s", m.First, m.Last, m.Folder, m.Created))
			for _, w := range m.Warnings {
				b.Wrap("warning: ", m.Folder+": "+w)
			}
		}
		return b.String(), nil
	}
	for _, s := range sources {
		if s.Table == nil {
			return "", fmt.Errorf("%s is a %s; merge experiments alone, or Parquet tables of one schema alone (kvbench results export makes a table of anything with trials)", s.Path, s.Kind)
		}
		if s.Kind != sources[0].Kind {
			return "", fmt.Errorf("%s is a table of %s, and %s one of %s; tables are merged with others of their schema", s.Path, s.Kind, sources[0].Path, sources[0].Kind)
		}
	}
	e.Format = Parquet
	n, err := e.Export(nil, sources)
	if err != nil {
		return "", err
	}
	b.Line(fmt.Sprintf("%s: %d rows of %d tables", e.Path, n, len(sources)))
	return b.String(), nil
}
