package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/catalogue"
	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/replay"
	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/policies"
	policycatalogue "github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/results"
)

// replayFlags are the flags of replay that are not those of the preparation.
type replayFlags struct {
	index       string
	policy      string
	decisions   string
	timeline    string
	queryIssuer int
	issuerCPUs  string
	backendCPUs string
	readerCPU   int
	shared      bool
	counts      replay.ThreadCounts
	layout      string
	assign      string
	out         string
	overwrite   bool
	json        bool
	keepUp      bool
	cpuProfile  string
	queryWork   string
	cfg         replay.Config
}

// noPolicy is the --policy of a replay that only looks up.
const noPolicy = "none"

func (a *app) replay() *cobra.Command {
	var f replayFlags
	var prep prepareFlags
	cmd := &cobra.Command{
		Use:   "replay TRACE|CORPUS|NAME",
		Short: "Run one trial: replay a trace through an index",
		Long: `Run one trial. The argument is a trace (Mooncake's, AIPerf's, Bailian's and others, plain,
.gz or .zst; see --format), a corpus saved by 'kvbench corpus write', or the
name of an embedded trace.

The trace is prepared (requests go to ranks, mock engines turn them into KV
events, timelines are scaled to the window), then replayed against the index at
its own deadlines. If the index cannot keep up, the replay is overloaded and
measures the throughput of writes; if it can, it measures lookups and latency.

With --policy, each query thread is a router that also chooses a rank for every
query, on load that follows the trace's own timing; lookup and selection are
timed apart. The KV events stay those of the ranks that the trace's draw chose:
this prices a policy, 'kvbench simulate' says how well it serves.

Where the machine has a CPU for every thread, every thread is pinned to one.
Where it has not, the threads share CPUs, and the result says so.`,
		Example: `  kvbench replay conversation-small --workers 8 --duration 2s --verify
  kvbench replay trace.jsonl --workers 128 --duration 750ms --duplication-factor 20 \
      --length-factor 4 --track-resident-blocks --out run.json
  kvbench replay trace.jsonl --issuer-cpus 0 --query-issuer-cpu 1 --backend-cpus 2-7 \
      --track-resident-blocks --resident-blocks-reader-cpu 8 --out run.json
  kvbench replay trace.jsonl --workers 128 --policy kv:temperature=0.2 --out run.json
  kvbench replay trace.jsonl --policy kv --serial --decisions decisions.parquet`,
		Args:              exactArgs("TRACE, CORPUS or NAME"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runReplay(cmd, args[0], &f, &prep)
		},
	}
	fl := cmd.Flags()
	prep.register(fl)
	f.register(a, cmd)
	fl.StringVarP(&f.out, "out", "o", "", "write the result record to this file")
	fl.StringVar(&f.decisions, "decisions", "", "write what the policy chose to this Parquet file, one row for each query; with --serial the same work gives the same bytes")
	fl.StringVar(&f.timeline, "timeline", "", "write when each query and event was due, handed over and done to this Parquet file, one row for each")
	fl.BoolVar(&f.overwrite, "overwrite", false, "replace the files of --out, --decisions, --timeline and --cpu-profile if they exist")
	fl.BoolVar(&f.json, "json", false, "print the result record instead of the summary")
	fl.StringVar(&f.cpuProfile, "cpu-profile", "", "write a CPU profile of the run; it disturbs the run and the result says so")
	prep.complete(cmd)
	fl.BoolVar(&f.keepUp, "require-kept-up", false, "exit with 3 if the index did not keep up")
	return cmd
}

