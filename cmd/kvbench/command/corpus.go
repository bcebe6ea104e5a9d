package command

import (
	"fmt"
	"io"
	"time"

	"github.com/guptarohit/asciigraph"
	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/internal/text"
)

func (a *app) corpus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "corpus",
		Short: "Prepare work once to replay it often, describe it, export it",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.corpusWrite(), a.corpusRescale(), a.corpusInfo(), a.corpusExport())
	return cmd
}

func (a *app) corpusWrite() *cobra.Command {
	var prep prepareFlags
	var out string
	var overwrite bool
	cmd := &cobra.Command{
		Use:   "write TRACE|NAME --out CORPUS",
		Short: "Prepare a trace and save the corpus",
		Long: `Prepare a trace as 'kvbench replay' does and save the result, which replay takes
in place of the trace. The same trace, flags and seed give the same bytes.`,
		Args:              exactArgs("a TRACE or the NAME of an embedded one"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return fmt.Errorf("--out is missing; name the file to write")
			}
			if err := checkOutputs(overwrite, args, outputFile{"--out", out}); err != nil {
				return err
			}
			saved, err := trial.IsCorpus(args[0])
			if err != nil {
				return err
			}
			if saved {
				return fmt.Errorf("%s is a corpus already; give a trace", args[0])
			}
			in, err := prep.input(cmd.Flags(), args[0])
			if err != nil {
				return err
			}
			progress := a.progress()
			defer progress.Done()
			in.Note = a.noteTrace
			c, odd, err := trial.Open(cmd.Context(), in, progress)
			if err != nil {
				return err
			}
			progress.Step("write", 0)
			if err := c.Write(out, overwrite); err != nil {
				return err
			}
			progress.Done()
			for _, text := range odd {
				a.warn(text)
			}
			if !a.quiet {
				fmt.Fprintf(a.stdout, "%s: %d operations, %d block-ops, sha256 %s\n", out, len(c.Ops), c.Manifest.Totals.BlockOps(), c.SHA256())
			}
			return nil
		},
	}
	prep.register(cmd.Flags())
	prep.complete(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace the file if it exists")
	return cmd
}

func (a *app) corpusRescale() *cobra.Command {
	var window time.Duration
	var out string
	var overwrite bool
	cmd := &cobra.Command{
		Use:   "rescale CORPUS --duration WINDOW --out CORPUS",
		Short: "Offer the work of a saved corpus in another window",
		Long: `Scale all deadlines of a saved corpus to another window and save the result. The
deadlines are those of the trace prepared for that window, give or take 1 ns, if
the window is not longer than the old one; a longer one keeps the old grain.`,
		Args: exactArgs("a CORPUS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case out == "":
				return fmt.Errorf("--out is missing; name the file to write")
			case window <= 0:
				return fmt.Errorf("--duration is %v; give the new window, such as 750ms", window)
			}
			if err := checkOutputs(overwrite, args, outputFile{"--out", out}); err != nil {
				return err
			}
			c, err := corpus.Open(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			scaled, err := c.Rescale(window)
			if err != nil {
				return err
			}
			if err := scaled.Write(out, overwrite); err != nil {
				return err
			}
			if !a.quiet {
				fmt.Fprintf(a.stdout, "%s: window %v, sha256 %s\n", out, window, scaled.SHA256())
			}
			return nil
		},
	}
	cmd.Flags().DurationVarP(&window, "duration", "d", 0, "the new window")
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace the file if it exists")
	return cmd
}

// corpusBuckets is the width of the plot of a corpus.
const corpusBuckets = 60

