package command

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/report"
	"github.com/kvbench/kvbench/internal/rounds"
)

func (a *app) reportCommand() *cobra.Command {
	var o report.Options
	var out, figures, gateFile string
	var ratios, metrics []string
	var overwrite bool
	cmd := &cobra.Command{
		Use:   "report DIR|RECORD... -o FILE",
		Short: "Write an experiment, a sweep or records as one HTML file",
		Long: `Write what was measured as one HTML file that needs nothing else: no network, no
scripts, no fonts. It follows the light or dark theme of its reader, reads on a
phone, and prints. Every picture has its data in a table beside it; --figures
also writes each as SVG, PNG and CSV.

DIR is the folder of 'kvbench rounds' or of 'kvbench sweep --out', or one with
records (*.json); RECORD is what 'kvbench replay --out' wrote. The verdict comes
first: that of --gate, else what earlier looks of 'kvbench gate' noted in the
experiment, else which intervals exclude 1. --timeline adds queue depths, rates,
latencies and resident blocks over time, which records do not hold. A report is no look at an experiment:
it gives no verdict of its own. What a record does not hold is said.`,
		Example: `  kvbench report exp/ -o report.html
  kvbench gate exp/ --json-file gate.json; kvbench report exp/ --gate gate.json -o report.html
  kvbench report sweep/ -o sweep.html --figures figures/
  kvbench replay trace.jsonl --out run.json --timeline run.parquet; kvbench report run.json --timeline run.parquet -o run.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%s takes the folder of an experiment or of a sweep, or records; see '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("name the file to write: -o report.html; - is standard output")
			}
			if out != "-" {
				if err := checkOutputs(overwrite, slices.Concat(args, []string{gateFile}, o.Timelines), outputFile{"--out", out}); err != nil {
					return err
				}
			}
			var err error
			if o.Analyse.Ratios, err = parseRatios(ratios); err != nil {
				return err
			}
			o.Analyse.Metrics = metrics
			if gateFile != "" {
				if o.Gate, err = report.ReadGate(gateFile); err != nil {
					return fmt.Errorf("--gate: %w", err)
				}
			}
			p, err := report.Build(args, o)
			if err != nil {
				return err
			}
			if figures != "" {
				if err := report.WriteFigures(figures, p, overwrite); err != nil {
					return err
				}
			}
			if out == "-" {
				return p.Write(a.stdout)
			}
			if err := atomicfile.Write(out, overwrite, func(w io.Writer) error { return p.Write(w) }); err != nil {
				return err
			}
			if !a.quiet {
				a.tell("kvbench: ", fmt.Sprintf("wrote %s with %s", out, count(len(p.Figures()), "picture")))
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&out, "out", "o", "", "HTML file to write; - is standard output")
	fl.StringVar(&o.Title, "title", "", "heading of the report")
	fl.StringVar(&gateFile, "gate", "", "verdict that 'kvbench gate --json-file' saved, to show first with its margins")
	fl.StringArrayVar(&o.Timelines, "timeline", nil, "operations of a trial that 'kvbench replay --timeline' wrote, to show over time; repeatable")
	fl.StringVar(&figures, "figures", "", "also write every picture into this folder, as SVG, PNG and CSV")
	fl.StringArrayVar(&ratios, "ratio", nil, "ratio to show as A/B; repeatable (default: those of the experiment)")
	fl.StringSliceVar(&metrics, "metric", nil, "metrics to compare (default: those of the experiment, else by load)")
	fl.BoolVar(&overwrite, "overwrite", false, "replace files that exist")
	fl.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "output" {
			name = "out"
		}
		return pflag.NormalizedName(name)
	})
	_ = cmd.MarkFlagFilename("out", "html")
	_ = cmd.MarkFlagFilename("gate", "json")
	_ = cmd.MarkFlagDirname("figures")
	_ = cmd.MarkFlagFilename("timeline", "parquet")
	_ = cmd.RegisterFlagCompletionFunc("metric", fixed(rounds.Metrics()...))
	return cmd
}
