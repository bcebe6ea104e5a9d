package command

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/indexer/catalogue"
	"github.com/kvbench/kvbench/internal/micro"
)

func (a *app) microResidentRead(m *machineFlags) *cobra.Command {
	var o micro.ResidentReadOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "resident_blocks_read",
		Short: "What a scorer pays to read resident counts",
		Long: `Select by a scorer that adds each candidate's count, and by the same scorer without
it, each once a round; by one that adds it from the copy of the counts that all
components of a selection share; and by the first again while a thread on another
CPU rewrites every counter without pause, for which it takes two CPUs. The threads
are pinned.

The cases are numbers of candidates, with counters that lie side by side or, if
the name says padded, on a cache line of their own each. 'reading counts, a
candidate' is the difference within a round.`,
		Example: `  kvbench micro resident_blocks_read --case 1024,1024-padded
  kvbench micro resident_blocks_read --rounds 21 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer m.release()
			if err := m.take(a, cmd, ""); err != nil {
				return err
			}
			progress := a.progress()
			defer progress.Done()
			o.Step, o.Advance = progress.Step, progress.Advance
			r, err := micro.ResidentRead(cmd.Context(), &o)
			if err != nil {
				return err
			}
			progress.Done()
			return a.printMicro(r, micro.ResidentReadBase, asJSON, m)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&o.Cases, "case", nil, "numbers of candidates (default: all)")
	fl.IntVar(&o.Rounds, "rounds", 7, "measured rounds; one more is discarded")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("case", fixed(micro.ResidentReadCases()...))
	return cmd
}

func (a *app) microResidentWrite(m *machineFlags) *cobra.Command {
	var o micro.ResidentWriteOptions
	var index, alone string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "resident_blocks_write",
		Short: "What event threads pay to keep resident counts",
		Long: `Let 128 ranks on 8 event threads store prompts and then clear them, with tracking
of resident blocks and without it. Each measurement has a process of its own, and
the one that comes first alternates from round to round.

The cases say how many blocks a stored event has. The events are queued before
the event threads are let go, so that issuing them is not in the time; 8 event
threads share the CPUs that there are. 'tracking, a stored event' is the
difference within a round.`,
		Example: `  kvbench micro resident_blocks_write --case 1-block
  kvbench micro resident_blocks_write --index crtc --rounds 21 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := catalogue.Find(a.indexes, index)
			if err != nil {
				return err
			}
			if o.Index = f; alone != "" {
				return a.microResidentWriteAlone(cmd, &o, alone)
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			o.Child = micro.ThisProgram(program, a.argv[0], func(c, variant string) []string {
				return []string{"micro", "resident_blocks_write", "--index", f.Name, "--case", c, "--passes", strconv.Itoa(o.Passes), "--alone", variant}
			})
			defer m.release()
			if err := m.take(a, cmd, ""); err != nil {
				return err
			}
			progress := a.progress()
			defer progress.Done()
			o.Step, o.Advance = progress.Step, progress.Advance
			r, err := micro.ResidentWrite(cmd.Context(), &o)
			if err != nil {
				return err
			}
			progress.Done()
			return a.printMicro(r, micro.ResidentWriteBase, asJSON, m)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&index, "index", "runs", "index that keeps the blocks")
	fl.StringSliceVar(&o.Cases, "case", nil, "blocks of a stored event (default: all)")
	fl.IntVar(&o.Rounds, "rounds", 7, "measured rounds; one more is discarded")
	fl.IntVar(&o.Passes, "passes", 20, "measured passes of each process; one more is discarded")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	fl.StringVar(&alone, "alone", "", "be the process that measures this variant, and print its times as JSON")
	_ = fl.MarkHidden("alone")
	_ = cmd.RegisterFlagCompletionFunc("index", a.completeIndex)
	_ = cmd.RegisterFlagCompletionFunc("case", fixed(micro.ResidentWriteCases()...))
	return cmd
}

func (a *app) microResidentWriteAlone(cmd *cobra.Command, o *micro.ResidentWriteOptions, variant string) error {
	if err := micro.CheckResidentWriteOptions(o); err != nil {
		return err
	}
	if len(o.Cases) != 1 {
		return fmt.Errorf("--alone measures one --case, and there are %d", len(o.Cases))
	}
	t, err := micro.ResidentWriteAlone(cmd.Context(), o.Index, o.Cases[0], variant, o.Passes)
	if err != nil {
		return err
	}
	return a.printJSON(t)
}
