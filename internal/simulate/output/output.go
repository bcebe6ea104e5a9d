// Package output plays a comparison of policies into a folder:
//
//	requests.parquet  one row for each request of each run
//	summary.json      the result: figures, series over time, curves, comparisons
//	report.html       the same for people, in one file that needs nothing else
//
// A search of the load (simulate.Config.Knee) has no requests.parquet. The columns
// are in docs/formats.md, table kvbench.requests/v1; summary.json is a
// simulate.Result.
//
// A folder holds one comparison: one that is not empty is refused. While it is
// played the folder has a file named unfinished, which a comparison that was killed
// leaves behind; one that was interrupted keeps the runs that were done and says
// everywhere that it is partial. The same arguments give the same bytes.
package output

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/simulate"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/fleet"
	"github.com/kvbench/kvbench/results/table"
)

// The files of a folder.
const (
	RequestsFile = "requests.parquet"
	SummaryFile  = "summary.json"
	ReportFile   = "report.html"
	unfinished   = "unfinished"
)

// Run plays cfg into the folder dir, which is made if it does not exist; argv is
// the command line for the record. As from simulate.Run, an error with a result
// says that the comparison was interrupted; the folder then has what was done. With
// any other error it has nothing.
func Run(ctx context.Context, cfg simulate.Config, dir string, argv []string, progress simulate.Progress) (*simulate.Result, error) {
	f, err := create(dir)
	if err != nil {
		return nil, err
	}
	res, err := f.run(ctx, &cfg, argv, progress)
	if res == nil {
		return nil, errors.Join(err, f.abandon())
	}
	return res, err
}

// folder is a claimed folder.
type folder struct {
	dir  string
	made bool // by this comparison
	rows *table.Writer[table.Request]
	buf  []table.Request
}

// create claims a folder. Of two comparisons that want the same one the second
// fails.
func create(dir string) (*folder, error) {
	f := &folder{dir: dir}
	switch err := os.Mkdir(dir, 0o777); {
	case err == nil:
		f.made = true
	case !errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("the folder for the result: %w", err)
	}
	// Nothing is made in a folder that is somebody else's.
	if err := f.empty(0); err != nil {
		return nil, err
	}
	claim, err := os.OpenFile(f.path(unfinished), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s: another comparison is being played into this folder, or one was killed in it; choose another folder, or remove it", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("the folder for the result: %w", err)
	}
	_, err = fmt.Fprintf(claim, "A comparison of policies is being played into this folder by process %d.\n", os.Getpid())
	if err := errors.Join(err, claim.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(claim.Name()))
	}
	// Somebody may have made something in between.
	if err := f.empty(1); err != nil {
		return nil, errors.Join(err, os.Remove(claim.Name()))
	}
	return f, nil
}

// empty returns an error if the folder has more than so many files. One with a
// claim passes the first look: the attempt to claim it says more.
func (f *folder) empty(but int) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("the folder for the result: %w", err)
	}
	if len(entries) <= but || but == 0 && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == unfinished }) {
		return nil
	}
	return fmt.Errorf("%s is not empty; choose another folder", f.dir)
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// abandon gives the folder back as it was.
func (f *folder) abandon() error {
	err := os.Remove(f.path(unfinished))
	if f.made {
		err = errors.Join(err, os.Remove(f.dir))
	}
	return err
}

func (f *folder) run(ctx context.Context, cfg *simulate.Config, argv []string, progress simulate.Progress) (res *simulate.Result, err error) {
	cfg.Detail = true
	meta := table.NewMeta(argv, map[string]string{
		"trace_name": cfg.Source.Name, "trace_sha256": cfg.Source.SHA256,
		"time_model": cfg.Time.Time.String(), "block_size": strconv.Itoa(cfg.Engine.BlockSize),
	})
	if cfg.Knee == nil {
		if f.rows, err = table.Create[table.Request](f.path(RequestsFile), false, meta); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.rows.Abort()) }() // after Close it does nothing
		cfg.Requests = func(run *simulate.RunResult, requests []simulate.Request) error {
			return f.requests(run, requests, cfg)
		}
	}
	res, interrupted := simulate.Run(ctx, *cfg, progress)
	if res == nil {
		return nil, interrupted
	}
	if f.rows != nil {
		meta.Warnings = res.Warnings
		if err := f.rows.SetMeta(meta); err != nil {
			return nil, err
		}
		if err := f.rows.Close(); err != nil {
			return nil, err
		}
	}
	if err := f.write(res, argv); err != nil {
		// What is there would look like a whole result.
		for _, name := range []string{RequestsFile, SummaryFile, ReportFile} {
			if gone := os.Remove(f.path(name)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
		return nil, err
	}
	return res, errors.Join(interrupted, os.Remove(f.path(unfinished)))
}

func (f *folder) write(res *simulate.Result, argv []string) error {
	err := atomicfile.Write(f.path(SummaryFile), false, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(res)
	})
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path(ReportFile), false, func(w io.Writer) error { return writeReport(w, res, argv) })
}

// chunk rows are made at a time.
const chunk = 1024

// requests writes the rows of a run.
func (f *folder) requests(run *simulate.RunResult, requests []simulate.Request, cfg *simulate.Config) error {
	for len(requests) > 0 {
		n := min(chunk, len(requests))
		f.buf = f.buf[:0]
		for i := range requests[:n] {
			f.buf = append(f.buf, row(run, &requests[i], cfg))
		}
		if err := f.rows.Write(f.buf); err != nil {
			return err
		}
		requests = requests[n:]
	}
	return nil
}

func row(run *simulate.RunResult, r *simulate.Request, cfg *simulate.Config) table.Request {
	out := table.Request{
		Policy: run.Policy, SpeedUp: run.SpeedUp, Seed: run.Seed,
		Request: int64(r.Number), TraceRow: int64(r.Row), Session: int64(r.Session), Turn: table.Some(int64(r.Turn)), WarmUp: r.WarmUp,
		Router: int64(r.Router), ArrivalNS: r.Arrival, PromptTokens: int64(r.Prompt), OutputTokens: int64(r.Output), Preemptions: int64(r.Preemptions),
	}
	if cfg.SLO != (simulate.SLO{}) {
		out.Good = table.Some(r.Good)
	}
	if r.Expected >= 0 && r.Rank != fleet.NoRank {
		out.ExpectedHits = table.Some(int64(r.Expected))
	}
	if r.Rank == fleet.NoRank {
		out.State, out.Reason = "unrouted", "no rank was found"
		return out
	}
	out.WorkerID, out.DPRank = table.Some(uint64(r.Rank)), table.Some(uint32(0))
	out.DispatchNS = table.Some(r.Arrival) // a router takes no time
	if r.Refused != engine.Accepted {
		out.State, out.Reason = "refused", r.Refused.String()
		return out
	}
	out.State = "completed"
	out.AdmittedNS, out.FirstTokenNS, out.FinishNS = table.Some(r.Admitted), table.Some(r.First), table.Some(r.Last)
	out.QueueNS, out.TTFTNS, out.E2ENS = table.Some(r.Admitted-r.Arrival), table.Some(r.First-r.Arrival), table.Some(r.Last-r.Arrival)
	if r.Output > 1 {
		out.TPOTNS = table.Some(float64(r.Last-r.First) / float64(r.Output-1))
		out.MaxITLNS = table.Some(r.MaxGap)
	}
	out.HitTokens, out.HitBlocks = table.Some(int64(r.Cached)), table.Some(int64(r.Cached/cfg.Engine.BlockSize))
	out.AgainTokens, out.AgainHits = table.Some(r.Again), table.Some(r.AgainHit)
	return out
}
