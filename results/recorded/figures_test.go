package recorded

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// figurePattern is a number with a unit of a measurement.
var figurePattern = regexp.MustCompile(`[0-9][0-9.,]*(?:\s+to\s+[0-9.,]+)?\s*(?:ns|µs|ms|million|[kMG]?B|[kM]?/s|M|×|x|times|%)(?:[^\p{L}\p{N}]|$)`)

// notMeasured are figures that documents may state without a recorded run: they
// define or choose something.
var notMeasured = map[string][]string{
	"INDEXER_BENCH.md": {"95% interval", "80% probability"},
}

// TestFiguresAreRecorded goes through what README and INDEXER_BENCH.md say, outside
// the parts that tests of this package write, of commands and of code.
func TestFiguresAreRecorded(t *testing.T) {
	const root = "../.."
	for _, path := range []string{filepath.Join(root, "README.md"), filepath.Join(root, "INDEXER_BENCH.md")} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		text := string(b)
		if name == "INDEXER_BENCH.md" {
			// What comes before explains fields and rules with their limits.
			_, measured, ok := strings.Cut(text, "\n## Measured\n")
			if !ok {
				t.Fatalf("%s has no part about what was measured", path)
			}
			text = measured
		}
		for _, line := range strings.Split(prose(t, path, text), "\n") {
			for _, allowed := range notMeasured[name] {
				line = strings.ReplaceAll(line, allowed, "")
			}
			for _, figure := range figurePattern.FindAllString(line, -1) {
				t.Errorf("%s: %q is in no recorded run: %s", path, strings.TrimSpace(figure), line)
			}
		}
	}
}

// prose takes out generated parts, blocks of code and code within lines.
func prose(t *testing.T, path, text string) string {
	t.Helper()
	for _, cut := range []struct{ begin, end string }{{": go test ./", "<!-- end of "}, {"\n```", "\n```"}} {
		for {
			before, rest, ok := strings.Cut(text, cut.begin)
			if !ok {
				break
			}
			_, after, ok := strings.Cut(rest, cut.end)
			if !ok {
				t.Fatalf("%s: what begins with %q does not end", path, cut.begin)
			}
			text = before + "\n" + after
		}
	}
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "")
}

// TestFigurePattern shows what is a figure and what is not.
func TestFigurePattern(t *testing.T) {
	for text, want := range map[string]bool{
		"it takes 12 ns an event": true, "17 to 21 ns each": true, "47 to 59 million events": true, "1.25× faster": true, "84% of them": true,
		"2,030 ns.": true, "3.5 GB": true, "10 M/s": true, "128 workers": false, "Go 1.26 or newer": false, "9 ratios": false, "2 ranks share": false, "schema v1": false,
	} {
		if got := figurePattern.MatchString(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