func (a *app) corpusInfo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info CORPUS",
		Short: "Check a saved corpus and describe it",
		Args:  exactArgs("a CORPUS"),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := corpus.Open(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			d := c.Describe(corpusBuckets)
			if asJSON {
				return a.printJSON(struct {
					SHA256 string `json:"sha256"`
					corpus.Description
				}{c.SHA256(), d})
			}
			return writeCorpusInfo(a.stdout, c.SHA256(), &d)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeCorpusInfo(w io.Writer, sha string, d *corpus.Description) error {
	m, o, t := &d.Manifest, &d.Manifest.Options, &d.Manifest.Totals
	var b text.Builder
	row := func(name, format string, args ...any) {
		b.Wrap(fmt.Sprintf("%-12s", name), fmt.Sprintf(format, args...))
	}
	row("corpus", "%s, %d bytes in memory", m.Schema, d.SizeBytes)
	row("sha256", "%s", sha)
	row("trace", "%s", m.TraceName)
	row("its sha256", "%s", m.TraceSHA256)
	row("ranks", "%d workers x %d, %d blocks of %d tokens each", o.Workers, o.DPRanks, o.GPUBlocks, o.BlockSize)
	row("transforms", "length x %d, copies x %d, speed-up %g, seed %d", o.LengthFactor, o.DuplicationFactor, o.SpeedUp, m.Seed)
	row("window", "%v, timelines scaled by %s", time.Duration(m.WindowNS), o.Rescale)
	row("time model", "%s", o.TimeModel)
	switch o.Approximate {
	case "":
		row("events of", "the engines")
	case corpus.ApproximateTTL:
		row("events of", "approximate retention: %s, %v", o.Approximate, time.Duration(o.TTLNS))
	default:
		row("events of", "approximate retention: %s", o.Approximate)
	}
	row("queries", "%d with %d blocks, %.0f/s", t.Requests, t.RequestBlocks, d.QueriesPerSec)
	row("events", "%d, %.0f/s: %d stored (%d blocks), %d removed (%d blocks)", t.Events(), d.EventsPerSec, t.StoredEvents, t.StoredBlocks, t.RemovedEvents, t.RemovedBlocks)
	row("block-ops", "%d, %.0f/s", d.BlockOps, d.BlockOpsPerSec)
	row("a rank", "%d to %d queries, median %d; %d to %d events, median %d", d.QueriesPerRank.Min, d.QueriesPerRank.Max, d.QueriesPerRank.Median,
		d.EventsPerRank.Min, d.EventsPerRank.Max, d.EventsPerRank.Median)
	row("at once", "%d deadlines, at most %d operations on one", d.Deadlines, d.MostAtOnce)
	ns := func(n int64) time.Duration { return time.Duration(n) }
	row("requests", "in the window's time: first token after %v to %v, median %v; end after %v to %v, median %v",
		ns(d.ToFirstToken.Min), ns(d.ToFirstToken.Max), ns(d.ToFirstToken.Median), ns(d.ToFinish.Min), ns(d.ToFinish.Max), ns(d.ToFinish.Median))
	row("", "at most %d on their way at once, %d end after the window", d.MostInFlight, d.FinishLater)
	row("engines", "%d blocks hit, %d of the stored ones generated", t.HitBlocks, t.OutputBlocks)
	row("", "%d requests refused, peaks: %d blocks active, %d requests waiting", t.RefusedRequests, t.PeakActive, t.PeakQueue)
	if a := &t.Approximate; o.Approximate != "" {
		row("retention", "%d blocks predicted, %d too many and %d too few", a.PredictedBlocks, a.OverPredicted, a.UnderPredicted)
		row("", "%d blocks expired, %d evicted, peak %d a rank", a.ExpiredBlocks, a.EvictedBlocks, a.PeakBlocks)
		row("", "over capacity after %d changes, by up to %d blocks", a.OverCapacity, a.PeakOver)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	ops := make([]float64, len(d.Buckets))
	for i, b := range d.Buckets {
		ops[i] = float64(b.Queries + b.Events)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", asciigraph.Plot(ops, asciigraph.Height(8), asciigraph.Caption(fmt.Sprintf("operations in each 1/%d of the window", len(ops)))))
	return err
}

func (a *app) corpusExport() *cobra.Command {
	var out string
	var overwrite bool
	cmd := &cobra.Command{
		Use:   "export CORPUS --out FILE.parquet",
		Short: "Export a corpus as Parquet, for other programs",
		Args:  exactArgs("a CORPUS"),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return fmt.Errorf("--out is missing; name the file to write")
			}
			if err := checkOutputs(overwrite, args, outputFile{"--out", out}); err != nil {
				return err
			}
			c, err := corpus.Open(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			return atomicfile.Write(out, overwrite, func(w io.Writer) error { return corpus.ExportParquet(w, c) })
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace the file if it exists")
	return cmd
}
