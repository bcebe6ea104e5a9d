package command

import (
	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/buildinfo"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/micro"
)

func (a *app) microSelection(m *machineFlags) *cobra.Command {
	var o micro.SelectionOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "default_selection",
		Short: "How long the default KV cost takes to choose",
		Long: `Choose a rank by the default KV cost in three ways, each once a round: by a scan of
all candidates, by the chooser that looks only at those that have something of the
prompt and at the best of the rest (sublinear, which must choose the same), and by
a scan with temperature 0.7; and by the cost of kv-resident, which adds what a
placement would evict, by its scan and by its chooser. The prompt has 2048 tokens
in blocks of 16; up to 64 candidates hold a part of it. Every other cache is full.

Metrics:
  selection             nothing changes between two selections
  selection, dispatch and end of a request
                        the request is booked, and an older one ends, each time
  allocations           in 100 selections, all warm

The cases are the numbers of candidates.`,
		Example: `  kvbench micro default_selection --case 1024,10000
  kvbench micro default_selection --rounds 21 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer m.release()
			if err := m.take(a, cmd, ""); err != nil {
				return err
			}
			progress := a.progress()
			defer progress.Done()
			o.Step, o.Advance = progress.Step, progress.Advance
			r, err := micro.DefaultSelection(cmd.Context(), &o)
			if err != nil {
				return err
			}
			progress.Done()
			return a.printMicro(r, micro.SelectionBase, asJSON, m)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&o.Cases, "case", nil, "numbers of candidates (default: all)")
	fl.IntVar(&o.Rounds, "rounds", 7, "measured rounds; one more is discarded")
	fl.Uint64Var(&o.Seed, "seed", 42, "seed of every random choice")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("case", fixed(micro.SelectionCases()...))
	return cmd
}

// printMicro prints a report, with what it was measured on.
func (a *app) printMicro(r *micro.Report, base string, asJSON bool, m *machineFlags) error {
	r.Machine, r.Build = host.Describe(), buildinfo.Read()
	if why := m.missing(); why != "" {
		r.Notes = append(r.Notes, "no lock kept other measurements of kvbench off the machine: "+why)
	}
	if asJSON {
		return a.printJSON(r)
	}
	return r.WriteText(a.stdout, base)
}
