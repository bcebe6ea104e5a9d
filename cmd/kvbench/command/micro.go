package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/indexer/catalogue"
	"github.com/kvbench/kvbench/internal/micro"
	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/trace"
)

func (a *app) micro() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "micro",
		Short: "Measure one component alone",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var m machineFlags
	cmd.AddCommand(a.microIndex(&m), a.microSelection(&m), a.microResidentRead(&m), a.microResidentWrite(&m))
	for _, c := range cmd.Commands() {
		m.register(c)
	}
	return cmd
}

func (a *app) microIndex(m *machineFlags) *cobra.Command {
	var o micro.IndexOptions
	var names []string
	var base string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "index [TRACE|NAME]",
		Short: "Measure indexes against each other in one process",
		Long: `Apply the events of a trace to indexes and ask them its queries, in one process,
each index once a round, and compare them within the rounds. All indexes must
give the same answers. The default trace is the embedded conversation-small.

Cases:
  x1, x20          1 or 20 copies of the trace on 128 ranks that are nothing but
                   LRU caches: one Stored and one Removed event for a request,
                   four blocks for an id
  random-victims   x20 with the removals of each event in random order
  1024-ranks, 10000-ranks
                   20 copies on more ranks
  engine-x1, engine-x20
                   the same with the events of mock engines, which send a prompt
                   as it is scheduled and an answer block by block
  one-block-128, one-block-1024
                   events of one block on so many ranks
  held-by-128, held-by-1024, held-by-10000
                   lookups of a prompt that all ranks hold

With the work of a trace, each from empty ranks:
  apply            events alone; then memory, allocations and a collection
  mixed            events and queries in order
  lookup           the same with each lookup timed, and the answers compared
  beside           a writer beside a reader (not with many ranks)
  threads          two writers (not with many ranks)

The full set on a large trace takes many minutes; --case, --pass and --index
narrow it.`,
		Example: `  kvbench micro index --index flat,reference --case x1
  kvbench micro index trace.jsonl --index runs,radix --base radix --rounds 7 --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s takes at most one argument, a TRACE or NAME, and got %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range names {
				f, err := catalogue.Find(a.indexes, name)
				if err != nil {
					return err
				}
				o.Indexes = append(o.Indexes, f)
			}
			if len(names) == 0 {
				for _, f := range a.indexes {
					if !f.Null && f.Name != "reference" {
						o.Indexes = append(o.Indexes, f)
					}
				}
			}
			if err := micro.CheckIndexOptions(&o); err != nil {
				return err
			}
			if base == "" {
				base = o.Indexes[len(o.Indexes)-1].Name
			} else if f, err := catalogue.Find(o.Indexes, base); err != nil {
				return fmt.Errorf("--base: %w", err)
			} else {
				base = f.Name
			}
			source := "conversation-small"
			if len(args) == 1 {
				source = args[0]
			}
			defer m.release()
			if err := m.take(a, cmd, ""); err != nil {
				return err
			}
			progress := a.progress()
			defer progress.Done()
			t, src, err := trial.LoadTrace(cmd.Context(), source, trace.ReaderOptions{}, progress)
			if err != nil {
				return err
			}
			o.Trace, o.TraceName, o.Step, o.Advance = t, src.Name, progress.Step, progress.Advance
			r, err := micro.Index(cmd.Context(), &o)
			if err != nil {
				return err
			}
			progress.Done()
			return a.printMicro(r, base, asJSON, m)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&names, "index", nil, "indexes to measure (default: all but reference and noop)")
	fl.StringSliceVar(&o.Cases, "case", nil, "cases to run (default: all)")
	fl.StringSliceVar(&o.Passes, "pass", nil, "what to do with the work of a trace: apply, mixed, lookup, beside, threads (default: all)")
	fl.StringVar(&base, "base", "", "index that the ratios are to (default: the last)")
	fl.IntVar(&o.Rounds, "rounds", 7, "measured rounds; one more is discarded")
	fl.IntVar(&o.BlockSize, "block-size", 128, "tokens of a block of the mock engines")
	fl.IntVar(&o.GPUBlocks, "gpu-blocks", 16384, "blocks that a rank's cache holds")
	fl.Uint64Var(&o.Seed, "seed", 42, "seed of every random choice")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("index", a.completeIndex)
	_ = cmd.RegisterFlagCompletionFunc("base", a.completeIndex)
	_ = cmd.RegisterFlagCompletionFunc("case", fixed(micro.IndexCases()...))
	_ = cmd.RegisterFlagCompletionFunc("pass", fixed(micro.IndexPasses()...))
	return cmd
}
