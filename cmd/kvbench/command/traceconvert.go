package command

import (
	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/trace/rewrite"
)

func (a *app) traceConvert() *cobra.Command {
	var f rewriteFlags
	cmd := &cobra.Command{
		Use:   "convert TRACE|NAME --out FILE",
		Short: "Write a trace in another form, or as a Parquet table",
		Long: `Read a trace of any form and write it as Mooncake's JSON lines, as AIPerf's, or as
a Parquet table with documented columns. It streams: memory does not grow with the
rows, only with the named sessions.

What the new form does not hold is counted in warnings. Two rows that contradict
each other end it, as no reader would take the result; 'kvbench trace validate'
lists them all.`,
		Example: `  kvbench trace convert azure.csv.gz --out azure.parquet
  kvbench trace convert qwen_traceA.jsonl --out traceA.jsonl.zst
  kvbench trace convert trace.jsonl --as aiperf --out aiperf.jsonl`,
		Args:              exactArgs("a TRACE or the NAME of an embedded one"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.rewrite(cmd, &f, args[0], true, func(src rewrite.Source) (rewrite.Source, error) { return rewrite.Check(src), nil })
		},
	}
	f.register(cmd)
	return cmd
}
