package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/gate"
	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/internal/terminal"
)

// gateFlags are the flags of gate.
type gateFlags struct {
	margin       percent
	failBeyond   percent
	confidence   percent
	criteria     string
	ratios       []string
	metrics      []string
	sequential   bool
	anytime      bool
	appended     int
	allowUnfit   bool
	inconclusive string
	format       string
	selfTest     bool
	baseline     string
	testRounds   int
	files        map[string]*string // output files by format
	overwrite    bool
	machine      machineFlags

	confidenceGiven bool
}

// gateFiles are the files that gate can write beside what it prints.
var gateFiles = []struct{ flag, what string }{
	{"junit", "JUnit XML"},
	{"markdown", "Markdown"},
	{"json-file", "JSON"},
	{"csv", "CSV"},
	{"benchfmt", "Go benchmark text of all trials, for benchstat"},
	{"github-benchmark", "JSON for github-action-benchmark, tool customBiggerIsBetter"},
	{"bencher", "Bencher metric format"},
}

func (a *app) gate() *cobra.Command {
	f := gateFlags{margin: gate.DefaultMargin, confidence: gate.DefaultLevel, files: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "gate DIR",
		Short: "Turn an experiment of rounds into a verdict with an exit code",
		Long: `Judge an experiment of 'kvbench rounds'. With [L, U] the interval of the median
same-round ratio of a metric that is better when higher, the verdict is PASS if
L > 1 - margin, FAIL if not and U < 1, else INCONCLUSIVE; UNMEASURABLE if the
machine, the A/A control or the invalid trials forbid a verdict.

A gate looks once, at the planned rounds. Looking again after more rounds, until
the verdict pleases, makes it worthless: so every look is noted in the experiment.
--sequential looks at 10, 20, 30 and 40 rounds with intervals that allow for it
and runs what is missing; --anytime may look at any time, with wider intervals;
--append N runs N more rounds first.

The verdict is also added to the file that GITHUB_STEP_SUMMARY names, if it is set,
and in a job of GitHub Actions annotations are printed.

Exit codes: 0 PASS; 1 FAIL; 2 error; 3 UNMEASURABLE; 4 INCONCLUSIVE (see
--inconclusive); 130 interrupted.`,
		Example: `  kvbench gate exp/ --margin 2%
  kvbench gate exp/ --criteria gate.yaml --junit gate.xml --markdown gate.md
  kvbench gate exp/ --sequential
  kvbench gate --self-test --margin 10%`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.selfTest && len(args) == 0 {
				return nil
			}
			if f.selfTest {
				return errors.New("--self-test makes its own experiment; leave the folder out")
			}
			return exactArgs("the folder of an experiment")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.selfTest {
				if err := f.onlySelfTest(cmd); err != nil {
					return err
				}
				return a.gateSelfTest(cmd, &f)
			}
			if cmd.Flags().Changed("append") && f.appended < 1 {
				return fmt.Errorf("--append is %d; give the number of rounds to add, or --anytime to look without more", f.appended)
			}
			if cmd.Flags().Changed("self-test-rounds") {
				return errors.New("--self-test-rounds is for --self-test")
			}
			f.confidenceGiven = cmd.Flags().Changed("confidence")
			return a.runGate(cmd, args[0], &f)
		},
	}
	f.machine.register(cmd)
	fl := cmd.Flags()
	fl.Var(&f.margin, "margin", "loss that is accepted")
	fl.Var(&f.failBeyond, "fail-beyond", "fail only on a loss that is proven to exceed this")
	fl.Var(&f.confidence, "confidence", "level of the interval")
	fl.StringVar(&f.criteria, "criteria", "", "YAML file with metrics, directions and margins; in place of --metric, --margin and --fail-beyond")
	fl.StringArrayVar(&f.ratios, "ratio", nil, "ratio to gate as A/B; repeatable (default: those of the experiment)")
	fl.StringSliceVar(&f.metrics, "metric", nil, "metrics to gate (default: those of the experiment, else by load)")
	fl.BoolVar(&f.sequential, "sequential", false, "look at 10, 20, 30 and 40 rounds until there is a verdict, running what is missing")
	fl.BoolVar(&f.anytime, "anytime", false, "look now, however often, with the anytime-valid interval")
	fl.IntVar(&f.appended, "append", 0, "run so many more rounds first; implies --anytime")
	fl.BoolVar(&f.allowUnfit, "allow-unfit", false, "give a verdict even where 'kvbench host' calls the machine unfit; best with an A/A control")
	fl.StringVar(&f.inconclusive, "inconclusive", "exit", "what INCONCLUSIVE exits with: exit (4), fail (1), warn (0, with a warning) or pass (0)")
	fl.StringVar(&f.format, "format", "text", "how to print: text, markdown, json or csv")
	fl.BoolVar(&f.selfTest, "self-test", false, "show on this machine that the base passes against itself and that a canary slowed by three margins fails")
	fl.IntVar(&f.testRounds, "self-test-rounds", 20, "rounds of each half of the self-test")
	fl.StringVar(&f.baseline, "baseline", "", "compare each variant with the same one of this stored experiment of the same machine, corpus and flags: unpaired, so worse than rounds that run both")
	fl.BoolVar(&f.overwrite, "overwrite", false, "replace output files that exist")
	for _, file := range gateFiles {
		f.files[file.flag] = fl.String(file.flag, "", "also write "+file.what+" to this file")
	}
	_ = cmd.RegisterFlagCompletionFunc("format", fixed("text", "markdown", "json", "csv"))
	_ = cmd.RegisterFlagCompletionFunc("inconclusive", fixed("exit", "fail", "warn", "pass"))
	_ = cmd.RegisterFlagCompletionFunc("metric", fixed(rounds.Metrics()...))
	exclusive(cmd, "sequential", "anytime", "append")
	exclusive(cmd, "baseline", "sequential", "anytime", "append", "self-test")
	exclusive(cmd, "criteria", "metric", "margin", "fail-beyond")
	return cmd
}

