package command

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/trace"
)

// readingFlags say how a trace is read. All commands that read one share them.
type readingFlags struct {
	opts     trace.ReaderOptions
	format   string
	prefixes string
}

func (f *readingFlags) register(fl *pflag.FlagSet) {
	o := &f.opts
	fl.StringVar(&f.format, "format", "auto", "form of the trace: mooncake, aiperf, bailian, agentic, applied-compute, azure, burstgpt or parquet; auto finds it by content")
	fl.IntVar(&o.BlockSize, "trace-block-size", 0, "tokens that a hash id of the trace stands for (default: 16 for bailian, what the file says for parquet and agentic with a header, else 512)")
	o.MaxLineBytes = trace.DefaultMaxLineBytes
	fl.Var((*size)(&o.MaxLineBytes), "max-line-bytes", "longest line of a trace that is accepted, such as 64MiB")
	fl.StringVar(&o.TimeUnit, "time-unit", "", "unit of the trace's times, ms or s (default: that of the format)")
	fl.BoolVar(&o.Lenient, "lenient", false, "accept whole numbers of a trace that are written as text, with a fraction of 0 or an exponent, if they are exact")
	fl.IntVar(&o.MissingOutput, "missing-output", 0, "output tokens of a trace's rows that give none (default: they are refused)")
	fl.BoolVar(&o.KeepIDs, "keep-ids", false, "keep the ids of bailian, which hash single blocks, instead of hashing each with all before it")
	fl.StringVar(&f.prefixes, "shared-prefix", "", "make up prefixes where a trace has lengths alone: groups,tokens[,skew[,seed]] (default: no prompt shares one)")
	fl.Float64Var(&o.SessionsPerSecond, "arrivals-per-second", 0, "make up arrivals where a trace has none: so many sessions a second, evenly spaced (default: it is refused)")
	fl.Float64Var(&o.BytesPerToken, "bytes-per-token", 0, "take the text of a trace as one token for every so many bytes (default: text is refused)")
	fl.Float64Var(&o.TokenMS, "token-ms", trace.DefaultTokenMS, "ms that an output token is taken to last where a request of an agentic trace waits for what replay cannot wait for")
}

// complete adds the completion of values.
func (f *readingFlags) complete(cmd *cobra.Command) {
	names := []string{"auto"}
	for _, format := range trace.Formats() {
		names = append(names, string(format))
	}
	_ = cmd.RegisterFlagCompletionFunc("format", fixed(names...))
	_ = cmd.RegisterFlagCompletionFunc("time-unit", fixed("ms", "s"))
}

func (f *readingFlags) options() (trace.ReaderOptions, error) {
	o := f.opts
	var err error
	if o.Format, err = trace.ParseFormat(f.format); err != nil {
		return o, fmt.Errorf("--format: %w", err)
	}
	if f.prefixes != "" {
		if o.Prefixes, err = trace.ParsePrefixModel(f.prefixes); err != nil {
			return o, err
		}
	}
	return o, nil
}
