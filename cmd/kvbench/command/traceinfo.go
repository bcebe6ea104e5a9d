package command

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/report/tracepage"
	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/trace/analysis"
	"github.com/kvbench/kvbench/traces"
)

func (a *app) traceInfo() *cobra.Command {
	var reading readingFlags
	var opts analysis.Options
	var asJSON, overwrite bool
	var html string
	cmd := &cobra.Command{
		Use:   "info TRACE|NAME",
		Short: "Describe a trace: arrivals, lengths, reuse, cache hits",
		Long: `Describe a trace in one pass: arrivals and how they bunch, lengths, sessions,
what is reused and after how many other blocks, what an LRU cache of any size
hits, and the tree of prefixes.

--cache-blocks gives the hits of LRU caches of so many blocks of the trace. All
requests pass through one cache, in the order of the file and as if they took no
time. A request hits the leading blocks that the cache holds, then uses all of
its blocks from the last to the first, so that prompts lose their tails first.

The trace is read as a stream. Memory grows with the number of distinct blocks
(some 30 bytes each), of distinct arrival times in a row, of named sessions and
of distinct lengths, but not with that of requests.`,
		Example: `  kvbench trace info conversation-small
  kvbench trace info trace.jsonl --cache-blocks 1000,10000 --json
  kvbench trace info trace.jsonl --html trace.html`,
		Args:              exactArgs("a TRACE or the NAME of an embedded one"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutputs(overwrite, args, outputFile{"--html", html}); err != nil {
				return err
			}
			c, src, err := a.analyse(cmd, args[0], &reading, opts)
			if err != nil {
				return err
			}
			info := c.Info()
			if html != "" {
				if err := atomicfile.Write(html, overwrite, tracepage.New(&info, src).Write); err != nil {
					return err
				}
			}
			if asJSON {
				return a.printJSON(struct {
					sourceJSON
					analysis.Info
				}{newSourceJSON(src), info})
			}
			return info.WriteText(a.stdout, src)
		},
	}
	reading.register(cmd.Flags())
	reading.complete(cmd)
	fl := cmd.Flags()
	fl.IntSliceVar(&opts.CacheBlocks, "cache-blocks", nil, "count the hits of LRU caches of these sizes, in blocks of the trace, as in 1000,10000")
	fl.IntVar(&opts.WarmUpRequests, "warm-up-requests", 0, "first requests whose hits in caches of a size are not counted")
	fl.IntVar(&opts.Requests, "requests", 0, "describe the first requests only (default: all)")
	fl.StringVar(&html, "html", "", "write a page with pictures to this file as well, which needs nothing else")
	fl.BoolVar(&overwrite, "overwrite", false, "replace the file of --html if it exists")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// sourceJSON is what JSON output says of a trace's file.
type sourceJSON struct {
	Name      string          `json:"name"`
	SHA256    string          `json:"sha256"`
	Bytes     int64           `json:"bytes"`
	Format    trace.Format    `json:"format"`
	Notes     []string        `json:"notes"`
	Warnings  []string        `json:"warnings"`
	Generator json.RawMessage `json:"generator,omitempty"`
}

func newSourceJSON(src trace.Source) sourceJSON {
	return sourceJSON{src.Name, src.SHA256, src.Bytes, src.Format, src.Notes, orEmpty(src.Warnings), src.Generator}
}

// analyse collects what is to be said of a trace.
func (a *app) analyse(cmd *cobra.Command, source string, reading *readingFlags, opts analysis.Options) (*analysis.Collector, trace.Source, error) {
	how, err := reading.options()
	if err != nil {
		return nil, trace.Source{}, err
	}
	f, err := traces.OpenFile(source)
	if err != nil {
		return nil, trace.Source{}, err
	}
	defer f.Close()
	progress := a.progress()
	defer progress.Done()
	return analysis.Read(cmd.Context(), f, source, how, opts, progress.of("read trace"))
}
