// Package trial takes one replay from what a user names, a trace or a saved
// corpus, to a result record with its provenance.
//
// It joins the packages that do the work (trace, prepare, replay) and holds no
// measurement of its own; the command line lies above it.
package trial

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/buildinfo"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/replay"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/internal/replay/prepare"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/results/table"
	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/traces"
)

// Input names the work and says how to prepare it.
type Input struct {
	// Source is the path of a trace or of a corpus file, or the name of an
	// embedded trace. A file of that name comes before an embedded trace.
	Source  string
	Options corpus.Options // for a trace; a corpus has its own
	// Reading says how a trace is read. Its BlockSize is Options.TraceBlockSize.
	Reading trace.ReaderOptions
	Seed    uint64
	Window  time.Duration
	Time    mocker.TimeModel // nil: the default model
	// Note is told what was inferred about a trace; nil: it is not wanted.
	Note func(text string) `json:"-"`
}

// Progress is told how far the preparation is. Any method may be called from
// any goroutine.
type Progress interface {
	// Step begins a step of unknown length, or of total units.
	Step(name string, total int64)
	// Advance sets the units done of the current step.
	Advance(done int64)
}

// Open returns the corpus of an input, the saved one or one prepared from the
// trace, and what was odd about the trace. The caller closes the corpus.
func Open(ctx context.Context, in Input, p Progress) (*corpus.Corpus, []string, error) {
	saved, err := IsCorpus(in.Source)
	if err != nil {
		return nil, nil, err
	}
	if saved {
		p.Step("read corpus", 0)
		c, err := corpus.Open(in.Source)
		return c, nil, err
	}
	if err := prepare.CheckOptions(in.Options, in.Window); err != nil {
		return nil, nil, err
	}
	if in.Time == nil {
		in.Time = mocker.DefaultTime
	}
	in.Options.TimeModel = fmt.Sprint(in.Time)
	in.Reading.BlockSize = in.Options.TraceBlockSize
	t, src, err := LoadTrace(ctx, in.Source, in.Reading, p)
	if err != nil {
		return nil, nil, err
	}
	if in.Note != nil {
		for _, text := range src.Notes {
			in.Note(text)
		}
	}
	in.Options.TraceReading = in.Reading.Text(src.Format)
	c, err := prepare.Prepare(ctx, t, prepare.Origin{Name: src.Name, SHA256: src.SHA256},
		in.Options, in.Seed, in.Window, in.Time, stepper(p, "prepare"))
	return c, src.Warnings, err
}

// stepper adapts a Progress to a step whose first call says its length.
func stepper(p Progress, name string) func(done, total int64) {
	return func(done, total int64) {
		if done == 0 {
			p.Step(name, total)
		}
		p.Advance(done)
	}
}

// LoadTrace reads a trace file, or an embedded trace if there is no such file.
func LoadTrace(ctx context.Context, source string, opts trace.ReaderOptions, p Progress) (*trace.Trace, trace.Source, error) {
	progress := stepper(p, "read trace")
	if _, err := os.Stat(source); os.IsNotExist(err) && !strings.ContainsRune(source, os.PathSeparator) {
		if slices.Contains(traces.Names(), source) {
			f, err := traces.Open(source)
			if err != nil {
				return nil, trace.Source{}, err
			}
			defer f.Close()
			return trace.LoadReader(ctx, f, source, opts, progress)
		}
		return nil, trace.Source{}, fmt.Errorf("%s: no such file, and no embedded trace of that name; there are %s",
			source, strings.Join(traces.Names(), ", "))
	}
	return trace.Load(ctx, source, opts, progress)
}

// IsCorpus says whether the source is the file of a saved corpus. What is not
// there or cannot be one is not; the trace reader then says what is wrong.
func IsCorpus(source string) (bool, error) {
	if info, err := os.Stat(source); err != nil || info.IsDir() {
		return false, nil
	}
	return corpus.IsCorpusFile(source)
}

// DecisionsTo returns what replay.Config.Decisions needs to write the decisions to
// a Parquet file. Its metadata does not name the command line of a serial trial,
// so that equal decisions are equal bytes.
func DecisionsTo(path string, overwrite bool, cfg *replay.Config, argv []string) func(*results.Validity, iter.Seq[table.Decision]) error {
	return func(v *results.Validity, rows iter.Seq[table.Decision]) error {
		if cfg.Serial {
			argv = nil
		}
		facts := workFacts(cfg)
		facts["policy"] = cfg.Policy.Full
		facts["query_threads"] = strconv.Itoa(cfg.Placement.Threads.QueryThreads)
		facts["query_lanes"] = strconv.Itoa(cfg.QueryLanes) // 0: the default
		facts["serial"] = strconv.FormatBool(cfg.Serial)
		meta := table.NewMeta(argv, facts)
		for _, r := range v.Reasons {
			meta.Warnings = append(meta.Warnings, "the trial is not valid: "+r.Rule+": "+r.Detail)
		}
		return writeTable(path, overwrite, meta, rows)
	}
}

// TimelineTo returns what replay.Config.Timeline needs to write the timeline to a
// Parquet file.
func TimelineTo(path string, overwrite bool, cfg *replay.Config, argv []string) func(iter.Seq[table.Operation]) error {
	return func(rows iter.Seq[table.Operation]) error {
		facts := workFacts(cfg)
		facts["index"] = cfg.Index.Name
		facts["window_ns"] = strconv.FormatInt(cfg.Corpus.Manifest.WindowNS, 10)
		return writeTable(path, overwrite, table.NewMeta(argv, facts), rows)
	}
}

// workFacts say what the rows of a trial are about.
func workFacts(cfg *replay.Config) map[string]string {
	m := &cfg.Corpus.Manifest
	return map[string]string{
		"corpus_sha256": cfg.Corpus.SHA256(),
		"trace_name":    m.TraceName,
		"trace_sha256":  m.TraceSHA256,
		"seed":          strconv.FormatUint(m.Seed, 10),
	}
}

func writeTable[T table.Row](path string, overwrite bool, meta table.Meta, rows iter.Seq[T]) error {
	w, err := table.Create[T](path, overwrite, meta)
	if err != nil {
		return err
	}
	batch := make([]T, 0, 1024)
	for row := range rows {
		if batch = append(batch, row); len(batch) < cap(batch) {
			continue
		}
		if err := w.Write(batch); err != nil {
			return errors.Join(err, w.Abort())
		}
		batch = batch[:0]
	}
	if err := w.Write(batch); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// Run replays the corpus once and fills in the provenance of the record.
func Run(ctx context.Context, cfg replay.Config, argv []string, prepared time.Duration) (*results.Record, error) {
	binary, err := buildinfo.SHA256()
	if err != nil {
		return nil, err
	}
	machine := host.Describe()
	m := &cfg.Corpus.Manifest
	rec, err := replay.Run(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b := buildinfo.Read()
	rec.Timing.PrepareNS = int64(prepared)
	rec.Provenance = results.Provenance{
		Argv:         argv,
		Version:      b.Version,
		Commit:       b.Commit,
		Modified:     b.Modified,
		GoVersion:    b.Go,
		BinarySHA256: binary,
		TraceName:    m.TraceName,
		TraceSHA256:  m.TraceSHA256,
		CorpusSHA256: cfg.Corpus.SHA256(),
		Seed:         m.Seed,
		StartTime:    rec.Provenance.StartTime,
		Host:         machine,
		Build:        b.Settings,
	}
	return rec, nil
}
