package archive

import (
	"bytes"
	"io"
	"os"
	"slices"
	"testing"
)

// FuzzOpenJSON reads whatever bytes; what opens can be summed up, shown and
// exported.
func FuzzOpenJSON(f *testing.F) {
	b, err := os.ReadFile(first)
	if err != nil {
		f.Fatal(err)
	}
	lines := slices.Collect(bytes.Lines(b))
	f.Add(lines[0])
	f.Add(slices.Concat(lines[0], lines[1]))
	for _, s := range []string{
		"", "{", `{"schema":"kvbench.micro/v1"}`, `{"schema":"kvbench.simulation/v1","runs":[{}]}`, `{"schema":"kvbench.result/v1","kind":"replay"}`,
		`{"schema":"kvbench.result/v1","kind":"replay"}` + "\n" + `{"schema":"kvbench.result/v1","kind":"replay","validity":{"valid":true}}`,
		`{"schema":"kvbench.rounds/v1"}`, `{"schema":"kvbench.sweep/v1"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := openJSON("x.json", bytes.NewReader(b))
		if err != nil {
			return
		}
		s.Summarize()
		if s.Simulation == nil { // whose text wants a simulation that ran
			if err := s.WriteText(io.Discard); err != nil {
				t.Errorf("%v", err)
			}
		}
		if s.Trials == nil {
			return
		}
		for _, format := range []Format{CSV, JSON, Benchfmt} {
			if _, err := (&Export{Format: format}).Export(io.Discard, []*Source{s}); err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
		if _, err := Compare(s, s, Selection{}); err != nil && len(s.Trials) > 0 {
			t.Errorf("%v", err)
		}
	})
}