// options turns the flags into what the gate needs.
func (f *gateFlags) options() (gate.Options, error) {
	o := gate.Options{Schedule: gate.Fixed, Append: f.appended, AllowUnfit: f.allowUnfit}
	switch {
	case f.sequential:
		o.Schedule = gate.Sequential
	case f.anytime || f.appended > 0:
		o.Schedule = gate.Anytime
	}
	switch f.inconclusive {
	case "exit", "fail", "warn", "pass":
	default:
		return o, fmt.Errorf("--inconclusive is %q; it is exit, fail, warn or pass", f.inconclusive)
	}
	switch f.format {
	case "text", "markdown", "json", "csv":
	default:
		return o, fmt.Errorf("--format is %q; it is text, markdown, json or csv", f.format)
	}
	if f.margin >= 1 || f.failBeyond >= 1 || f.confidence <= 0.5 || f.confidence >= 1 {
		return o, errors.New("--margin and --fail-beyond lie below 100%, --confidence between 50% and 100%")
	}
	var files []outputFile
	for _, file := range gateFiles {
		files = append(files, outputFile{"--" + file.flag, *f.files[file.flag]})
	}
	var inputs []string
	if f.criteria != "" {
		inputs = append(inputs, f.criteria)
	}
	err := checkOutputs(f.overwrite, inputs, files...)
	if err != nil {
		return o, err
	}
	if o.Ratios, err = parseRatios(f.ratios); err != nil {
		return o, err
	}
	if f.criteria != "" {
		file, err := os.Open(f.criteria)
		if err != nil {
			return o, fmt.Errorf("--criteria: %w", err)
		}
		defer file.Close()
		if o.Config, err = gate.ReadConfig(file, f.criteria); err != nil {
			return o, err
		}
		if f.confidenceGiven && o.Config.Confidence != 0 {
			return o, fmt.Errorf("--confidence and the confidence in %s: give one of them", f.criteria)
		}
		for _, m := range o.Config.Metrics {
			if m.Ratio != "" && len(o.Ratios) > 0 {
				return o, fmt.Errorf("--ratio and the ratio in %s: give one of them", m.Where)
			}
		}
	}
	for _, m := range f.metrics {
		metric, err := rounds.ResolveMetric(m)
		if err != nil {
			return o, fmt.Errorf("--metric: %w", err)
		}
		o.Config.Metrics = append(o.Config.Metrics, gate.MetricConfig{Metric: metric.Path, Margin: float64(f.margin), FailBeyond: float64(f.failBeyond)})
	}
	if o.Config.Confidence == 0 {
		o.Config.Confidence = float64(f.confidence)
	}
	o.Margin, o.FailBeyond = float64(f.margin), float64(f.failBeyond)
	return o, nil
}

