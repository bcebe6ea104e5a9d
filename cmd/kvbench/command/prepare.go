package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/indexer/retention"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/traces"
)

// prepareFlags say how a trace becomes a corpus. replay and corpus write share
// them.
type prepareFlags struct {
	options corpus.Options
	reading readingFlags
	ttl     time.Duration
	seed    uint64
	window  time.Duration
}

// preparation are the names of the flags, which a saved corpus has settled.
var preparation = []string{
	"workers", "dp-ranks", "trace-block-size", "block-size", "gpu-blocks", "length-factor",
	"duplication-factor", "speed-up", "rescale", "seed", "duration", "approximate", "ttl",
	"format", "time-unit", "lenient", "missing-output", "keep-ids", "shared-prefix", "arrivals-per-second",
	"bytes-per-token", "token-ms",
}

func (p *prepareFlags) register(fl *pflag.FlagSet) {
	o := &p.options
	fl.IntVar(&o.Workers, "workers", 16, "inference workers")
	fl.IntVar(&o.DPRanks, "dp-ranks", 1, "data-parallel ranks of each worker; each is a cache of its own")
	fl.IntVar(&o.BlockSize, "block-size", 128, "tokens of a block of the engine")
	fl.IntVar(&o.GPUBlocks, "gpu-blocks", 16384, "blocks that a rank's cache holds")
	fl.IntVar(&o.LengthFactor, "length-factor", 1, "make every prompt this many times as long")
	fl.IntVar(&o.DuplicationFactor, "duplication-factor", 1, "play this many disjoint copies of the trace at the same times")
	fl.Float64Var(&o.SpeedUp, "speed-up", 1, "divide the trace's times by this before the mock engines see them")
	p.reading.register(fl)
	fl.StringVar(&o.Rescale, "rescale", "rank", "scale the timelines to the window: each rank's on its own (rank), or all by one factor (global)")
	fl.StringVar(&o.Approximate, "approximate", "", "in the place of the engines' KV events, store every routing decision for its rank, until a time has passed (ttl) or --gpu-blocks are full (lru)")
	fl.DurationVar(&p.ttl, "ttl", retention.DefaultTTL, "how long --approximate ttl keeps a block after the last decision that had it, in the trace's time")
	fl.Uint64Var(&p.seed, "seed", 42, "seed of every random choice")
	fl.DurationVarP(&p.window, "duration", "d", 10*time.Second, "the window that the work is offered in")
}

// complete adds the completion of values.
func (p *prepareFlags) complete(cmd *cobra.Command) {
	p.reading.complete(cmd)
	_ = cmd.RegisterFlagCompletionFunc("rescale", fixed("rank", "global"))
	_ = cmd.RegisterFlagCompletionFunc("approximate", fixed(corpus.ApproximateTTL, corpus.ApproximateLRU))
}

// input checks what the flags say together and names the work.
func (p *prepareFlags) input(fl *pflag.FlagSet, source string) (trial.Input, error) {
	in := trial.Input{Source: source, Options: p.options, Seed: p.seed, Window: p.window}
	reading, err := p.reading.options()
	if err != nil {
		return in, err
	}
	in.Reading, in.Options.TraceBlockSize = reading, reading.BlockSize
	saved, err := trial.IsCorpus(source)
	if err != nil {
		return in, err
	}
	if saved {
		for _, name := range preparation {
			if fl.Changed(name) {
				return in, fmt.Errorf("--%s has no effect on a saved corpus, which was prepared already; leave it out, or give the trace", name)
			}
		}
	}
	switch {
	case in.Options.Approximate == corpus.ApproximateTTL:
		in.Options.TTLNS = int64(p.ttl)
	case fl.Changed("approximate") && in.Options.Approximate == "":
		return in, errors.New("--approximate is empty; it must be ttl or lru")
	case fl.Changed("ttl"):
		return in, errors.New("--ttl has no effect without --approximate ttl; add that or leave this out")
	}
	return in, nil
}

func completeTrace(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return traces.Names(), cobra.ShellCompDirectiveDefault
}

func fixed(values ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

func exactArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes one argument, %s, and got %d; see '%s --help'", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}
