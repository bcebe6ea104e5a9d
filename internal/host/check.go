package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// HostV1 is the schema name of Report.
const HostV1 = "kvbench.host/v1"

// Verdict says how far something is fit to measure on.
type Verdict string

// The verdicts. Doubtful blurs figures without making them worthless; Unfit
// does that; Unknown means that the system does not say.
const (
	Fit      Verdict = "fit"
	Doubtful Verdict = "doubtful"
	Unfit    Verdict = "unfit"
	Unknown  Verdict = "unknown"
)

// Report is what Check found. Its JSON is stable: fields are added, never given
// another meaning, and readers ignore those that they do not know.
type Report struct {
	Schema string `json:"schema"` // HostV1
	Time   string `json:"time"`   // when the check ended, RFC 3339, UTC
	// Verdict is Unfit if a check is, else Unknown if nothing could be measured,
	// else Doubtful if a check is, else Fit.
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"checks"` // in a fixed order, every one present

	// Fingerprint names the machine: two reports with the same one come from the
	// same machine in the same form, as far as it can be told.
	Fingerprint string   `json:"fingerprint"`
	Identity    Identity `json:"identity"` // what Fingerprint is made of

	Layout   Layout   `json:"layout"`   // CPUs, caches and memory nodes
	Settings Settings `json:"settings"` // what an administrator may change
	State    State    `json:"state"`    // what the machine was doing
	Counters Counters `json:"counters"` // read at the end of the check
	Measured Measured `json:"measured"` // what was tried out
}

// Finding is the result of one check.
type Finding struct {
	Name    string  `json:"name"` // stable, such as "cpu_pressure"
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`           // what was found, with figures
	Remedy  string  `json:"remedy,omitempty"` // what to do about it; "" if it is fit
}

// Find returns the finding of that name.
func (r *Report) Find(name string) (Finding, bool) {
	for _, f := range r.Findings {
		if f.Name == name {
			return f, true
		}
	}
	return Finding{}, false
}

// With returns the findings with one of the verdicts, in their order.
func (r *Report) With(verdicts ...Verdict) []Finding {
	var out []Finding
	for _, f := range r.Findings {
		for _, v := range verdicts {
			if f.Verdict == v {
				out = append(out, f)
			}
		}
	}
	return out
}

// Options say what Check looks at. The zero value checks this machine as a
// whole in about a second and a bit for each CPU.
type Options struct {
	// Root is the file system that /proc and /sys are read from; nil: that of
	// the machine. With another one nothing is measured.
	Root fs.FS
	// Allowed are the CPUs that the process may use, ascending; nil: those of
	// this process.
	Allowed []int
	// CPUs are those that threads will be pinned to; nil: not decided yet, and
	// Allowed are looked at.
	CPUs []int
	// Watch is how long other activity is watched for; 0: DefaultWatch,
	// negative: not at all.
	Watch time.Duration
	// NoProbe leaves out what keeps CPUs busy: burn-in, stalls, timers, clock.
	NoProbe bool
	// Progress, if set, is told how many of how many steps are done.
	Progress func(done, total int)

	// probe replaces the measurement in tests.
	probe func(ctx context.Context, cpus []int, step func()) (Measured, error)
	// now and wait replace the clock in tests.
	now  func() time.Time
	wait func(ctx context.Context, d time.Duration) error
}

// DefaultWatch is how long Check watches what else runs.
const DefaultWatch = time.Second

// maxProbed bounds the CPUs that are tried out.
const maxProbed = 32

// Check looks at the machine and says whether it is fit to measure on. It keeps
// one CPU after the other busy for less than a tenth of a second, unless
// Options.NoProbe is set. What the system does not say is Unknown and no error;
// the error is that of ctx or of an option.
//
// It must not run beside a measurement: it would disturb it and see it.
func Check(ctx context.Context, o Options) (*Report, error) {
	real := o.Root == nil
	if real {
		o.Root = os.DirFS("/")
	}
	if o.probe == nil && real && !o.NoProbe {
		o.probe = probe
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.wait == nil {
		o.wait = wait
	}
	if o.Watch == 0 {
		o.Watch = DefaultWatch
	}
	if o.Allowed == nil {
		var err error
		if o.Allowed, err = AllowedCPUs(); err != nil {
			return nil, err
		}
	}
	if len(o.Allowed) == 0 {
		return nil, fmt.Errorf("host: no CPU is allowed to this process")
	}
	for _, cpu := range o.CPUs {
		if !slices.Contains(o.Allowed, cpu) {
			return nil, fmt.Errorf("CPU %d is not one of those that this process may use (%s)", cpu, FormatCPUs(o.Allowed))
		}
	}
	r := &Report{Schema: HostV1, Layout: readLayout(o.Root, o.Allowed), Settings: readSettings(o.Root, o.Allowed)}
	r.Identity = identityOf(o.Root, r)
	r.Fingerprint = r.Identity.Fingerprint()

	cpus := o.CPUs
	if cpus == nil {
		cpus = o.Allowed
	}
	probed := Spread(cpus, r.Layout.cpus())
	probed = probed[:min(len(probed), maxProbed)]
	steps := int(max(o.Watch, 0)/watchStep) + len(probed) + 1
	done := 0
	step := func() {
		done++
		if o.Progress != nil {
			o.Progress(min(done, steps), steps)
		}
	}

	before := readCounters(o.Root, o.now())
	state, err := watch(ctx, &o, step)
	if err != nil {
		return nil, err
	}
	watched := readCounters(o.Root, o.now())
	state.Watched = watched.Sub(before)
	state.FrequencyMHz = frequencies(o.Root, cpus)
	if o.probe != nil {
		if r.Measured, err = o.probe(ctx, probed, step); err != nil {
			return nil, err
		}
	}
	if r.Measured.CPUs == nil {
		r.Measured.CPUs = []CPUProbe{}
	}
	state.FrequencyAfterMHz = frequencies(o.Root, cpus)
	r.Counters = readCounters(o.Root, o.now())
	state.Checked = r.Counters.Sub(before)
	r.State = state
	r.Time = o.now().UTC().Format(time.RFC3339)
	r.Findings = judge(r, o.CPUs)
	r.Verdict = overall(r)
	return r, ctx.Err()
}

func overall(r *Report) Verdict {
	switch {
	case len(r.With(Unfit)) > 0:
		return Unfit
	case len(r.Measured.CPUs) == 0:
		return Unknown
	case len(r.With(Doubtful)) > 0:
		return Doubtful
	}
	return Fit
}

// watchStep lies between two looks at what runs.
const watchStep = 100 * time.Millisecond

// watch looks at what else runs, while this process does nothing.
func watch(ctx context.Context, o *Options, step func()) (State, error) {
	s := readState(o.Root)
	samples := []int64{s.Runnable}
	for left := o.Watch; left > 0; left -= watchStep {
		if err := o.wait(ctx, min(left, watchStep)); err != nil {
			return s, err
		}
		samples = append(samples, runnable(o.Root))
		step()
	}
	s.Runnable = median(samples)
	s.Others = max(s.Others, otherProcesses(o.Root, "kvbench"))
	return s, nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
