package command

import (
	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/gate"
)

func (a *app) statsGates() *cobra.Command {
	study := gate.Study{Margin: gate.DefaultMargin, Sigma: 0.02}
	noise, margin := percent(study.Sigma), percent(study.Margin)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "gates",
		Short: "Simulate gates and count how often their verdict is wrong",
		Long: `Simulate experiments whose true ratio is known and gate them by every schedule, as
'kvbench gate' does: without a difference, where FAIL is wrong, and with a loss of
the margin, where PASS is wrong. The same seed gives the same table.`,
		Example: "  kvbench stats gates --gates 1000",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			study.Sigma, study.Margin = float64(noise), float64(margin)
			progress := a.progress()
			defer progress.Done()
			progress.Step("simulating gates", study.Simulated())
			table, err := study.Run(cmd.Context(), progress.Advance)
			progress.Done()
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(table)
			}
			return table.WriteText(a.stdout)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&study.Gates, "gates", 1000, "gates of each schedule, form of noise and true ratio")
	fl.IntVar(&study.Rounds, "rounds", 20, "rounds of a gate that looks once")
	fl.Var(&noise, "noise", "noise of a trial's figure")
	fl.Var(&margin, "margin", "loss that is accepted")
	fl.Uint64Var(&study.Seed, "seed", 1, "seed of the simulation")
	fl.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
