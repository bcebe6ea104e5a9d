package command

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/rounds"
	"github.com/kvbench/kvbench/internal/terminal"
)

// planFlags say what an experiment is. rounds and whatever else begins one share
// them.
type planFlags struct {
	rounds, warmup int
	variants       []string
	ratios         []string
	metrics        []string
	aa             bool
	order          string
	seed           uint64
	rules          rounds.Rules
	quietPressure  percent
	maxPressure    percent
	parentCPU      string
	env            []string
}

func (f *planFlags) register(a *app, cmd *cobra.Command) {
	fl := cmd.Flags()
	d := rounds.DefaultRules()
	f.quietPressure = percent(d.QuietPressure)
	fl.IntVar(&f.rounds, "rounds", 20, "measured rounds")
	fl.IntVar(&f.warmup, "warmup-rounds", 1, "rounds before them that are discarded")
	fl.StringArrayVar(&f.variants, "variant", nil, "variant as NAME=--flags, NAME=@./kvbench --flags or NAME=!./program arguments; repeat for each")
	fl.StringArrayVar(&f.ratios, "ratio", nil, "ratio to report as A/B; repeatable (default: each other variant over the first)")
	fl.StringSliceVar(&f.metrics, "metric", nil, "metrics of the record, such as query_service.p50 (default: what the load makes meaningful)")
	fl.BoolVar(&f.aa, "aa", false, "run the base a second time in each round and report how far the two seem apart: the noise floor")
	fl.StringVar(&f.order, "order", string(rounds.Balanced), "order of the variants in a round: balanced, cyclic or random")
	fl.Uint64Var(&f.seed, "order-seed", 1, "seed of the order")
	fl.DurationVar(&f.rules.Gap, "gap", d.Gap, "rest before each trial")
	fl.DurationVar(&f.rules.QuietLimit, "quiet-limit", d.QuietLimit, "how long to wait at most for a quiet machine before each trial; 0: not at all")
	fl.Var(&f.quietPressure, "quiet-pressure", "CPU pressure up to which a machine is quiet")
	fl.DurationVar(&f.rules.TrialTimeout, "trial-timeout", d.TrialTimeout, "end a trial that takes longer; it is recorded as invalid")
	fl.IntVar(&f.rules.RetryInvalid, "retry-invalid", 0, "repeat an invalid trial up to so many times, at the end of its round")
	fl.Var(&f.maxPressure, "max-pressure", "CPU pressure during a trial above which it is invalid; 0%: no limit")
	fl.StringVar(&f.parentCPU, "parent-cpu", "auto", "CPU that kvbench itself waits on: a number, auto (one that no trial uses) or none")
	fl.StringArrayVar(&f.env, "env", nil, "environment variable for trials beside the usual ones, as NAME or NAME=VALUE; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("order", fixed(rounds.Orders()...))
	_ = cmd.RegisterFlagCompletionFunc("metric", fixed(rounds.Metrics()...))
	_ = cmd.RegisterFlagCompletionFunc("parent-cpu", fixed("auto", "none"))
	_ = cmd.RegisterFlagCompletionFunc("ratio", f.completeRatio)
	_ = cmd.RegisterFlagCompletionFunc("variant", a.completeVariant)
}

// completeRatio offers all ratios of the variants given so far.
func (f *planFlags) completeRatio(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, a := range f.variants {
		for _, b := range f.variants {
			x, _, _ := strings.Cut(a, "=")
			y, _, _ := strings.Cut(b, "=")
			if x != y {
				out = append(out, x+"/"+y)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// plan reads the flags and the replay that all variants share, whose arguments
// begin with "replay".
func (f *planFlags) plan(a *app, args []string) (*rounds.Plan, error) {
	p := &rounds.Plan{Rounds: f.rounds, Warmup: f.warmup, Seed: f.seed, Metrics: f.metrics, AA: f.aa, Rules: f.rules, Env: f.env}
	p.Rules.QuietPressure, p.Rules.MaxPressure = float64(f.quietPressure), float64(f.maxPressure)
	var err error
	if p.Order, err = rounds.ParseOrder(f.order); err != nil {
		return nil, fmt.Errorf("--order: %w", err)
	}
	if p.Rules.ParentCPU, err = parseParentCPU(f.parentCPU); err != nil {
		return nil, err
	}
	for _, s := range f.variants {
		v, err := rounds.ParseVariant(s)
		if err != nil {
			return nil, fmt.Errorf("--variant: %w", err)
		}
		p.Variants = append(p.Variants, v)
	}
	if p.Ratios, err = parseRatios(f.ratios); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := a.shareReplay(p, args); err != nil {
		return nil, err
	}
	if len(p.Variants) == 1 && !p.AA {
		return nil, errors.New("one variant has nothing to be compared with; add another --variant, or --aa")
	}
	return p, nil
}

func parseParentCPU(s string) (int, error) {
	switch s {
	case "auto":
		return rounds.AutoCPU, nil
	case "none":
		return rounds.NoCPU, nil
	}
	var n int
	if _, err := fmt.Sscanf(s+"\n", "%d\n", &n); err != nil || n < 0 {
		return 0, fmt.Errorf("--parent-cpu is %q; give a CPU number, auto or none", s)
	}
	return n, nil
}

func parseRatios(texts []string) ([]rounds.Ratio, error) {
	var out []rounds.Ratio
	for _, s := range texts {
		r, err := rounds.ParseRatio(s)
		if err != nil {
			return nil, fmt.Errorf("--ratio: %w", err)
		}
		out = append(out, r)
	}
	return out, nil
}

// ownOfRounds are flags of replay that rounds sets itself or that would disturb.
var ownOfRounds = []string{"out", "overwrite", "json", "decisions", "timeline", "cpu-profile", "quiet", "verbose"}

// shareReplay reads the common command line into a plan and checks that of every
// variant of this kvbench, so that a wrong flag is found before anything runs.
func (a *app) shareReplay(p *rounds.Plan, args []string) error {
	if len(args) == 0 || args[0] != "replay" {
		return errors.New("name what all variants replay, after two dashes: -- replay TRACE --workers 128 …")
	}
	shared, prep, err := a.parseReplay(args[1:])
	if err != nil {
		return fmt.Errorf("after --: %w", err)
	}
	if n := shared.NArg(); n != 1 {
		return fmt.Errorf("after --: replay takes one TRACE, CORPUS or NAME, and got %d", n)
	}
	if p.Work, err = prep.input(shared, shared.Arg(0)); err != nil {
		return fmt.Errorf("after --: %w", err)
	}
	shared.Visit(func(flag *pflag.Flag) {
		if !ofPreparation(flag.Name) {
			p.Arguments = append(p.Arguments, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	for _, v := range p.Variants {
		if v.Kind == rounds.Command {
			continue
		}
		for _, arg := range v.Args {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			switch {
			case !strings.HasPrefix(arg, "--"):
			case ofPreparation(name):
				return fmt.Errorf("variant %s: --%s changes the work, which all variants share; give it after -- for all, or compare separate experiments", v.Name, name)
			case slices.Contains(ownOfRounds, name):
				return fmt.Errorf("variant %s: --%s is set by kvbench rounds itself; leave it out", v.Name, name)
			}
		}
		if v.Kind != rounds.Flags {
			continue // another version may have other flags
		}
		fl, _, err := a.parseReplay(slices.Concat(p.Arguments, v.Args))
		if err != nil {
			return fmt.Errorf("variant %s: %w", v.Name, err)
		}
		if fl.NArg() > 0 {
			return fmt.Errorf("variant %s: %q is no flag", v.Name, fl.Arg(0))
		}
	}
	return nil
}

func ofPreparation(name string) bool {
	return slices.Contains(preparation, name) || name == "max-line-bytes"
}

// parseReplay reads and checks flags of replay.
func (a *app) parseReplay(args []string) (*pflag.FlagSet, *prepareFlags, error) {
	var f replayFlags
	var prep prepareFlags
	cmd := &cobra.Command{Use: "replay"}
	prep.register(cmd.Flags())
	f.register(a, cmd)
	for _, name := range ownOfRounds {
		if cmd.Flags().Lookup(name) == nil {
			cmd.Flags().Bool(name, false, "")
		}
		cmd.Flags().Lookup(name).NoOptDefVal = "true"
	}
	decimals(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		return nil, nil, suggestFlag(cmd, err)
	}
	for _, name := range ownOfRounds {
		if cmd.Flags().Changed(name) {
			return nil, nil, fmt.Errorf("--%s is set by kvbench rounds itself; leave it out", name)
		}
	}
	if a.settings != nil {
		if _, err := a.settings.Apply(cmd.Flags(), "replay", ownOfRounds...); err != nil {
			return nil, nil, err
		}
	}
	return cmd.Flags(), &prep, f.resolve(cmd.Flags(), a)
}

// analyseFlags say what to print of an experiment.
type analyseFlags struct {
	format         string
	confidence     percent
	nonInferiority percent
}

func (f *analyseFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.confidence = rounds.DefaultLevel
	fl.StringVar(&f.format, "format", string(rounds.Text), "how to print: "+strings.Join(rounds.Formats(), ", "))
	fl.Var(&f.confidence, "confidence", "level of the intervals")
	fl.Var(&f.nonInferiority, "non-inferiority", "say whether every interval rules out a loss of this share")
	_ = cmd.RegisterFlagCompletionFunc("format", fixed(rounds.Formats()...))
}

// print analyses an experiment, prints it, and turns what could not be measured
// into an exit code.
func (f *analyseFlags) print(a *app, w io.Writer, exp *rounds.Experiment, ratios []rounds.Ratio, metrics []string) error {
	format, err := rounds.ParseFormat(f.format)
	if err != nil {
		return fmt.Errorf("--format: %w", err)
	}
	an, err := exp.Analyse(rounds.AnalyseOptions{Ratios: ratios, Metrics: metrics, Level: float64(f.confidence), NonInferiority: float64(f.nonInferiority)})
	if err != nil {
		return err
	}
	if format == rounds.Benchfmt {
		err = exp.WriteBenchfmt(w, an)
	} else {
		err = an.Write(w, format)
	}
	if err != nil {
		return err
	}
	if reasons := an.Unmeasurable(); len(reasons) > 0 {
		return &codeError{exitUnmeasurable, errors.New("not measured: " + strings.Join(reasons, "\nkvbench: not measured: "))}
	}
	return nil
}

// check finds wrong values before anything runs.
func (f *analyseFlags) check() error {
	if _, err := rounds.ParseFormat(f.format); err != nil {
		return fmt.Errorf("--format: %w", err)
	}
	if f.confidence <= 0 || f.confidence >= 1 {
		return fmt.Errorf("--confidence is %s; it must lie between 0%% and 100%%", f.confidence.String())
	}
	if f.nonInferiority >= 1 {
		return fmt.Errorf("--non-inferiority is %s; it must be below 100%%", f.nonInferiority.String())
	}
	return nil
}

// roundsFlags are the flags of rounds itself.
type roundsFlags struct {
	plan        planFlags
	analyse     analyseFlags
	machine     machineFlags
	out         string
	resume      bool
	requireFit  bool
	quickHost   bool
	margin      percent
	pilotRounds int
	planOnly    bool
}

func (a *app) rounds() *cobra.Command {
	var f roundsFlags
	cmd := &cobra.Command{
		Use:   "rounds --variant NAME=FLAGS... --out DIR -- replay TRACE",
		Short: "Compare variants round by round, with intervals",
		Long: `Compare variants. Every round runs each variant once, in a process of its own, in
a balanced order; the figure is the ratio of two variants within a round, and what
is printed is the median ratio with its interval. The work is prepared once.

A variant is NAME= and flags of replay, NAME=@ and another kvbench with flags, or
NAME=! and any program that writes a result record, whose arguments hold {corpus}
and {out}. What follows -- is common to all variants.

--out keeps manifest and journal. After an interruption, --resume with the same
folder goes on exactly where it stopped; a program, file, flag or machine that
changed is refused. 'kvbench rounds analyse' prints an experiment again.

Exit codes: 0 done; 2 error, or a variant cannot run; 3 a ratio that was asked for
could not be measured; 130 interrupted, and what was done is kept.`,
		Example: `  kvbench rounds --rounds 20 --variant untracked= --variant tracked=--track-resident-blocks \
      --ratio tracked/untracked --out exp/ -- replay trace.jsonl --workers 128 --duration 750ms
  kvbench rounds --variant base=@./kvbench-base --variant head= --aa --out exp/ -- replay work.corpus
  kvbench rounds --variant flat= --variant mine='!./driver --corpus {corpus} --out {out}' \
      --out exp/ -- replay conversation-small
  kvbench rounds --resume --out exp/`,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n > 0 || n < 0 && len(args) > 0 {
				return fmt.Errorf("%q is unexpected; what the variants share comes after --, as in -- replay TRACE", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.runRounds(cmd, args, &f) },
	}
	f.plan.register(a, cmd)
	f.analyse.register(cmd)
	f.machine.register(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&f.out, "out", "o", "", "folder of the experiment")
	fl.BoolVar(&f.resume, "resume", false, "go on with the experiment in --out; other flags may be left out, and must be the same if given")
	fl.BoolVar(&f.requireFit, "require-fit", false, "exit with 3 if the machine is unfit to measure on")
	fl.BoolVar(&f.quickHost, "quick-host", false, "note the machine's facts without trying out its CPUs")
	fl.Var(&f.margin, "plan", "first run the base against itself and say how many rounds resolve this effect")
	fl.IntVar(&f.pilotRounds, "plan-rounds", 10, "rounds of that")
	fl.BoolVar(&f.planOnly, "plan-only", false, "stop after that")
	_ = cmd.MarkFlagDirname("out")
	cmd.AddCommand(a.roundsAnalyse(), a.roundsMetrics())
	return cmd
}

func (a *app) runRounds(cmd *cobra.Command, args []string, f *roundsFlags) error {
	fl := cmd.Flags()
	if f.out == "" {
		return errors.New("--out is missing; name the folder of the experiment")
	}
	if err := f.analyse.check(); err != nil {
		return err
	}
	for _, name := range []string{"plan-rounds", "plan-only"} {
		if fl.Changed(name) && f.margin == 0 {
			return fmt.Errorf("--%s has no effect without --plan; add that or leave this out", name)
		}
	}
	if fl.Changed("plan") && f.margin == 0 {
		return errors.New("--plan is 0%; give the effect to resolve, such as 1%")
	}
	defer f.machine.release()
	exp, err := a.openRounds(cmd, args, f)
	if err == nil {
		err = f.machine.take(a, cmd, f.out)
	}
	if err != nil {
		return err
	}
	tell := terminal.Status(a.stderr, a.quiet || a.verbose)
	o := rounds.RunOptions{Sole: true, RequireFit: f.requireFit, QuickHost: f.quickHost, Unlocked: f.machine.missing(), Log: a.log(), Progress: func(s rounds.Status) {
		tell(a.roundsProgress(exp, s))
	}}
	if f.margin > 0 {
		if err := a.pilot(cmd, exp, f, o); err != nil || f.planOnly {
			return roundsError(exp, f.out, err)
		}
	}
	if err := exp.Run(cmd.Context(), o); err != nil {
		return roundsError(exp, f.out, err)
	}
	ratios, err := parseRatios(f.plan.ratios)
	if err != nil {
		return err
	}
	w := io.Writer(a.stdout)
	if a.quiet && !fl.Changed("format") {
		w = io.Discard
	}
	return f.analyse.print(a, w, exp, ratios, f.plan.metrics)
}

// openRounds begins an experiment or goes on with one.
func (a *app) openRounds(cmd *cobra.Command, args []string, f *roundsFlags) (*rounds.Experiment, error) {
	var plan *rounds.Plan
	var err error
	if len(args) > 0 || !f.resume {
		if plan, err = f.plan.plan(a, args); err != nil {
			return nil, err
		}
	}
	if !f.resume {
		// To prepare the work disturbs others too.
		if err := f.machine.take(a, cmd, f.out); err != nil {
			return nil, err
		}
		progress := a.progress()
		defer progress.Done()
		exp, odd, err := rounds.Create(cmd.Context(), f.out, plan, progress)
		progress.Done()
		for _, text := range odd {
			a.warn(text)
		}
		if errors.Is(err, rounds.ErrExists) {
			return nil, fmt.Errorf("%w; go on with it by --resume, or name another folder", err)
		}
		return exp, err
	}
	exp, err := rounds.Open(f.out)
	if err != nil {
		return nil, err
	}
	if plan != nil {
		return exp, exp.CheckSame(plan)
	}
	// Without the common command line there is no plan to compare with, so
	// flags of a plan would be ignored silently.
	var ignored string
	plans := &cobra.Command{}
	new(planFlags).register(a, plans)
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		shown := flag.Name == "ratio" || flag.Name == "metric"
		if !shown && plans.Flags().Lookup(flag.Name) != nil {
			ignored = flag.Name
		}
	})
	if ignored != "" {
		return nil, fmt.Errorf("--%s was settled when the experiment began; leave it out, or give the whole command line with -- replay … to have it compared", ignored)
	}
	return exp, nil
}

// pilot runs the A/A of --plan and prints what it says.
func (a *app) pilot(cmd *cobra.Command, exp *rounds.Experiment, f *roundsFlags, o rounds.RunOptions) error {
	tell := terminal.Status(a.stderr, a.quiet || a.verbose)
	o.Progress = func(s rounds.Status) { tell("pilot: " + statusText(s)) }
	p, err := exp.Pilot(cmd.Context(), f.pilotRounds, o)
	if err != nil {
		return err
	}
	an, err := p.Analyse(rounds.AnalyseOptions{Level: float64(f.analyse.confidence)})
	if err != nil {
		return err
	}
	for _, c := range an.Forecasts(exp.Rounds(), float64(f.margin)) {
		a.tell("kvbench: plan: ", c.Text(exp.Rounds(), float64(f.margin)))
	}
	for _, reason := range an.Unmeasurable() {
		a.tell("kvbench: plan: not measured: ", reason)
	}
	return nil
}

// roundsProgress is one line before each trial.
func (a *app) roundsProgress(exp *rounds.Experiment, s rounds.Status) string {
	text := statusText(s)
	// Only to show it; the end says what is wrong, if anything is.
	if an, err := exp.Analyse(rounds.AnalyseOptions{}); err == nil {
		if so := an.RatioSoFar(); so != "" {
			text += ": " + so
		}
	}
	return text
}

func statusText(s rounds.Status) string {
	round := fmt.Sprintf("round %d of %d", s.Step.Round, s.Rounds)
	if s.Step.Round < 1 {
		round = "warm-up"
	}
	text := round + ", " + s.Step.Variant
	if s.Step.Attempt > 1 {
		text += fmt.Sprintf(" (attempt %d)", s.Step.Attempt)
	}
	if s.Time > 0 {
		text += fmt.Sprintf(", %v left", time.Duration(math.Ceil(s.Time.Seconds()))*time.Second)
	}
	return text
}

// roundsError adds to an error how to go on, and gives it its exit code.
func roundsError(exp *rounds.Experiment, out string, err error) error {
	var child *rounds.ChildError
	var unfit *rounds.UnfitError
	done, left := exp.Counts()
	switch {
	case errors.Is(err, rounds.ErrInterrupted):
		return &codeError{exitInterrupted, fmt.Errorf("interrupted after %d trials, which are kept; %d are left: kvbench rounds --resume --out %s", done, left, out)}
	case errors.As(err, &child):
		return fmt.Errorf("%w\nIf the cause is outside (a missing library, a full disk), go on with: kvbench rounds --resume --out %s", err, out)
	case errors.As(err, &unfit):
		return &codeError{exitUnmeasurable, err}
	}
	return err
}

func (a *app) roundsAnalyse() *cobra.Command {
	var f analyseFlags
	var ratios, metrics []string
	cmd := &cobra.Command{
		Use:   "analyse DIR",
		Short: "Print an experiment again, with other ratios or metrics",
		Long: `Print the comparisons of an experiment, be it finished, interrupted or running.
They are computed from its manifest and journal alone.`,
		Aliases: []string{"analyze", "show"},
		Example: `  kvbench rounds analyse exp/ --format markdown
  kvbench rounds analyse exp/ --metric query_service.p50,query_service.p99 --ratio head/base
  kvbench rounds analyse exp/ --format benchfmt | benchstat -col /variant -`,
		Args: exactArgs("the folder of an experiment"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			r, err := parseRatios(ratios)
			if err != nil {
				return err
			}
			exp, err := rounds.Open(args[0])
			if err != nil {
				return err
			}
			return f.print(a, a.stdout, exp, r, metrics)
		},
	}
	f.register(cmd)
	cmd.Flags().StringArrayVar(&ratios, "ratio", nil, "ratio to report as A/B; repeatable (default: those of the experiment)")
	cmd.Flags().StringSliceVar(&metrics, "metric", nil, "metrics of the record (default: those of the experiment, else by load)")
	_ = cmd.RegisterFlagCompletionFunc("metric", fixed(rounds.Metrics()...))
	return cmd
}

func (a *app) roundsMetrics() *cobra.Command {
	return &cobra.Command{
		Use:   "metrics",
		Short: "List the metrics that rounds can compare",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.stdout, strings.Join(rounds.Metrics(), "\n")+"\n")
			return err
		},
	}
}
