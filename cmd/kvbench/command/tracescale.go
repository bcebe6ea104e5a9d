package command

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/trace/rewrite"
)

func (a *app) traceScale() *cobra.Command {
	var f rewriteFlags
	var s rewrite.Scale
	var startSpan, readySpan time.Duration
	cmd := &cobra.Command{
		Use:   "scale TRACE|NAME --out FILE",
		Short: "Make a trace denser, longer, or larger: times, lengths, copies",
		Long: `Scale the times, the lengths or the size of a trace. --speed-up, --length-factor and
--duplication-factor do what those of 'kvbench replay' do; here the copies of a row
follow one another, so that the order of time stays.

--start-span and --ready-span set how long the trace is: the former moves the starts
of sessions alone, the latter scales starts and waits alike. These and
--duplication-factor read the trace twice.`,
		Example: `  kvbench trace scale trace.jsonl --speed-up 4 --out fast.jsonl
  kvbench trace scale trace.jsonl --start-span 10m --length-factor 2 --output-factor 0.5 --out long.parquet`,
		Args:              exactArgs("a TRACE or the NAME of an embedded one"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := 0
			for _, name := range []string{"speed-up", "start-span", "ready-span", "length-factor", "output-factor", "duplication-factor"} {
				if fl := cmd.Flags().Lookup(name); fl.Changed {
					changed++
					if v := fl.Value.String(); v == "0" || v == "0s" {
						return fmt.Errorf("--%s is 0; it must be above 0", name)
					}
				}
			}
			if changed == 0 {
				return fmt.Errorf("nothing is to be scaled; see '%s --help' for what can be", cmd.CommandPath())
			}
			if !cmd.Flags().Changed("speed-up") {
				s.SpeedUp = 0
			}
			s.StartSpanMS, s.ReadySpanMS = float64(startSpan)/1e6, float64(readySpan)/1e6
			var extent rewrite.Extent
			if s.NeedsExtent() {
				if info, err := os.Stat(args[0]); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
					return fmt.Errorf("%s is no regular file, and what is to be scaled takes reading the trace twice; write it to a file first", args[0])
				}
				progress := a.progress()
				defer progress.Done()
				in, err := a.openTrace(cmd, args[0], &f.reading, progress.of("measure"))
				if err != nil {
					return err
				}
				defer in.Close()
				if extent, err = rewrite.Measure(rewrite.Named(args[0], in)); err != nil {
					return err
				}
				progress.Done()
			}
			return a.rewrite(cmd, &f, args[0], false, func(src rewrite.Source) (rewrite.Source, error) {
				return rewrite.NewScaler(src, s, extent)
			})
		},
	}
	f.register(cmd)
	fl := cmd.Flags()
	fl.Float64Var(&s.SpeedUp, "speed-up", 1, "divide all times and waits by this")
	fl.DurationVar(&startSpan, "start-span", 0, "move the starts of sessions so that the last one is so long after the first; waits stay (default: as they are)")
	fl.DurationVar(&readySpan, "ready-span", 0, "scale times and waits so that all turns are ready after so long if requests take no time (default: as they are)")
	fl.IntVar(&s.LengthFactor, "length-factor", 1, "make every prompt this many times as long, with all that it shares")
	fl.Float64Var(&s.OutputFactor, "output-factor", 1, "multiply output lengths by this, rounded to whole tokens")
	fl.IntVar(&s.Copies, "duplication-factor", 1, "play this many disjoint copies at the same times")
	return cmd
}