// register adds the flags that say what a trial is. sweep shares them.
func (f *replayFlags) register(a *app, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.index, "index", "runs", "index to measure; 'kvbench indexes' lists them")
	fl.StringVar(&f.policy, "policy", noPolicy, "policy that chooses a rank for each query: a name, a text or @file.yaml, see 'kvbench policies list'; none: queries are lookups alone")
	fl.BoolVar(&f.cfg.Serial, "serial", false, "do one operation after another in the order of the corpus, so that the same work gives the same decisions; rates and latencies are then not comparable")
	fl.IntVar(&f.counts.EventThreads, "event-workers", 0, "event threads (default: half of --backend-cpus, else up to 4)")
	fl.IntVar(&f.counts.QueryThreads, "query-threads", 0, "query threads (default: the rest of --backend-cpus, else up to 2)")
	fl.IntVar(&f.counts.EventIssuers, "event-issuers", 0, "threads that issue events (default: one for each CPU of --issuer-cpus, else 1)")
	fl.IntVar(&f.cfg.QueryLanes, "query-lanes", 0, "queues that queries are spread over by rank (default: 128, at most one a rank)")
	fl.IntVar(&f.cfg.QueueCapacity, "queue-capacity", 0, "events that fit between an issuer and an event thread, rounded up to a power of two; if it is full the issuer waits, nothing is dropped, and the result counts the waits (default: room for all)")
	fl.StringVar(&f.assign, "assign", replay.RoundRobin.String(), "which event thread owns a rank: the next one in turn (roundrobin), the one its hash names (hash), the one with the least work in the corpus (balanced)")
	fl.BoolVar(&f.cfg.HugePages, "huge-pages", false, "put the index's large tables on huge pages; an index that cannot is refused, and the result says what was obtained")
	fl.StringVar(&f.issuerCPUs, "issuer-cpus", "", "CPUs of the event issuers, one issuer each, such as 0-3,8")
	fl.IntVar(&f.queryIssuer, "query-issuer-cpu", replay.NoCPU, "CPU of the query issuer")
	fl.StringVar(&f.backendCPUs, "backend-cpus", "", "CPUs of the query threads and the event threads")
	fl.BoolVar(&f.shared, "allow-shared-cpus", false, "let threads share CPUs; the result is marked and not comparable with others")
	fl.DurationVar(&f.cfg.IssuerSpin, "issuer-spin", -1, "how long before a deadline issuers spin instead of sleeping (default 75µs, 0 where CPUs are shared)")
	fl.DurationVar(&f.cfg.Quiesce, "quiesce", replay.DefaultQuiesce, "rest between preparation and run")
	fl.IntVar(&f.cfg.WarmupLookups, "warmup-lookups", replay.DefaultWarmupLookups, "lookups by each query thread before the start")
	fl.DurationVar(&f.cfg.DrainTimeout, "drain-timeout", replay.DefaultDrainTimeout, "how long the work left after the last deadline may take")
	fl.BoolVar(&f.cfg.TrackResidentBlocks, "track-resident-blocks", false, "keep the number of resident blocks of every rank")
	fl.StringVar(&f.layout, "counter-layout", indexer.Packed.String(), "how the counters lie in memory: packed or padded")
	fl.IntVar(&f.readerCPU, "resident-blocks-reader-cpu", replay.NoCPU, "add a thread on this CPU that sums all counters")
	fl.Float64Var(&f.cfg.ReaderRate, "resident-blocks-reader-rate", 0, "add that thread and let it make so many passes per second; 0: without pause")
	fl.BoolVar(&f.cfg.Verify, "verify", false, "compare the drained index with the reference index")
	fl.IntVar(&f.cfg.VerifyQueries, "verify-queries", replay.DefaultVerifyQueries, "answers that --verify compares")
	// For whoever tests comparisons: a slowdown of known size must be found.
	fl.DurationVar(&f.cfg.Inject.EventDelay, "inject-event-delay", 0, "let each event take this much longer; the result is marked and no real figure")
	fl.StringVar(&f.queryWork, "inject-query-work", "1x", "do each lookup so many times; the result is marked and no real figure")
	for _, name := range []string{"inject-event-delay", "inject-query-work"} {
		_ = fl.MarkHidden(name)
	}
	// Without them the choice is left to kvbench, as the help says: it prints no
	// default that is zero.
	for _, name := range []string{"query-issuer-cpu", "issuer-spin", "resident-blocks-reader-cpu", "resident-blocks-reader-rate"} {
		fl.Lookup(name).DefValue = "0"
	}
	_ = cmd.RegisterFlagCompletionFunc("index", a.completeIndex)
	_ = cmd.RegisterFlagCompletionFunc("policy", a.completePolicyOrNone)
	_ = cmd.RegisterFlagCompletionFunc("assign", fixed(replay.Assignments()...))
	_ = cmd.RegisterFlagCompletionFunc("counter-layout", fixed("packed", "padded"))
}

