package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/archive"
	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/results/table"
)

func (a *app) resultsExport() *cobra.Command {
	var (
		e      archive.Export
		format string
		out    string
	)
	cmd := &cobra.Command{
		Use:   "export PATH...",
		Short: "Write trials or tables as Parquet, CSV, JSON or benchmarks",
		Long: `Write the trials of records, experiments and sweeps as one table, a row for each,
invalid ones and those of warm-up too; or the rows of Parquet tables of one schema
in another format. docs/formats.md describes the columns. Folders are searched.

The format benchfmt has the valid trials of measured rounds, for benchstat.`,
		Args: someArgs("PATH: a file or folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if named, ok := archive.FormatOf(out); ok && !cmd.Flags().Changed("format") {
				format = string(named)
			}
			if e.Format, err = archive.ParseFormat(format); err != nil {
				return fmt.Errorf("--format: %w", err)
			}
			if e.Format == archive.Parquet && out == "" {
				return errors.New("a Parquet table is no text: name its file by --out")
			}
			if err := checkOutputs(e.Overwrite, args, outputFile{"--out", out}); err != nil {
				return err
			}
			found := archive.Find(args)
			if err := a.problems(found); err != nil {
				return err
			}
			e.Path, e.Meta = out, table.NewMeta(a.argv, nil)
			n, err := a.export(&e, found.WithRows(), out)
			if err == nil && out != "" && !a.quiet {
				a.tell("kvbench: ", fmt.Sprintf("wrote %s with %s", out, count(int(n), "row")))
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&out, "out", "o", "", "file to write (default: standard output)")
	fl.BoolVar(&e.Overwrite, "overwrite", false, "replace the file of --out if it exists")
	fl.StringVar(&format, "format", string(archive.Parquet), "how to write: "+strings.Join(archive.Formats(), ", ")+"; left out, the name of --out says it")
	fl.StringSliceVar(&e.Metrics, "metric", nil, "metrics of the format benchfmt (default: throughput, latencies, memory)")
	_ = cmd.RegisterFlagCompletionFunc("format", fixed(archive.Formats()...))
	_ = cmd.RegisterFlagCompletionFunc("metric", fixed(rounds.Metrics()...))
	return cmd
}

// export writes to a file or to standard output.
func (a *app) export(e *archive.Export, sources []*archive.Source, out string) (n int64, err error) {
	write := func(w io.Writer) error {
		n, err = e.Export(w, sources)
		return err
	}
	switch {
	case e.Format == archive.Parquet:
		err = write(nil)
	case out != "":
		err = atomicfile.Write(out, e.Overwrite, write)
	default:
		w := bufio.NewWriter(a.stdout)
		err = write(w)
		if e := w.Flush(); err == nil {
			err = e
		}
	}
	return n, err
}