// onlySelfTest refuses flags that a self-test would leave aside.
func (f *gateFlags) onlySelfTest(cmd *cobra.Command) error {
	var unused []string
	cmd.Flags().Visit(func(fl *pflag.Flag) {
		switch fl.Name {
		case "self-test", "self-test-rounds", "margin", "format", "machine-lock", "machine-lock-file":
		default:
			if cmd.InheritedFlags().Lookup(fl.Name) != nil {
				return
			}
			unused = append(unused, "--"+fl.Name)
		}
	})
	switch {
	case len(unused) > 0:
		return fmt.Errorf("--self-test makes an experiment of its own and takes no %s", strings.Join(unused, ", "))
	case f.format != "text" && f.format != "json":
		return fmt.Errorf("--format is %q; that of --self-test is text or json", f.format)
	}
	return nil
}

func (a *app) runGate(cmd *cobra.Command, dir string, f *gateFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	exp, err := rounds.Open(dir)
	if err != nil {
		return err
	}
	if f.baseline != "" {
		if o.Baseline, err = rounds.Open(f.baseline); err != nil {
			return fmt.Errorf("--baseline: %w", err)
		}
	}
	defer f.machine.release()
	if o.Schedule == gate.Sequential || o.Append > 0 { // it may run rounds
		if err := f.machine.take(a, cmd, dir); err != nil {
			return err
		}
	}
	tell := terminal.Status(a.stderr, a.quiet || a.verbose)
	o.Run = rounds.RunOptions{Sole: true, Unlocked: f.machine.missing(), Log: a.log(), Progress: func(s rounds.Status) { tell(a.roundsProgress(exp, s)) }}
	r, err := gate.Experiment(cmd.Context(), exp, o)
	if err != nil {
		return roundsError(exp, dir, err)
	}
	return a.tellVerdict(exp, r, f)
}

// tellVerdict writes the verdict wherever it was asked for and turns it into an
// exit code. What was asked for on the command line comes first, so that a
// failing file does not hide the verdict.
func (a *app) tellVerdict(exp *rounds.Experiment, r *gate.Report, f *gateFlags) error {
	var err error
	switch {
	case a.quiet && f.format == "text":
	case f.format == "json":
		err = r.WriteJSON(a.stdout)
	case f.format == "csv":
		err = r.WriteCSV(a.stdout)
	case f.format == "markdown":
		err = r.WriteMarkdown(a.stdout)
	default:
		err = r.WriteText(a.stdout)
	}
	for _, file := range gateFiles {
		if path := *f.files[file.flag]; path != "" {
			err = errors.Join(err, atomicfile.Write(path, f.overwrite, gateWriter(exp, r, file.flag)))
		}
	}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		// A runner finds them on either stream, and a program that reads the verdict
		// from standard output finds nothing else there.
		switch {
		case f.format != "text":
			err = errors.Join(err, r.WriteAnnotations(a.stderr))
		case a.stdout.err == nil:
			err = errors.Join(err, r.WriteAnnotations(a.stdout))
		}
	}
	if path := os.Getenv("GITHUB_STEP_SUMMARY"); path != "" {
		err = errors.Join(err, appendTo(path, r.WriteMarkdown))
	}
	if err != nil {
		return fmt.Errorf("the verdict is %s, and could not be written: %w", r.Verdict, err)
	}
	switch r.Verdict {
	case gate.Pass:
		return nil
	case gate.Fail:
		return &codeError{exitRegression, nil}
	case gate.Unmeasurable:
		return &codeError{exitUnmeasurable, nil}
	}
	switch f.inconclusive {
	case "fail":
		return &codeError{exitRegression, nil}
	case "warn":
		a.warn("the gate is inconclusive; --inconclusive=warn lets it go")
		return nil
	case "pass":
		return nil
	}
	return &codeError{exitInconclusive, nil}
}