func (a *app) runReplay(cmd *cobra.Command, source string, f *replayFlags, prep *prepareFlags) error {
	if err := f.resolve(cmd.Flags(), a); err != nil {
		return err
	}
	switch {
	case f.keepUp && f.cfg.Serial:
		return errors.New("--require-kept-up asks for a pace that --serial does not keep; leave one out")
	case cmd.Flags().Changed("decisions") && f.decisions == "":
		return errors.New("--decisions is empty; name the file to write")
	case cmd.Flags().Changed("timeline") && f.timeline == "":
		return errors.New("--timeline is empty; name the file to write")
	case f.timeline != "" && f.cfg.Serial:
		return errors.New("--timeline says when things happened, and --serial keeps no pace; leave one out")
	case f.decisions != "" && f.cfg.Policy == nil:
		return errors.New("--decisions has nothing to write without --policy; add that or leave this out")
	}
	in, err := prep.input(cmd.Flags(), source)
	if err != nil {
		return err
	}
	err = checkOutputs(f.overwrite, []string{source},
		outputFile{"--out", f.out}, outputFile{"--decisions", f.decisions}, outputFile{"--timeline", f.timeline}, outputFile{"--cpu-profile", f.cpuProfile})
	if err != nil {
		return err
	}
	if f.decisions != "" {
		f.cfg.Decisions = trial.DecisionsTo(f.decisions, f.overwrite, &f.cfg, a.commandLine())
	}
	if f.timeline != "" {
		f.cfg.Timeline = trial.TimelineTo(f.timeline, f.overwrite, &f.cfg, a.commandLine())
	}
	ctx := cmd.Context()
	progress := a.progress()
	defer progress.Done()
	began := time.Now()
	in.Note = a.noteTrace
	c, odd, err := trial.Open(ctx, in, progress)
	if err != nil {
		return err
	}
	defer c.Close()
	f.cfg.Corpus = c
	f.cfg.Log = a.log()
	f.cfg.Phase = func(p replay.Phase) {
		progress.Step(string(p), 0)
		if p == replay.PhaseRun {
			// Nothing is drawn while the trial runs.
			progress.Done()
		}
	}
	stop, err := startProfile(f.cpuProfile, f.overwrite)
	if err != nil {
		return err
	}
	rec, err := trial.Run(ctx, f.cfg, a.commandLine(), time.Since(began))
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	for _, text := range odd {
		rec.Warnings = append(rec.Warnings, "trace: "+text)
	}
	if f.cpuProfile != "" {
		rec.Warnings = append(rec.Warnings, "a CPU profile was taken; its signals disturbed every thread")
	}
	progress.Done()
	return a.report(ctx, rec, f)
}

