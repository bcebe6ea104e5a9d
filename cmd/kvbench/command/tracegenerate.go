package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/trace/analysis"
)

func (a *app) traceGenerate() *cobra.Command {
	var out, like string
	var overwrite, asJSON bool
	var reading readingFlags
	readFlags := pflag.NewFlagSet("reading", pflag.ContinueOnError)
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

--preset sets all parameters; the other flags change single ones.

--like fits the parameters to a trace instead, and says what it found and how like
that trace the generated one is: on standard output if the trace goes to a file,
else on standard error. The same trace and flags give the same bytes.`,
		Example: `  kvbench trace generate --preset agentic --requests 5000 --out agents.jsonl
  kvbench trace generate --like trace.jsonl --requests 100000 --seed 7 --out more.jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fl := cmd.Flags()
			p, ok := presets[preset]
			if !ok {
				return fmt.Errorf("--preset is %q; there are agentic and conversation", preset)
			}
			toFile := out != "" && out != "-"
			switch {
			case like != "" && fl.Changed("preset"):
				return errors.New("--like and --preset both set all parameters; leave one out")
			case asJSON && (like == "" || !toFile):
				return errors.New("--json is about what --like found, while the trace goes to the file of --out; give both")
			}
			var useless error
			readFlags.VisitAll(func(f *pflag.Flag) {
				if like == "" && fl.Changed(f.Name) {
					useless = fmt.Errorf("--%s says how the trace of --like is read; give that or leave this out", f.Name)
				}
			})
			if useless != nil {
				return useless
			}
			if toFile {
				if err := checkOutputs(overwrite, []string{like}, outputFile{"--out", out}); err != nil {
					return err
				}
			}
			var original *trace.Trace
			var fitted analysis.Fitted
			if like != "" {
				how, err := reading.options()
				if err != nil {
					return err
				}
				progress := a.progress()
				defer progress.Done()
				var src trace.Source
				if original, src, err = trial.LoadTrace(cmd.Context(), like, how, progress); err != nil {
					return err
				}
				for _, text := range append(src.Notes, src.Warnings...) {
					a.noteTrace(text)
				}
				if fitted, err = analysis.Fit(original); err != nil {
					return err
				}
				p = fitted.Params
				progress.Done()
			}
			if err := overlay(fl, &p, &given); err != nil {
				return err
			}
			t, err := trace.Generate(p)
			if err != nil {
				return err
			}
			write := func(w io.Writer) error {
				tw := trace.NewWriter(w)
				if err := tw.SetGenerator(p.Record()); err != nil {
					return err
				}
				if err := tw.WriteTrace(t); err != nil {
					return err
				}
				return tw.Flush()
			}
			if !toFile {
				err = write(a.stdout)
			} else {
				err = atomicfile.Write(out, overwrite, write)
			}
			if err != nil || like == "" {
				return err
			}
			c, err := fitted.Compare(original, t)
			fitted.Params = p
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.printJSON(struct {
					Fitted     analysis.Fitted     `json:"fitted"`
					Comparison analysis.Comparison `json:"comparison"`
				}{fitted, c})
			case a.quiet:
				return nil
			}
			var to io.Writer = a.stderr
			if toFile {
				to = a.stdout
			}
			if err := fitted.WriteText(to); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(to); err != nil {
				return err
			}
			return c.WriteText(to, like, "generated")
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&out, "out", "o", "", "file to write (default: standard output)")
	fl.BoolVar(&overwrite, "overwrite", false, "replace the file of --out if it exists")
	fl.StringVar(&like, "like", "", "fit the parameters to this trace, a file or the name of an embedded one")
	fl.BoolVar(&asJSON, "json", false, "with --like and --out: print JSON of what was fitted and how well")
	fl.StringVar(&preset, "preset", preset, "parameters to start from: agentic or conversation")
	for _, f := range given.Flags() {
		usage := f.Usage + " (default: of the preset, or fitted)"
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
	reading.register(readFlags)
	fl.AddFlagSet(readFlags)
	reading.complete(cmd)
	_ = cmd.RegisterFlagCompletionFunc("like", completeTrace)
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
