package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/trace"
)

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
