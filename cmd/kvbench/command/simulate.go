package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/indexer/retention"
	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/internal/simulate"
	"github.com/kvbench/kvbench/internal/simulate/output"
	"github.com/kvbench/kvbench/mocker/sglang"
	"github.com/kvbench/kvbench/mocker/steptime"
	"github.com/kvbench/kvbench/mocker/vllm"
	"github.com/kvbench/kvbench/policies/catalogue"
)

// maxSeeds is far more than any interval needs.
const maxSeeds = 10000

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	cfg      simulate.Config
	reading  readingFlags
	policies []string
	blocks   []int
	knee     bool
	search   simulate.KneeSearch
	explain  int
	out      string
	time     string
	slo      string
	seed     uint64
	seeds    int
	maxSeqs  int
	noOracle bool
	noBounds bool
	json     bool
}

func (a *app) simulate() *cobra.Command {
	f := simulateFlags{cfg: simulate.Config{Engine: simulate.Engines{VLLM: vllm.Default(), SGLang: sglang.Default()}}, search: simulate.DefaultKnee()}
	cmd := &cobra.Command{
		Use:   "simulate TRACE|NAME",
		Short: "Compare policies in a loop with mock engines, in virtual time",
		Long: `Play a trace through policies in front of mock engines. Each policy sees what a
router would see: KV events of the ranks, and the load that it caused itself,
both after a delay. What it chooses decides what the ranks cache and how long
they are busy, and so what it sees next. All policies get the same arrivals.

Time is virtual: it says nothing about how fast a policy decides, and the same
arguments give the same result on any machine. Passes of the engines take what
the time model says, which is an imitation; its limits are part of the result.

Beside the policies there is an oracle, which knows the queues and caches of all
ranks as they are, and the hits of two caches without engines: one of the size
of all ranks together, and one without a bound.

With --out the result goes into a folder: requests.parquet with one row for each
request of each run, summary.json, and report.html with pictures. With --find-knee
the speed-up is raised until too few requests hold --slo, so that policies are
compared by the load that they carry. --explain shows one decision of each policy
with what the router knew of every rank and how it truly was.

A request that no rank can ever hold is refused and counted, or with --strict an
error.`,
		Example: `  kvbench simulate trace.jsonl --workers 8 --policy round-robin --policy least-loaded --policy kv
  kvbench simulate trace.jsonl --speed-up 1,4,8 --warm-up 0.5 --slo ttft=2s,tpot=50ms --json
  kvbench simulate trace.jsonl --policy kv --policy kv-resident --speed-up 1,2,4 --seeds 5 --out cmp/
  kvbench simulate trace.jsonl --policy kv --find-knee --slo ttft=5s,tpot=50ms --knee-share 0.9
  kvbench simulate conversation-small --policy kv --explain 700
  kvbench simulate conversation-small --time polynomial --gpu-blocks 4096`,
		Args:              exactArgs("TRACE or NAME"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.resolve(cmd.Flags(), a.policies); err != nil {
				return err
			}
			opts, err := f.reading.options()
			if err != nil {
				return err
			}
			bar := a.progress()
			opts.Spool = true // not in memory, so that long traces can be played
			f.cfg.Trace, f.cfg.Source, err = trial.LoadTrace(cmd.Context(), args[0], opts, bar)
			if err != nil {
				return err
			}
			defer f.cfg.Trace.Close()
			for _, text := range f.cfg.Source.Notes {
				a.noteTrace(text)
			}
			if f.explain >= 0 {
				x, err := simulate.Explain(cmd.Context(), f.cfg, f.explain)
				bar.Done()
				switch {
				case err != nil:
					return err
				case f.json:
					return a.printJSON(x)
				}
				return x.WriteText(a.stdout)
			}
			progress := func(done, total int) {
				if done == 0 {
					bar.Step("simulate", int64(total))
				}
				bar.Advance(int64(done))
			}
			var res *simulate.Result
			if f.out != "" {
				res, err = output.Run(cmd.Context(), f.cfg, f.out, a.argv, progress)
			} else {
				res, err = simulate.Run(cmd.Context(), f.cfg, progress)
			}
			bar.Done()
			if res == nil {
				return err
			}
			var print error
			switch {
			case f.json:
				print = a.printJSON(res)
			case !a.quiet:
				print = res.WriteText(a.stdout)
			}
			if err != nil {
				return &codeError{exitInterrupted, errors.New("interrupted; the result holds the runs that were done until then")}
			}
			return print
		},
	}
	fl := cmd.Flags()
	c, e := &f.cfg, &f.cfg.Engine
	fl.StringArrayVar(&f.policies, "policy", nil, "a policy to compare, see 'kvbench policies list'; may be repeated (default: round-robin, least-loaded and kv)")
	fl.IntVar(&c.Workers, "workers", 8, "ranks, each with an engine and a cache of its own")
	fl.IntSliceVar(&f.blocks, "gpu-blocks", []int{16384}, "blocks that a rank's cache holds; a list has one number for each rank")
	fl.IntVar(&e.BlockSize, "block-size", 64, "tokens of a block of the engine, or of a page")
	fl.StringVar(&e.Kind, "engine", simulate.VLLM, "whose engine to imitate, vllm or sglang")
	fl.IntVar(&f.maxSeqs, "max-num-seqs", e.VLLM.MaxSeqs, "requests that an engine runs at a time at most")
	fl.IntVar(&e.VLLM.MaxBatchedTokens, "max-batched-tokens", e.VLLM.MaxBatchedTokens, "vllm: tokens of a pass at most")
	fl.IntVar(&e.VLLM.MaxModelLen, "max-model-len", 0, "vllm: longest prompt with its answer; 0: as the pool allows")
	fl.BoolVar(&e.VLLM.NoChunkedPrefill, "no-chunked-prefill", false, "vllm: compute a prompt in one pass or not at all")
	fl.BoolVar(&e.VLLM.FirstChunkOnly, "first-chunk-admission", false, "vllm: admit a request when its first chunk fits, not the whole of it")
	fl.Float64Var(&e.VLLM.Watermark, "watermark", 0, "vllm: share of the blocks that an admission leaves free while others run")
	fl.IntVar(&e.SGLang.MaxPrefillTokens, "max-prefill-tokens", e.SGLang.MaxPrefillTokens, "sglang: prompt tokens of a pass at most")
	fl.IntVar(&e.SGLang.ChunkedPrefillSize, "chunked-prefill-size", e.SGLang.ChunkedPrefillSize, "sglang: prompt tokens of a pass at which a prompt is cut")
	fl.IntVar(&e.SGLang.ClipNewTokens, "clip-max-new-tokens", e.SGLang.ClipNewTokens, "sglang: tokens that an answer is expected to have at most")
	fl.Float64Var(&e.SGLang.Conservativeness, "schedule-conservativeness", e.SGLang.Conservativeness, "sglang: scales the room kept for answers that are under way")
	fl.StringVar(&f.time, "time", steptime.Presets()[0].Name, "how long passes take: a preset, or profile:FILE.csv")
	fl.DurationVar(&c.EventDelay, "event-delay", 5*time.Millisecond, "how long a KV event takes to a router")
	fl.Float64Var(&c.EventLoss, "event-loss", 0, "probability with which a KV event never reaches a router")
	fl.DurationVar(&c.LoadDelay, "load-staleness", 5*time.Millisecond, "how long news of first tokens and ends takes to a router")
	fl.IntVar(&c.Routers, "routers", 1, "routers that take turns; each knows of its own requests only")
	fl.IntVar(&c.Concurrency, "concurrency", 0, "serve so many sessions at any time instead of at the trace's times")
	fl.StringVar(&c.Approximate, "approximate", "", "routers get no KV events and take what they sent a rank to be there, until a time has passed (ttl) or its pool is full (lru)")
	fl.DurationVar(&c.TTL, "ttl", retention.DefaultTTL, "how long --approximate ttl keeps a block after the last decision that had it")
	fl.Float64SliceVar(&c.SpeedUps, "speed-up", []float64{1}, "divide the trace's times by this; several are played one by one")
	fl.BoolVar(&f.knee, "find-knee", false, "search for the speed-up at which the SLO breaks, for each policy and seed, from --speed-up on")
	fl.Float64Var(&f.search.Share, "knee-share", f.search.Share, "share of the requests that must hold the SLO for a load to be carried")
	fl.Float64Var(&f.search.Precision, "knee-precision", f.search.Precision, "how far apart the loads that are carried and that are not may be at the end, as a share")
	fl.IntVar(&f.explain, "explain", -1, "show the inputs and costs of every rank for the request in this row of the trace, from 0, with the first speed-up and seed")
	fl.BoolVar(&c.Strict, "strict", false, "a request that its rank can never hold is an error, not counted")
	fl.BoolVar(&c.DecisionTime, "decision-time", false, "measure on the wall clock how long choices take; these figures differ from time to time")
	fl.Uint64Var(&f.seed, "seed", 42, "seed of every random choice")
	fl.IntVar(&f.seeds, "seeds", 1, "play so many seeds, from --seed on")
	fl.Float64Var(&c.WarmUp, "warm-up", 0, "share of the requests that a second set of figures leaves out")
	fl.DurationVar(&c.Window, "window", time.Minute, "virtual time over which unevenness between ranks is taken")
	fl.StringVar(&f.slo, "slo", "", "limits of goodput, such as ttft=2s,tpot=50ms,e2e=30s")
	fl.BoolVar(&f.noOracle, "no-oracle", false, "leave the oracle out")
	fl.BoolVar(&f.noBounds, "no-bounds", false, "leave the caches without engines out")
	fl.StringVar(&f.out, "out", "", "write requests.parquet, summary.json and report.html into this folder, which must be empty or not exist")
	fl.IntVar(&c.Parallel, "parallel", 0, "runs at a time (default: one for each CPU); changes nothing in the result")
	f.reading.register(fl)
	f.reading.complete(cmd)
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "speedup" {
			name = "speed-up"
		}
		return pflag.NormalizedName(name)
	})
	_ = cmd.RegisterFlagCompletionFunc("policy", a.completePolicy)
	_ = cmd.RegisterFlagCompletionFunc("slo", completeSLO)
	_ = cmd.RegisterFlagCompletionFunc("approximate", fixed(simulate.ApproximateTTL, simulate.ApproximateLRU))
	_ = cmd.RegisterFlagCompletionFunc("engine", fixed(simulate.VLLM, simulate.SGLang))
	_ = cmd.RegisterFlagCompletionFunc("time", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, p := range steptime.Presets() {
			names = append(names, p.Name+"\t"+p.Model+" on "+p.GPU)
		}
		return append(names, "profile:"), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// engineFlags are the flags that one kind of engine has.
var engineFlags = []struct {
	kind  string
	flags []string
}{
	{simulate.VLLM, []string{"max-batched-tokens", "max-model-len", "no-chunked-prefill", "first-chunk-admission", "watermark"}},
	{simulate.SGLang, []string{"max-prefill-tokens", "chunked-prefill-size", "clip-max-new-tokens", "schedule-conservativeness"}},
}

// resolve turns text into what it names.
func (f *simulateFlags) resolve(fl *pflag.FlagSet, defs []catalogue.Definition) error {
	c := &f.cfg
	for _, own := range engineFlags {
		for _, name := range own.flags {
			if fl.Changed(name) && c.Engine.Kind != own.kind {
				return fmt.Errorf("--%s is %s's and has no effect on --engine %s; leave it out", name, own.kind, c.Engine.Kind)
			}
		}
	}
	if err := f.combine(fl); err != nil {
		return err
	}
	c.Engine.VLLM.MaxSeqs, c.Engine.SGLang.MaxSeqs = f.maxSeqs, f.maxSeqs
	if len(f.policies) == 0 {
		f.policies = []string{"round-robin", "least-loaded", "kv"}
	}
	c.Policies = nil
	for _, text := range f.policies {
		p, err := catalogue.Parse(text, defs)
		if err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
		c.Policies = append(c.Policies, p)
	}
	var err error
	if c.Time, err = steptime.Load(f.time); err != nil {
		return fmt.Errorf("--time: %w", err)
	}
	if c.SLO, err = simulate.ParseSLO(f.slo); err != nil {
		return fmt.Errorf("--slo: %w", err)
	}
	if f.seeds < 1 {
		return fmt.Errorf("--seeds is %d; it must be at least 1", f.seeds)
	}
	if f.seeds > maxSeeds {
		return fmt.Errorf("--seeds is %d; it must be at most %d", f.seeds, maxSeeds)
	}
	c.Seeds = nil
	for i := range f.seeds {
		c.Seeds = append(c.Seeds, f.seed+uint64(i))
	}
	c.Oracle, c.Bounds = !f.noOracle, !f.noBounds
	return nil
}

// combine refuses flags that have no effect together, and sets what they mean
// together.
func (f *simulateFlags) combine(fl *pflag.FlagSet) error {
	c := &f.cfg
	switch {
	case fl.Changed("ttl") && c.Approximate != simulate.ApproximateTTL:
		return errors.New("--ttl has no effect without --approximate ttl; add that or leave this out")
	case fl.Changed("approximate") && c.Approximate == "":
		return errors.New("--approximate is empty; it must be ttl or lru")
	case c.Approximate != "" && fl.Changed("event-delay"):
		return errors.New("--event-delay has no effect with --approximate: routers get no KV events; leave one of them out")
	case !f.knee && (fl.Changed("knee-share") || fl.Changed("knee-precision")):
		return errors.New("--knee-share and --knee-precision have no effect without --find-knee; add that or leave them out")
	case f.knee && f.slo == "":
		return errors.New("--find-knee needs --slo, such as ttft=2s,tpot=50ms")
	case fl.Changed("explain") && f.explain < 0:
		return fmt.Errorf("--explain is %d; it must be a row of the trace, from 0", f.explain)
	case f.explain >= 0 && (f.knee || fl.Changed("slo") || c.DecisionTime):
		return errors.New("--explain shows one decision and measures nothing; leave --find-knee, --slo and --decision-time out")
	case f.explain >= 0 && (len(c.SpeedUps) > 1 || f.seeds > 1):
		return errors.New("--explain shows one decision; give one speed-up and one seed")
	case f.explain >= 0 && f.out != "":
		return errors.New("--explain writes no folder; leave --out out")
	case fl.Changed("out") && f.out == "":
		return errors.New("--out is empty; it must name a folder")
	case len(f.blocks) == 0:
		return errors.New("--gpu-blocks is empty; give the blocks of a rank's cache")
	}
	c.Engine.Blocks, c.Engine.RankBlocks = f.blocks[0], nil
	if len(f.blocks) > 1 {
		c.Engine.RankBlocks = f.blocks
	}
	if f.knee {
		c.Knee = &f.search
	}
	return nil
}
