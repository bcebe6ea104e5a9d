// Package report turns an experiment of rounds, a sweep or single records into one
// HTML page, and its pictures into files. It reads what was recorded and shows it;
// comparisons and their statistics are those of package rounds, verdicts those of
// package gate. What a record does not have is said, not drawn.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/gate"
	"github.com/kvbench/kvbench/internal/report/page"
	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/internal/sweep"
	"github.com/kvbench/kvbench/internal/wholefile"
	"github.com/kvbench/kvbench/results"
)

// Options say what to report.
type Options struct {
	Title string // "": made from what is reported
	// Analyse is what of an experiment is compared. Only for an experiment.
	Analyse rounds.AnalyseOptions
	// Gate is a verdict that was saved, shown first; nil: none. Only for an
	// experiment.
	Gate *gate.Report
	// Timelines are files that 'kvbench replay --timeline' wrote, to show what
	// records do not hold: depths, rates, latencies and resident blocks over time.
	Timelines []string
}

// Build makes the page for paths: the folder of an experiment of rounds, the folder
// of a sweep, or records and folders that hold them.
func Build(paths []string, o Options) (*page.Page, error) {
	if len(paths) == 0 {
		return nil, errors.New("nothing to report: name the folder of an experiment or of a sweep, or records")
	}
	timelines, err := readTimelines(o.Timelines)
	if err != nil {
		return nil, err
	}
	if len(paths) == 1 {
		kind, err := kindOf(paths[0])
		switch {
		case err != nil:
			return nil, err
		case kind == ofRounds:
			exp, err := rounds.Open(paths[0])
			if err != nil {
				return nil, err
			}
			return experimentPage(exp, timelines, o)
		}
		if o.Gate != nil || o.Analyse.Ratios != nil || o.Analyse.Metrics != nil {
			return nil, fmt.Errorf("%s is no experiment of rounds: a verdict, ratios and metrics are for one", paths[0])
		}
		if kind == ofSweep {
			r, err := sweep.Open(paths[0])
			if err != nil {
				return nil, err
			}
			return sweepPage(paths[0], r, timelines, o), nil
		}
	}
	if o.Gate != nil || o.Analyse.Ratios != nil || o.Analyse.Metrics != nil {
		return nil, errors.New("a verdict, ratios and metrics are for one experiment of rounds")
	}
	trials, err := readRecords(paths)
	if err != nil {
		return nil, err
	}
	return recordsPage(trials, timelines, o), nil
}

type kind int

const (
	ofRecord kind = iota
	ofRecords
	ofRounds
	ofSweep
)

// kindOf says what a path is, by the files that a folder has.
func kindOf(path string) (kind, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if !info.IsDir() {
		return ofRecord, nil
	}
	for _, c := range []struct {
		name string
		kind kind
	}{{"manifest.json", ofRounds}, {"sweep.json", ofSweep}} {
		_, err := os.Stat(filepath.Join(path, c.name))
		if err == nil {
			return c.kind, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return ofRecords, nil
}

// readRecords reads files and the .json files of folders.
func readRecords(paths []string) ([]trial, error) {
	var files []string
	for _, path := range paths {
		kind, err := kindOf(path)
		switch {
		case err != nil:
			return nil, err
		case kind == ofRounds || kind == ofSweep:
			return nil, fmt.Errorf("%s is an experiment or a sweep of its own; report it alone", path)
		case kind == ofRecord:
			files = append(files, path)
			continue
		}
		found, err := filepath.Glob(filepath.Join(escapeGlob(path), "*.json"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s holds no manifest.json of an experiment, no sweep.json and no record (*.json)", path)
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	names := shortNames(files)
	trials := make([]trial, len(files))
	for i, f := range files {
		r, err := results.Read(f)
		if err != nil {
			return nil, err
		}
		trials[i] = trial{Group: names[i], Name: names[i], Record: r}
	}
	return trials, nil
}

// escapeGlob keeps what is special to Glob in the name of a folder.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// shortNames returns the ends of paths by which they differ.
func shortNames(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = strings.TrimSuffix(filepath.Base(p), ".json")
	}
	for i := range out {
		if slices.Contains(out[:i], out[i]) {
			for k, p := range paths {
				out[k] = filepath.Clean(p)
			}
			break
		}
	}
	// The same file may be named twice.
	for i := range out {
		if slices.Contains(out[:i], out[i]) {
			out[i] = fmt.Sprintf("%s (%d)", out[i], i+1)
		}
	}
	return out
}

// ReadGate reads a verdict that 'kvbench gate --json-file' saved.
func ReadGate(path string) (*gate.Report, error) {
	b, err := wholefile.Read(path, "a verdict of 'kvbench gate'", 64<<20)
	if err != nil {
		return nil, err
	}
	r := new(gate.Report)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: not a verdict of 'kvbench gate': %w", path, err)
	}
	if r.Schema != gate.Schema {
		return nil, fmt.Errorf("%s: schema is %q; this version of kvbench reads %q", path, r.Schema, gate.Schema)
	}
	return r, nil
}
