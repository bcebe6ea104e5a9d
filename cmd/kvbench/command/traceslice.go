package command

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/trace/rewrite"
)

func (a *app) traceSlice() *cobra.Command {
	var f rewriteFlags
	var s rewrite.Slice
	var from, to time.Duration
	cmd := &cobra.Command{
		Use:   "slice TRACE|NAME --out FILE",
		Short: "Cut a part out of a trace, by time, count or sessions",
		Long: `Keep a part of a trace. A session is kept or left out whole, by its first turn, as
its later turns depend on it; a row without a session is one of its own. Only
--requests may end in the middle of sessions. Of several conditions all must hold.`,
		Example: `  kvbench trace slice trace.jsonl --from 10m --to 20m --rebase --out part.jsonl
  kvbench trace slice trace.jsonl --requests 1000 --out head.jsonl
  kvbench trace slice trace.jsonl --share 0.1 --seed 7 --out tenth.jsonl.gz`,
		Args:              exactArgs("a TRACE or the NAME of an embedded one"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.From, s.To = float64(from)/1e6, float64(to)/1e6
			for _, name := range []string{"to", "requests", "sessions", "share"} {
				if fl := cmd.Flags().Lookup(name); fl.Changed && (fl.Value.String() == "0" || fl.Value.String() == "0s") {
					return errors.New("--" + name + " is 0, which keeps nothing; give more, or leave it out")
				}
			}
			return a.rewrite(cmd, &f, args[0], false, func(src rewrite.Source) (rewrite.Source, error) { return rewrite.NewSlicer(src, s) })
		},
	}
	f.register(cmd)
	fl := cmd.Flags()
	fl.DurationVar(&from, "from", 0, "keep sessions that begin so long after the first row, or later")
	fl.DurationVar(&to, "to", 0, "keep sessions that begin less than so long after the first row (default: all)")
	fl.IntVar(&s.Skip, "skip", 0, "leave out the sessions that begin in so many first rows")
	fl.IntVar(&s.Requests, "requests", 0, "end after so many requests (default: all)")
	fl.IntVar(&s.Sessions, "sessions", 0, "keep so many sessions, the first ones (default: all)")
	fl.StringArrayVar(&s.Names, "session", nil, "keep this session; may be repeated (default: all)")
	fl.Float64Var(&s.Share, "share", 0, "keep each session with this probability (default: all)")
	fl.Uint64Var(&s.Seed, "seed", 42, "seed of the draws of --share")
	fl.BoolVar(&s.Rebase, "rebase", false, "count times from the first request kept")
	return cmd
}
