package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/traces"
)

// traceProblem is a trace.ParseError as JSON.
type traceProblem struct {
	Line    int    `json:"line,omitempty"`
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem"`
}

func (a *app) traceValidate() *cobra.Command {
	var reading readingFlags
	var limit int
	var strict, asJSON bool
	cmd := &cobra.Command{
		Use:   "validate TRACE|NAME",
		Short: "Find every problem of a trace, not just the first",
		Long: `Read a whole trace and list what is wrong with it: file, line, field, what to do.
The list goes to standard output. All problems are counted, --limit of them are
shown. What is odd but accepted is a warning, and a problem with --strict.

The exit code is 0 if there is no problem, else 2. Memory does not grow with the
rows, only with the named sessions.`,
		Args:              exactArgs("a TRACE or the NAME of an embedded one"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := reading.options()
			if err != nil {
				return err
			}
			if limit < 0 {
				return fmt.Errorf("--limit is %d; give the problems to show, 0 for all", limit)
			}
			f, err := traces.OpenFile(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			progress := a.progress()
			defer progress.Done()
			out := struct {
				Valid    bool           `json:"valid"`
				Format   trace.Format   `json:"format"`
				SHA256   string         `json:"sha256"`
				Requests int            `json:"requests"`
				Sessions int            `json:"sessions"`
				Count    int            `json:"problems_found"`
				Problems []traceProblem `json:"problems"`
				Notes    []string       `json:"notes"`
				Warnings []string       `json:"warnings"`
			}{Problems: []traceProblem{}}
			v, err := trace.Validate(cmd.Context(), f, args[0], opts, progress.of("read trace"), func(p *trace.ParseError) {
				if limit > 0 && len(out.Problems) >= limit {
					return
				}
				out.Problems = append(out.Problems, traceProblem{p.Line, p.Field, p.Err.Error()})
				if !asJSON {
					fmt.Fprintln(a.stdout, p)
				}
			})
			progress.Done()
			if err != nil {
				return err
			}
			src := &v.Source
			bad := v.Problems > 0 || strict && len(src.Warnings) > 0
			if asJSON {
				out.Valid, out.Format, out.SHA256, out.Requests, out.Sessions = !bad, src.Format, src.SHA256, v.Requests, v.Sessions
				out.Count, out.Notes, out.Warnings = v.Problems, orEmpty(src.Notes), orEmpty(src.Warnings)
				if err := a.printJSON(out); err != nil {
					return err
				}
			} else {
				if hidden := v.Problems - len(out.Problems); hidden > 0 {
					fmt.Fprintf(a.stdout, "... and %d more; --limit 0 shows all\n", hidden)
				}
				for _, text := range src.Notes {
					a.noteTrace(text)
				}
				for _, text := range src.Warnings {
					fmt.Fprintf(a.stdout, "%s: warning: %s\n", args[0], text)
				}
				if !bad && !a.quiet {
					fmt.Fprintf(a.stdout, "%s: valid: %s in %s\n", args[0], count(v.Requests, "request"), count(v.Sessions, "session"))
				}
			}
			switch {
			case v.Problems > 0:
				return fmt.Errorf("%s: %s in %s", args[0], count(v.Problems, "problem"), count(v.Requests, "good request"))
			case bad:
				return fmt.Errorf("%s: %s, which --strict takes as problems", args[0], count(len(src.Warnings), "warning"))
			}
			return nil
		},
	}
	reading.register(cmd.Flags())
	reading.complete(cmd)
	cmd.Flags().IntVar(&limit, "limit", 20, "problems to show; 0: all")
	cmd.Flags().BoolVar(&strict, "strict", false, "take warnings as problems")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// count says how many there are of what has a regular plural.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
