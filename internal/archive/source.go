package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/internal/simulate"
	"github.com/kvbench/kvbench/internal/sweep"
	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/results/table"
)

// Records is the kind of a file with one record a line.
const Records = results.ReplayV1 + " lines"

// errNoSchema says that a file names no schema, like a trace or a configuration.
var errNoSchema = fmt.Errorf("%w: it names no schema", errNotResult)

// Source is a result that was kept.
type Source struct {
	Path string
	Kind string // name of its schema, such as "kvbench.rounds/v1", or Records

	// Trials are the trials of a replay, valid or not; nil if it is something else.
	Trials []table.Trial

	// One of these at most is set.
	Record     *results.Record    // of a file with one
	Experiment *rounds.Experiment // of the folder of one
	Sweep      *sweep.Result      // of the folder of one
	Simulation *simulate.Result   // of a file with one
	Table      *Table             // of a Parquet file
	Raw        json.RawMessage    // of another result of kvbench
}

// Table says what a Parquet file holds.
type Table struct {
	Rows int64
	Meta table.Meta
}

// The files by which a folder is known.
const (
	manifestName = "manifest.json"
	sweepName    = "sweep.json"
)

// errNotResult says that a file is no result of kvbench, whatever else it may be.
var errNotResult = errors.New("not a result of kvbench")

// Open reads the result at a path: the folder of an experiment or a sweep, a file
// with a record or another result in JSON, a file with one record a line, perhaps
// packed by gzip, or a Parquet table.
func Open(path string) (*Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openFolder(path)
	}
	s, err := openFile(path)
	if err != nil && !strings.HasPrefix(err.Error(), path) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return s, err
}

func openFolder(path string) (*Source, error) {
	manifest, plan := exists(filepath.Join(path, manifestName)), exists(filepath.Join(path, sweepName))
	switch {
	case manifest && plan:
		return nil, fmt.Errorf("%s holds both the %s of an experiment and the %s of a sweep; move the files of one to a folder of their own", path, manifestName, sweepName)
	case manifest:
		e, err := rounds.Open(path)
		if err != nil {
			return nil, err
		}
		rows, err := e.Rows()
		return &Source{Path: path, Kind: rounds.ManifestV1, Trials: rows, Experiment: e}, err
	case plan:
		r, err := sweep.Open(path)
		if err != nil {
			return nil, err
		}
		return &Source{Path: path, Kind: sweep.SweepV1, Trials: r.Rows(path), Sweep: r}, nil
	}
	return nil, fmt.Errorf("%s is a folder without the %s of an experiment or the %s of a sweep; name one of those, or use kvbench results list to find them", path, manifestName, sweepName)
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func openFile(path string) (*Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	magic, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case len(magic) == 0:
		return nil, errors.New("the file is empty")
	case string(magic) == "PAR1":
		return openTable(path)
	case magic[0] == 0x1f && len(magic) > 1 && magic[1] == 0x8b:
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		return openJSON(path, z)
	}
	return openJSON(path, in)
}

func openTable(path string) (*Source, error) {
	schema, n, meta, err := table.Kind(path)
	if err != nil {
		return nil, err
	}
	s := &Source{Path: path, Kind: schema, Table: &Table{Rows: n, Meta: meta}}
	if schema == table.TrialsV1 {
		s.Trials, err = table.ReadAll[table.Trial](path)
	}
	return s, err
}

// maxJSON bounds a file that is read whole.
const maxJSON = 1 << 30