func gateWriter(exp *rounds.Experiment, r *gate.Report, format string) func(io.Writer) error {
	switch format {
	case "junit":
		return r.WriteJUnit
	case "markdown":
		return r.WriteMarkdown
	case "json-file":
		return r.WriteJSON
	case "csv":
		return r.WriteCSV
	case "github-benchmark":
		return r.WriteActionBenchmark
	case "bencher":
		return r.WriteBencher
	}
	return func(w io.Writer) error {
		an, err := exp.Analyse(rounds.AnalyseOptions{})
		if err != nil {
			return err
		}
		return exp.WriteBenchfmt(w, an)
	}
}

// appendTo adds to a file that belongs to another program.
func appendTo(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
	}
	return errors.Join(write(f), f.Close())
}

// selfTestQuiet is the longest wait before a trial of the self-test: it shows what
// the machine can do as it is, in minutes.
const selfTestQuiet = 5 * time.Second

// gateSelfTest runs the two halves of the self-test in a folder of its own.
func (a *app) gateSelfTest(cmd *cobra.Command, f *gateFlags) error {
	ctx := cmd.Context()
	if f.testRounds < 6 {
		return fmt.Errorf("--self-test-rounds is %d; an interval needs at least 6", f.testRounds)
	}
	if f.margin <= 0 || f.margin >= 1 {
		return errors.New("--margin must lie above 0% and below 100%")
	}
	defer f.machine.release()
	if err := f.machine.take(a, cmd, ""); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kvbench-self-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	run := func(name string, aa bool, variants ...string) (*rounds.Experiment, error) {
		var p planFlags
		p.register(a, &cobra.Command{}) // for the defaults
		p.rounds, p.variants, p.aa = f.testRounds, variants, aa
		p.rules.QuietLimit, p.rules.RetryInvalid = selfTestQuiet, 2
		plan, err := p.plan(a, gate.SelfTestWork())
		if err != nil {
			return nil, err
		}
		exp, _, err := rounds.Create(ctx, filepath.Join(dir, name), plan, a.progress())
		if err != nil {
			return nil, err
		}
		tell := terminal.Status(a.stderr, a.quiet || a.verbose)
		o := rounds.RunOptions{Sole: true, QuickHost: true, Unlocked: f.machine.missing(), Log: a.log(), Progress: func(s rounds.Status) { tell(name + ": " + statusText(s)) }}
		err = exp.Run(ctx, o)
		if errors.Is(err, rounds.ErrInterrupted) {
			return nil, &codeError{exitInterrupted, errors.New("interrupted; a self-test keeps nothing")}
		}
		return exp, err
	}
	t := &gate.SelfTest{Margin: float64(f.margin), Rounds: f.testRounds, Unlocked: f.machine.missing()}
	exp, err := run("base against itself", true, "base=")
	if err != nil {
		return err
	}
	if t.AA, err = gate.JudgeAA(exp, t.Margin); err != nil {
		return err
	}
	if t.DelayNS, err = gate.CanaryDelay(exp, t.Margin); errors.Is(err, gate.ErrNoCanary) {
		return &codeError{exitUnmeasurable, err}
	} else if err != nil {
		return err
	}
	if exp, err = run("canary", false, "base=", fmt.Sprintf("canary=--inject-event-delay=%dns", t.DelayNS)); err != nil {
		return err
	}
	if t.Canary, err = gate.JudgeCanary(exp, t.Margin); err != nil {
		return err
	}
	if f.format == "json" {
		err = a.printJSON(t)
	} else {
		err = t.WriteText(a.stdout)
	}
	if err != nil || t.OK() {
		return err
	}
	return &codeError{exitUnmeasurable, errors.New("this machine does not show the difference at this margin with so many rounds: " + strings.Join(t.Advice(), "; "))}
}
