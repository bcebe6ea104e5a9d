package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/nearest"
	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/traces"
)

func (a *app) trace() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Describe, generate and list traces",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.traceInfo(), a.traceGenerate(), a.traceList())
	return cmd
}

func (a *app) traceInfo() *cobra.Command {
	var reading readingFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "info TRACE|NAME",
		Short:             "Describe a trace: requests, blocks, lengths, reuse, arrivals",
		Args:              exactArgs("a TRACE or the NAME of an embedded one"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := reading.options()
			if err != nil {
				return err
			}
			progress := a.progress()
			defer progress.Done()
			t, src, err := trial.LoadTrace(cmd.Context(), args[0], opts, progress)
			if err != nil {
				return err
			}
			info := trace.Describe(t)
			progress.Done()
			if asJSON {
				return a.printJSON(struct {
					Name      string          `json:"name"`
					SHA256    string          `json:"sha256"`
					Bytes     int64           `json:"bytes"`
					Format    trace.Format    `json:"format"`
					Notes     []string        `json:"notes"`
					Warnings  []string        `json:"warnings"`
					Generator json.RawMessage `json:"generator,omitempty"`
					trace.Info
				}{src.Name, src.SHA256, src.Bytes, src.Format, src.Notes, orEmpty(src.Warnings), src.Generator, info})
			}
			return writeTraceInfo(a.stdout, src, info)
		},
	}
	reading.register(cmd.Flags())
	reading.complete(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeTraceInfo(w io.Writer, src trace.Source, info trace.Info) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("trace", "%s, %d bytes", src.Name, src.Bytes)
	row("sha256", "%s", src.SHA256)
	how, units, _ := strings.Cut(strings.TrimPrefix(src.Notes[0], "read as "), ": ")
	row("format", "%s", how)
	row("", "%s", units)
	row("requests", "%d in %d sessions", info.Requests, info.Sessions)
	span := fmt.Sprintf("%.3g days", info.SpanMS/86_400_000)
	if info.SpanMS < 30*86_400_000 {
		span = time.Duration(info.SpanMS * 1e6).Round(time.Millisecond).String()
	}
	row("span", "%s, %d distinct arrival times", span, info.DistinctArrivalTimes)
	row("blocks", "%d references to %d distinct blocks of %d tokens", info.BlockReferences, info.DistinctBlocks, info.BlockSize)
	row("repeated", "%d of the distinct blocks; at most %d blocks in a request", info.RepeatedBlocks, info.MaxRequestBlocks)
	for _, l := range []struct {
		name string
		trace.LengthInfo
	}{{"input", info.Input}, {"output", info.Output}} {
		row(l.name, "tokens: mean %.2f, p50 %d, p90 %d, p99 %d, max %d", l.MeanTokens, l.P50Tokens, l.P90Tokens, l.P99Tokens, l.MaxTokens)
	}
	row("reuse", "%.3f%% of block references and %.3f%% of input tokens hit", 100*info.PrefixHitBlockShare, 100*info.PrefixHitTokenShare)
	row("", "an unbounded prefix cache")
	if src.Generator != nil {
		row("generated", "yes; --json shows the parameters")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, text := range src.Notes[1:] {
		if _, err := fmt.Fprintf(w, "note: %s\n", text); err != nil {
			return err
		}
	}
	for _, text := range src.Warnings {
		if _, err := fmt.Fprintf(w, "warning: %s\n", text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", info.Plot(80))
	return err
}

func (a *app) traceGenerate() *cobra.Command {
	var out string
	var overwrite bool
	presets := map[string]trace.GenerateParams{"conversation": trace.ConversationParams(), "agentic": trace.AgenticParams()}
	preset := "conversation"
	var given trace.GenerateParams
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Generate a Mooncake-like trace from a seed",
		Long: `Generate a trace of sessions that share system prompts and extend their prefix
from turn to turn, with tool calls that branch off, bursty arrivals and
heavy-tailed lengths. The same parameters give the same bytes; they are recorded
in the first row, in the field _generator.

--preset sets all parameters; the other flags change single ones.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, ok := presets[preset]
			if !ok {
				return fmt.Errorf("--preset is %q; there are agentic and conversation", preset)
			}
			if err := overlay(cmd.Flags(), &p, &given); err != nil {
				return err
			}
			t, err := trace.Generate(p)
			if err != nil {
				return err
			}
			write := func(w io.Writer) error {
				tw := trace.NewWriter(w)
				return errors.Join(tw.SetGenerator(p.Record()), tw.WriteTrace(t), tw.Flush())
			}
			if out == "" || out == "-" {
				return write(a.stdout)
			}
			return atomicfile.Write(out, overwrite, write)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&out, "out", "o", "", "file to write (default: standard output)")
	fl.BoolVar(&overwrite, "overwrite", false, "replace the file of --out if it exists")
	fl.StringVar(&preset, "preset", preset, "parameters to start from: agentic or conversation")
	for _, f := range given.Flags() {
		usage := f.Usage + " (default: of the preset)"
		switch v := f.Value.(type) {
		case *uint64:
			fl.Uint64Var(v, f.Name, 0, usage)
		case *int:
			fl.IntVar(v, f.Name, 0, usage)
		case *float64:
			fl.Float64Var(v, f.Name, 0, usage)
		case pflag.Value:
			fl.Var(v, f.Name, usage)
			fl.Lookup(f.Name).DefValue = ""
		}
	}
	_ = cmd.RegisterFlagCompletionFunc("preset", fixed("agentic", "conversation"))
	return cmd
}

// overlay copies the parameters that flags have set.
func overlay(fl *pflag.FlagSet, p, given *trace.GenerateParams) error {
	to, from := p.Flags(), given.Flags()
	for i, f := range from {
		if !fl.Changed(f.Name) {
			continue
		}
		switch v := f.Value.(type) {
		case *uint64:
			*to[i].Value.(*uint64) = *v
		case *int:
			*to[i].Value.(*int) = *v
		case *float64:
			*to[i].Value.(*float64) = *v
		case *trace.Length:
			*to[i].Value.(*trace.Length) = *v
		default:
			return fmt.Errorf("--%s: no way to set a %T", f.Name, v)
		}
	}
	return nil
}

func (a *app) traceList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the embedded traces",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			tw := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, name := range traces.Names() {
				e, _ := traces.Lookup(name)
				fmt.Fprintf(tw, "%s\t%s\n", e.Name, e.Description)
			}
			return tw.Flush()
		},
	}
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		if name, ok := nearest.Name(args[0], names); ok {
			return fmt.Errorf("%s has no command %q; did you mean %s?", cmd.CommandPath(), args[0], name)
		}
		return fmt.Errorf("%s has no command %q; see '%s --help'", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return fmt.Errorf("%s takes no arguments and got %s; see '%s --help'", cmd.CommandPath(), strings.Join(args, " "), cmd.CommandPath())
}
