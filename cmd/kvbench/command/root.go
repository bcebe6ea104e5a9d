// Package command is the command line of kvbench, one file for each command:
// flags in, one call, text out. It holds no logic of its own.
package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/catalogue"
	"github.com/kvbench/kvbench/internal/settings"
	"github.com/kvbench/kvbench/internal/text"
	policycatalogue "github.com/kvbench/kvbench/policies/catalogue"
)

// Exit codes. They are part of the interface: scripts depend on them.
const (
	exitOK           = 0
	exitRegression   = 1   // the gate confirmed a regression
	exitError        = 2   // usage, bad input, nothing measured
	exitUnmeasurable = 3   // it ran, but what it measured is not valid
	exitInconclusive = 4   // the gate could not decide
	exitInterrupted  = 130 // SIGINT or SIGTERM
)

// Extensions are what a caller adds to the commands.
type Extensions struct {
	Indexes  []indexer.Factory
	Policies []policycatalogue.Definition
}

// exitError ends the process with a code. A nil err has been reported already.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// errInterrupted is the cause of a context that a signal cancelled.
var errInterrupted = errors.New("interrupted")

// app is what all commands share.
type app struct {
	argv     []string
	indexes  []indexer.Factory
	policies []policycatalogue.Definition
	quiet    bool
	verbose  bool

	config   string             // file of settings, "" for none
	settings *settings.Settings // of the file and the environment
	applied  []settings.Setting // what they set of the flags of the command that runs

	stdout *standardOutput
	stderr *os.File
}

// Main runs the command line and returns the exit code.
func Main(argv []string, ext Extensions) int {
	a := &app{
		argv:     argv,
		indexes:  merge(catalogue.All(), ext.Indexes),
		policies: policycatalogue.Merge(policycatalogue.Standard(), ext.Policies),
		stdout:   &standardOutput{w: os.Stdout},
		stderr:   os.Stderr,
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		cancel(errInterrupted)
		a.tell("kvbench: ", "ending; once more to end at once")
		// A second signal ends the process at once.
		signal.Stop(signals)
	}()
	root := a.root()
	root.SetArgs(argv[min(1, len(argv)):])
	return a.exitCode(ctx, root.ExecuteContext(ctx))
}

// exitCode reports an error and returns its exit code. What should have gone to
// standard output and did not is one, whatever else came of the command.
func (a *app) exitCode(ctx context.Context, err error) int {
	code := a.reported(ctx, err)
	if lost := a.stdout.err; lost != nil && code != exitInterrupted {
		if !errors.Is(err, lost) {
			a.complain(lost)
		}
		return exitError
	}
	return code
}

func (a *app) reported(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	// A context below this one may have kept the fact and lost the cause.
	if context.Cause(ctx) == errInterrupted && (errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled)) {
		a.tell("kvbench: ", "interrupted; no result was written")
		return exitInterrupted
	}
	var coded *codeError
	if errors.As(err, &coded) {
		if coded.err != nil {
			a.complain(coded.err)
		}
		return coded.code
	}
	a.complain(err)
	return exitError
}

// merge returns the built-in indexes with the added ones in the place of those
// with the same name.
func merge(builtin, added []indexer.Factory) []indexer.Factory {
	out := slices.Clone(builtin)
	for _, f := range added {
		if i := slices.IndexFunc(out, func(g indexer.Factory) bool { return g.Name == f.Name }); i >= 0 {
			out[i] = f
		} else {
			out = append(out, f)
		}
	}
	return out
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kvbench",
		Short: "Replay and benchmark KV-cache-aware LLM routing",
		Long: `kvbench replays traces of LLM requests through the index that a KV-cache-aware
router keeps, on pinned threads and at the trace's own rhythm, and reports what
it did, how fast, and whether the measurement can be trusted.

Exit codes: 0 done; 1 the gate failed; 2 error; 3 it ran but is not valid; 4 the
gate is inconclusive; 130 interrupted.`,
		Version:       buildText(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetOut(forHelp{a.stdout})
	cmd.SetErr(a.stderr)
	cmd.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no progress and no summary, only errors and what was asked for")
	cmd.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "log the steps of long work on standard error instead of a progress bar")
	cmd.PersistentFlags().StringVar(&a.config, settings.FileFlag, "", "YAML file with values for flags that are not given here; see 'kvbench config --help'")
	_ = cmd.MarkPersistentFlagFilename(settings.FileFlag, "yaml", "yml")
	cmd.PersistentPreRunE = a.configure
	// Flags are explained in lines that a terminal of 80 columns shows whole.
	cmd.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", "(.LocalFlags.FlagUsagesWrapped 80)",
		".InheritedFlags.FlagUsages", "(.InheritedFlags.FlagUsagesWrapped 80)",
	).Replace(cmd.UsageTemplate()))
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see '%s --help'", suggestFlag(c, err), c.CommandPath())
	})
	cmd.AddCommand(a.replay(), a.host(), a.sweep(), a.simulate(), a.rounds(), a.gate(), a.trace(), a.corpus(), a.results(), a.reportCommand(), a.stats(), a.listIndexes(), a.listPolicies(), a.micro(), a.soak(), a.configCommand(), a.man(), a.version())
	completeTexts(cmd)
	decimals(cmd)
	fitHelp(cmd)
	return cmd
}

// fitHelp breaks the paragraphs of the help of a command and those below it so that
// they fit into 80 columns. What is indented stays as it is.
func fitHelp(cmd *cobra.Command) {
	var b text.Builder
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			b.Wrap("", strings.Join(paragraph, " "))
			paragraph = paragraph[:0]
		}
	}
	for line := range strings.SplitSeq(cmd.Long, "\n") {
		if line == "" || line[0] == ' ' {
			end()
			b.Line(line)
		} else {
			paragraph = append(paragraph, line)
		}
	}
	end()
	if cmd.Long != "" {
		cmd.Long = strings.TrimRight(b.String(), "\n")
	}
	for _, c := range cmd.Commands() {
		fitHelp(c)
	}
}

func (a *app) log() *slog.Logger {
	if !a.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.stderr, nil))
}