// resolve turns the texts of flags into what they mean.
func (f *replayFlags) resolve(fl *pflag.FlagSet, a *app) error {
	var err error
	if f.cfg.Index, err = catalogue.Find(a.indexes, f.index); err != nil {
		return fmt.Errorf("--index: %w", err)
	}
	if f.policy != noPolicy {
		if f.cfg.Policy, err = policycatalogue.Parse(f.policy, a.policies); err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
	}
	counted := f.cfg.TrackResidentBlocks || f.cfg.Policy != nil && f.cfg.Policy.Inputs().Has(policies.ExperimentalResidentBlocks)
	if f.cfg.Inject.QueryWork, err = replay.ParseQueryWork(f.queryWork); err != nil {
		return fmt.Errorf("--inject-query-work: %w", err)
	}
	if f.cfg.Layout, err = indexer.ParseCounterLayout(f.layout); err != nil {
		return fmt.Errorf("--counter-layout: %w", err)
	}
	if f.cfg.Assign, err = replay.ParseAssignment(f.assign); err != nil {
		return fmt.Errorf("--assign: %w", err)
	}
	req := replay.CPURequest{QueryIssuer: f.queryIssuer, Reader: f.readerCPU, AllowShared: f.shared}
	for _, list := range []struct {
		flag, text string
		cpus       *[]int
	}{{"issuer-cpus", f.issuerCPUs, &req.Issuers}, {"backend-cpus", f.backendCPUs, &req.Backend}} {
		if !fl.Changed(list.flag) {
			continue
		}
		if *list.cpus, err = host.ParseCPUs(list.text); err != nil {
			return fmt.Errorf("--%s: %w", list.flag, err)
		}
	}
	for _, cpu := range []struct {
		flag string
		n    int
	}{{"query-issuer-cpu", f.queryIssuer}, {"resident-blocks-reader-cpu", f.readerCPU}} {
		if fl.Changed(cpu.flag) && cpu.n < 0 {
			return fmt.Errorf("--%s is %d; it must be a CPU number, 0 or more", cpu.flag, cpu.n)
		}
	}
	for _, count := range []struct {
		flag string
		n    int
	}{
		{"event-workers", f.counts.EventThreads}, {"query-threads", f.counts.QueryThreads},
		{"event-issuers", f.counts.EventIssuers}, {"query-lanes", f.cfg.QueryLanes},
	} {
		if fl.Changed(count.flag) && count.n < 1 {
			return fmt.Errorf("--%s is %d; it must be at least 1", count.flag, count.n)
		}
	}
	for _, needs := range []struct {
		flag, other string
		given       bool
	}{
		{"counter-layout", "track-resident-blocks", counted},
		{"verify-queries", "verify", f.cfg.Verify},
	} {
		if fl.Changed(needs.flag) && !needs.given {
			return fmt.Errorf("--%s has no effect without --%s; add that or leave this out", needs.flag, needs.other)
		}
	}
	if fl.Changed("verify-queries") && f.cfg.VerifyQueries < 1 {
		return fmt.Errorf("--verify-queries is %d; it must be at least 1", f.cfg.VerifyQueries)
	}
	if fl.Changed("out") && f.out == "" {
		return errors.New("--out is empty; name the file to write")
	}
	if fl.Changed("issuer-spin") && f.cfg.IssuerSpin < 0 {
		return fmt.Errorf("--issuer-spin is %v; it must not be negative", f.cfg.IssuerSpin)
	}
	if fl.Changed("resident-blocks-reader-cpu") || fl.Changed("resident-blocks-reader-rate") {
		f.counts.Reader = 1
		if !counted {
			return errors.New("a reader of resident blocks reads counters that are not kept; add --track-resident-blocks")
		}
	}
	if f.cfg.Serial {
		for _, name := range []string{"event-issuers", "issuer-cpus", "query-issuer-cpu", "issuer-spin"} {
			if fl.Changed(name) {
				return fmt.Errorf("--%s has no effect with --serial, which issues everything from one thread at no deadline; leave it out", name)
			}
		}
		if !fl.Changed("query-threads") {
			f.counts.QueryThreads = 1 // whatever the machine, so that decisions are the same
		}
	}
	if f.cfg.Index.SingleThread && !fl.Changed("event-workers") {
		f.counts.EventThreads = 1
	}
	allowed, err := host.AllowedCPUs()
	if err != nil {
		return err
	}
	if topology, err := host.Topology(); err == nil {
		allowed = host.Spread(allowed, topology)
	}
	if f.cfg.Placement, err = replay.Place(req, f.counts, allowed); err != nil {
		return err
	}
	// Before the work is prepared, which may take minutes.
	return f.cfg.Check()
}

// report writes the record where the user wants it and turns its validity into
// the exit code. A record that could not be saved is printed, so that a
// measurement is never lost.
func (a *app) report(ctx context.Context, rec *results.Record, f *replayFlags) error {
	// Saved before anything is printed: standard output may be gone.
	var saveErr error
	if f.out != "" {
		if saveErr = results.Write(f.out, rec, f.overwrite); saveErr != nil {
			saveErr = fmt.Errorf("the result was not saved and stands on standard output: %w", saveErr)
		}
	}
	if !a.quiet && !f.json {
		if err := results.WriteSummary(a.stdout, rec); err != nil {
			return errors.Join(err, saveErr)
		}
	}
	if f.json || saveErr != nil {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(rec); err != nil {
			return errors.Join(saveErr, err)
		}
	}
	switch {
	case rec.Validity.Interrupted:
		return &codeError{exitInterrupted, errors.Join(errors.New("interrupted; the result is marked as such"), saveErr)}
	case saveErr != nil:
		return &codeError{exitError, saveErr}
	case !rec.Validity.Valid:
		return &codeError{exitUnmeasurable, fmt.Errorf("the trial is not valid: %s: %s", rec.Validity.Reasons[0].Rule, rec.Validity.Reasons[0].Detail)}
	case f.keepUp && !rec.Validity.KeptUp:
		return &codeError{exitUnmeasurable, fmt.Errorf("the index did not keep up: done at %.3f x window; lengthen --duration or leave out --require-kept-up",
			float64(rec.Timing.EndNS)/float64(rec.Timing.WindowNS))}
	}
	return nil
}

func startProfile(path string, overwrite bool) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	if err := atomicfile.CheckWritable(path, overwrite); err != nil {
		return nil, fmt.Errorf("--cpu-profile: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--cpu-profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("--cpu-profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