// openJSON reads a JSON value, or one record a line.
func openJSON(path string, in io.Reader) (*Source, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxJSON+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxJSON {
		return nil, fmt.Errorf("%w: it is larger than %d MiB", errNotResult, maxJSON>>20)
	}
	var head struct {
		Schema string `json:"schema"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	var kind *json.UnmarshalTypeError
	switch err := dec.Decode(&head); {
	case errors.As(err, &kind) && kind.Field == "":
		return nil, errNoSchema // JSON of another form
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNotResult, err)
	}
	switch {
	case head.Schema == "":
		return nil, errNoSchema
	case !strings.HasPrefix(head.Schema, "kvbench."):
		return nil, fmt.Errorf("%w: its schema is %q", errNotResult, head.Schema)
	}
	if dec.More() && head.Schema == results.ReplayV1 {
		return openLines(path, b)
	}
	s := &Source{Path: path, Kind: head.Schema}
	switch head.Schema {
	case results.ReplayV1:
		if s.Record, err = results.Decode(b); err == nil {
			s.Trials = []table.Trial{table.TrialOf(filepath.Base(path), s.Record)}
		}
	case simulate.ResultV1:
		s.Simulation = new(simulate.Result)
		err = json.Unmarshal(b, s.Simulation)
	case rounds.ManifestV1, sweep.SweepV1:
		if name := filepath.Base(path); name == manifestName || name == sweepName {
			return openFolder(filepath.Dir(path))
		}
		s.Raw = b
	default:
		s.Raw = b
	}
	return s, err
}

// openLines reads one record a line.
func openLines(path string, b []byte) (*Source, error) {
	s := &Source{Path: path, Kind: Records, Trials: []table.Trial{}}
	number := 0
	for line := range bytes.Lines(b) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r, err := results.Decode(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		s.Trials = append(s.Trials, table.TrialOf(filepath.Base(path), r))
	}
	return s, nil
}

// Problem is a file that is not in the list, and why.
type Problem struct {
	Path    string `json:"path"`
	Reason  string `json:"reason"`
	Foreign bool   `json:"foreign"` // it does not look like a result of kvbench at all
	// Passing says that it is such a file, names no schema, and was only come across
	// in a folder: a trace beside results.
	Passing bool `json:"passing"`
}

// Found is what Find found.
type Found struct {
	Sources  []*Source
	Problems []Problem
}

// Find opens the results at and below the paths, in the order of their names. Files
// below a folder that are neither JSON nor Parquet are passed over; everything else
// that is no result is a problem.
func Find(paths []string) *Found {
	f := new(Found)
	for _, path := range paths {
		f.find(path)
	}
	return f
}

func (f *Found) find(root string) {
	info, err := os.Stat(root)
	if err != nil {
		f.problem(root, err)
		return
	}
	if !info.IsDir() {
		f.open(root)
		for i := range f.Problems {
			if f.Problems[i].Path == root {
				f.Problems[i].Passing = false // it was asked for
			}
		}
		return
	}
	// WalkDir goes on after what this returns, and hands over what it cannot read.
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			f.problem(path, err)
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir() && (exists(filepath.Join(path, manifestName)) || exists(filepath.Join(path, sweepName))):
			f.open(path)
			return fs.SkipDir
		case d.IsDir() || strings.HasPrefix(d.Name(), "."):
		case slices.Contains([]string{".json", ".jsonl", ".parquet"}, filepath.Ext(strings.TrimSuffix(d.Name(), ".gz"))):
			f.open(path)
		}
		return nil
	})
}

func (f *Found) open(path string) {
	s, err := Open(path)
	if err != nil {
		f.problem(path, err)
		return
	}
	f.Sources = append(f.Sources, s)
}

func (f *Found) problem(path string, err error) {
	f.Problems = append(f.Problems, Problem{
		Path: path, Reason: strings.TrimPrefix(err.Error(), path+": "),
		Foreign: errors.Is(err, errNotResult) || errors.Is(err, table.ErrForeign),
		Passing: errors.Is(err, errNoSchema) || errors.Is(err, table.ErrForeign),
	})
}

// Broken returns the problems that are results which cannot be read, or paths that
// do not exist.
func (f *Found) Broken() []Problem {
	return slices.DeleteFunc(slices.Clone(f.Problems), func(p Problem) bool { return p.Foreign })
}

// WithRows returns the sources that have rows.
func (f *Found) WithRows() []*Source {
	return slices.DeleteFunc(slices.Clone(f.Sources), func(s *Source) bool { return s.Trials == nil && s.Table == nil })
}

// Summary is a line about a source.
type Summary struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Start   string `json:"start"`   // of the first trial, RFC 3339, UTC; "" if unknown
	Trials  int    `json:"trials"`  // of replays; warm-up is not counted
	Valid   int    `json:"valid"`   // of these
	KeptUp  int    `json:"kept_up"` // of these
	Build   string `json:"build"`   // of kvbench: versions and commits; "" if unknown
	Trace   string `json:"trace"`   // names; "" if unknown
	Machine string `json:"machine"` // CPU models; "" if unknown
	What    string `json:"what"`    // in words
}

// Summarize says what a source is.
func (s *Source) Summarize() Summary {
	out := Summary{Path: s.Path, Kind: s.Kind, What: s.what()}
	builds, traces, machines := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var start time.Time
	for i := range s.Trials {
		t := &s.Trials[i]
		if t.StartTime != nil && (start.IsZero() || t.StartTime.Before(start)) {
			start = *t.StartTime
		}
		if !t.Failed {
			builds[buildOf(t)] = true
			traces[known(t.TraceName)] = true
			machines[known(t.HostCPUModel)] = true
		}
		if warmUp(t) {
			continue
		}
		out.Trials++
		if t.Valid {
			out.Valid++
			if t.KeptUp != nil && *t.KeptUp {
				out.KeptUp++
			}
		}
	}
	if s.Table != nil && s.Trials == nil {
		builds[buildText(s.Table.Meta.Version, s.Table.Meta.Commit, s.Table.Meta.Modified)] = true
		if name := s.Table.Meta.Facts["trace_name"]; name != "" {
			traces[name] = true
		}
	}
	if s.Simulation != nil {
		traces[s.Simulation.Trace.Name] = true
	}
	if !start.IsZero() {
		out.Start = start.UTC().Format(time.RFC3339)
	}
	join := func(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }
	out.Build, out.Trace, out.Machine = join(builds), join(traces), join(machines)
	return out
}

// warmUp says whether a trial is one that enters no figure.
func warmUp(t *table.Trial) bool { return t.Round != nil && *t.Round < 1 }

func buildOf(t *table.Trial) string {
	return buildText(known(t.Version), known(t.Commit), t.Modified != nil && *t.Modified)
}

// known returns a text, "" for null.
func known(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func buildText(version, commit string, modified bool) string {
	text := version
	// A version of a commit names it already.
	if short := commit[:min(12, len(commit))]; short != "" && !strings.Contains(version, short) {
		text = strings.TrimSpace(text + " " + short)
	}
	if text == "" {
		text = "unknown"
	}
	if modified {
		text += ", modified"
	}
	return text
}

func (s *Source) what() string {
	switch {
	case s.Record != nil:
		return "replay of " + s.Record.Config.Index
	case s.Kind == Records:
		return text.Count(len(s.Trials), "record")
	case s.Experiment != nil:
		e := s.Experiment
		var names []string
		for _, v := range e.Manifest.Variants {
			names = append(names, v.Name)
		}
		what := fmt.Sprintf("rounds: %d of %s", e.Rounds(), strings.Join(names, ", "))
		if !e.Done() {
			_, left := e.Counts()
			what += fmt.Sprintf("; not done, %s left", text.Count(left, "trial"))
		}
		return what
	case s.Sweep != nil:
		return fmt.Sprintf("sweep: %s", text.Count(len(s.Sweep.Points), "point"))
	case s.Simulation != nil:
		r := s.Simulation
		policies := "1 policy"
		if n := len(r.Options.Policies); n != 1 {
			policies = fmt.Sprintf("%d policies", n)
		}
		what := fmt.Sprintf("simulation: %s of %s", text.Count(len(r.Runs), "run"), policies)
		if r.Partial {
			what += "; interrupted"
		}
		return what
	case s.Table != nil:
		return fmt.Sprintf("table of %s", text.Count(int(s.Table.Rows), "row"))
	}
	return ""
}
