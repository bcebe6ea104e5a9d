package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/trace/rewrite"
)

func (a *app) traceMerge() *cobra.Command {
	var f rewriteFlags
	var m rewrite.Merge
	cmd := &cobra.Command{
		Use:   "merge TRACE|NAME... --out FILE",
		Short: "Play several traces at once, as one trace in the order of time",
		Long: `Merge traces into one, in the order of time. Traces of their own have no content in
common: of n traces, ids of trace k (from 0) become id x n + k, and its session s is
called s:file_k. With --same-trace the files are parts of one trace, whose ids and
sessions mean the same in all.

A row stays behind those before it in its file, even if its time is earlier. All
must have ids of the same number of tokens.`,
		Example: `  kvbench trace merge chat.jsonl agents.jsonl --rebase --out both.jsonl
  kvbench trace merge part-1.jsonl.gz part-2.jsonl.gz --same-trace --out whole.parquet`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("%s takes two traces or more and got %d; see '%s --help'", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.encoding(args...); err != nil {
				return err
			}
			progress := a.progress()
			defer progress.Done()
			m.Names = args
			var sources []rewrite.Source
			var opened []*openedTrace
			for i, name := range args {
				// The bar follows the first; all are read at the same pace of time.
				told := progress.of("read and write")
				if i > 0 {
					told = nil
				}
				in, err := a.openTrace(cmd, name, &f.reading, told)
				if err != nil {
					return err
				}
				defer in.Close()
				if size := opened; len(size) > 0 && in.BlockSize() != size[0].BlockSize() {
					return fmt.Errorf("an id stands for %d tokens in %s and for %d in %s; such traces cannot be merged", size[0].BlockSize(), args[0], in.BlockSize(), name)
				}
				opened, sources = append(opened, in), append(sources, in)
			}
			src, err := rewrite.NewMerger(m, sources...)
			if err != nil {
				return err
			}
			if err := a.writeTrace(&f, opened[0].BlockSize(), nil, src); err != nil {
				return err
			}
			progress.Done()
			for _, in := range opened {
				a.say(in)
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&m.Same, "same-trace", false, "the files are parts of one trace: ids and sessions of one name are the same in all")
	cmd.Flags().BoolVar(&m.Rebase, "rebase", false, "count the times of each trace from its first row")
	return cmd
}
