package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/montanaflynn/stats"

	"github.com/kvbench/kvbench/results"
)

// Result is what a sweep found. Rates are in 1/s and times in ns.
type Result struct {
	Schema string `json:"schema"` // SweepV1
	Plan   Plan   `json:"plan"`
	// Interrupted says that trials are missing because a signal came.
	Interrupted bool    `json:"interrupted"`
	Points      []Point `json:"points"` // by load or by value, ascending
	// Knee is set on an axis of windows.
	Knee *Knee `json:"knee,omitempty"`
	// KeepUp is what the search found.
	KeepUp *Found `json:"keepup,omitempty"`
	// Growth is set on every other axis.
	Growth   []Growth `json:"growth,omitempty"`
	Warnings []string `json:"warnings"`
	Trials   []Trial  `json:"trials"` // in the order in which they ran

	records map[trialKey]*results.Record
}

// Point is the trials of one value. Figures are medians over its valid trials,
// those of latencies medians of each trial's quantile; all are 0 if none is valid.
type Point struct {
	Value int64  `json:"value"` // of the axis; ns of a window
	Label string `json:"label"`

	Trials  int      `json:"trials"`
	Valid   int      `json:"valid"`
	KeptUp  int      `json:"kept_up"`
	Invalid []string `json:"invalid"` // what broke the others, by trial
	Failed  []string `json:"failed"`  // trials without a record

	BlockOps int64   `json:"block_ops"` // of a trial; of any record, valid or not
	Offered  float64 `json:"offered_block_ops_per_sec"`
	Achieved float64 `json:"achieved_block_ops_per_sec"`
	Lowest   float64 `json:"achieved_lowest"`
	Highest  float64 `json:"achieved_highest"`
	// Done is when the last operation was done, as a multiple of the window.
	Done float64 `json:"done_windows"`
	// NSPerBlockOp is the time until the last operation was done, by block-op:
	// what one costs where the index did not keep up.
	NSPerBlockOp float64 `json:"ns_per_block_op"`
	// EventCPUNS is the time that event threads were on a CPU, by stored and
	// removed block; 0 where idle threads spin or the kernel does not say.
	EventCPUNS float64 `json:"event_cpu_ns_per_block"`

	QueryService Quantiles `json:"query_service_ns"`
	QueryTotal   Quantiles `json:"query_scheduled_to_finished_ns"`
	EventTotal   Quantiles `json:"event_scheduled_to_finished_ns"`
	PeakRSSBytes float64   `json:"peak_rss_bytes"`
}

// Quantiles are those of a latency.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
}

// mostKeptUp says that more than half of all trials kept up; an invalid one did
// not.
func (p *Point) mostKeptUp() bool { return 2*p.KeptUp > p.Trials }

// recorded says that a trial left a record, be it a valid one.
func (p *Point) recorded() bool { return p.Trials > len(p.Failed) }

// Knee is where the index stops keeping up.
type Knee struct {
	// Last is the highest load up to which most trials of every point kept up,
	// First the next point; 0: there is none.
	LastLabel  string  `json:"last_kept_up"` // its window; "": none
	Last       float64 `json:"last_kept_up_block_ops_per_sec"`
	FirstLabel string  `json:"first_not_kept_up"`
	First      float64 `json:"first_not_kept_up_block_ops_per_sec"`
	// Most is the highest throughput that any point achieved.
	Most      float64 `json:"most_achieved_block_ops_per_sec"`
	MostLabel string  `json:"most_achieved_at"`
}

// Found is the result of the search for the shortest window that is kept up with.
type Found struct {
	WindowNS int64   `json:"window_ns"` // 0: not found, and Reason says why
	Offered  float64 `json:"offered_block_ops_per_sec"`
	KeptUp   int     `json:"kept_up"` // of so many trials
	Trials   int     `json:"trials"`
	// FailsNS is the longest window below it that failed; 0: none did.
	FailsNS int64  `json:"fails_ns"`
	Reason  string `json:"reason"` // "" if all is well
}

// Growth is how a figure grows from one point with a valid trial to the next such
// one: the exponent e if it
// is proportional to value^e in between.
type Growth struct {
	From string `json:"from"`
	To   string `json:"to"`
	// null: a figure is missing, or at one of the two the index kept up, where
	// the window sets the throughput.
	NSPerBlockOp *float64 `json:"ns_per_block_op"`
	EventCPU     *float64 `json:"event_cpu_ns_per_block"`
	QueryP50     *float64 `json:"query_service_p50"`
	QueryP99     *float64 `json:"query_service_p99"`
	PeakRSS      *float64 `json:"peak_rss_bytes"`
}

// analyse makes the result from what is in the folder.
func analyse(plan *Plan, trials []Trial, records map[trialKey]*results.Record, interrupted bool) (*Result, error) {
	r := &Result{Schema: SweepV1, Plan: *plan, Interrupted: interrupted, Warnings: []string{}, Trials: slices.Clone(trials), records: records}
	if r.Trials == nil {
		r.Trials = []Trial{}
	}
	axis := plan.axis()
	values := slices.Clone(axis.Values)
	for _, t := range trials {
		if !slices.Contains(values, t.Value) {
			values = append(values, t.Value)
		}
	}
	slices.Sort(values)
	if axis.Name == Window {
		slices.Reverse(values) // by load
	}
	r.Points = make([]Point, 0, len(values))
	for _, v := range values {
		p, err := pointOf(v, axis.label(v), trials, records)
		if err != nil {
			return nil, err
		}
		r.Points = append(r.Points, p)
	}
	switch {
	case plan.KeepUp != nil:
		r.KeepUp = found(plan.KeepUp, r.Points, trials, records)
	case axis.Name == Window:
		r.Knee = kneeOf(r.Points)
	default:
		r.Growth = growth(r.Points)
	}
	r.warn()
	return r, nil
}

func pointOf(value int64, label string, trials []Trial, records map[trialKey]*results.Record) (Point, error) {
	p := Point{Value: value, Label: label, Invalid: []string{}, Failed: []string{}}
	var valid []*results.Record
	for _, t := range trials {
		if t.Value != value {
			continue
		}
		p.Trials++
		r := records[t.key()]
		if r == nil {
			p.Failed = append(p.Failed, fmt.Sprintf("run %d: %s", t.Run, t.Failure))
			continue
		}
		p.BlockOps, p.Offered = r.Totals.BlockOps, r.Rates.OfferedBlockOpsPerSec
		if !r.Validity.Valid {
			p.Invalid = append(p.Invalid, fmt.Sprintf("run %d: %s", t.Run, reasons(r)))
			continue
		}
		p.Valid++
		if r.Validity.KeptUp {
			p.KeptUp++
		}
		valid = append(valid, r)
	}
	if len(valid) == 0 {
		return p, nil
	}
	var failed error
	median := func(of func(r *results.Record) float64) float64 {
		values := make(stats.Float64Data, len(valid))
		for i, r := range valid {
			values[i] = of(r)
		}
		m, err := stats.Median(values)
		failed = cmp.Or(failed, err)
		return m
	}
	quantiles := func(of func(r *results.Record) *results.Distribution) Quantiles {
		return Quantiles{
			P50:  median(func(r *results.Record) float64 { return float64(of(r).P50) }),
			P99:  median(func(r *results.Record) float64 { return float64(of(r).P99) }),
			P999: median(func(r *results.Record) float64 { return float64(of(r).P999) }),
		}
	}
	achieved := func(r *results.Record) float64 { return r.Rates.AchievedBlockOpsPerSec }
	p.Achieved = median(achieved)
	byAchieved := func(a, b *results.Record) int { return cmp.Compare(achieved(a), achieved(b)) }
	p.Lowest, p.Highest = achieved(slices.MinFunc(valid, byAchieved)), achieved(slices.MaxFunc(valid, byAchieved))
	p.Done = median(func(r *results.Record) float64 { return ratio(float64(r.Timing.EndNS), float64(r.Timing.WindowNS)) })
	p.NSPerBlockOp = median(func(r *results.Record) float64 {
		return ratio(float64(r.Timing.EndNS), float64(r.Totals.CompletedBlockOps))
	})
	p.EventCPUNS = median(eventCPU)
	p.QueryService = quantiles(func(r *results.Record) *results.Distribution { return &r.Queries.Service })
	p.QueryTotal = quantiles(func(r *results.Record) *results.Distribution { return &r.Queries.ScheduledToFinished })
	p.EventTotal = quantiles(func(r *results.Record) *results.Distribution { return &r.Events.ScheduledToFinished })
	p.PeakRSSBytes = median(func(r *results.Record) float64 { return float64(r.Machine.PeakRSSBytes) })
	return p, failed
}

// eventCPU is the CPU time of event threads by block.
func eventCPU(r *results.Record) float64 {
	if r.Config.Idle == "spin" {
		return 0
	}
	var run int64
	for _, th := range r.Threads {
		if th.Role != "event" {
			continue
		}
		if th.RunNS < 0 {
			return 0
		}
		run += th.RunNS
	}
	return ratio(float64(run), float64(r.Totals.StoredBlocks+r.Totals.RemovedBlocks))
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func reasons(r *results.Record) string {
	var out []string
	for _, x := range r.Validity.Reasons {
		text, _, _ := strings.Cut(x.Detail, "\n")
		out = append(out, x.Rule+": "+text)
	}
	return strings.Join(out, "; ")
}

// kneeOf needs the points ascending by load.
func kneeOf(points []Point) *Knee {
	k := &Knee{}
	var measured []Point
	for _, p := range points {
		if p.recorded() { // else nothing is known of its load
			measured = append(measured, p)
		}
	}
	for _, p := range measured {
		if !p.mostKeptUp() {
			k.First, k.FirstLabel = p.Offered, p.Label
			break
		}
		k.Last, k.LastLabel = p.Offered, p.Label
	}
	for _, p := range measured {
		if p.Achieved > k.Most {
			k.Most, k.MostLabel = p.Achieved, p.Label
		}
	}
	return k
}

// found plays the search again with what was measured.
func found(how *KeepUp, points []Point, trials []Trial, records map[trialKey]*results.Record) *Found {
	b := newBisection(*how)
	over := false
	for !over {
		window, run, more := b.next()
		if !more {
			break
		}
		over = true
		for _, t := range trials {
			if t.Value == window && t.Run == run {
				r := records[t.key()]
				b.record(window, r != nil && r.Validity.KeptUp)
				over = false
			}
		}
	}
	f := &Found{WindowNS: b.passes, FailsNS: b.fails}
	for _, p := range points {
		if p.Value == b.passes {
			f.Offered, f.KeptUp, f.Trials = p.Offered, p.KeptUp, p.Trials
		}
	}
	switch {
	case over:
		f.Reason = "the search is not over"
	case b.passes == 0:
		f.Reason = fmt.Sprintf("even the longest window, %v, is not kept up with in %d of %d trials; give a longer --max", time.Duration(how.Longest), how.Need, how.Runs)
	case b.passes == how.Shortest:
		f.Reason = fmt.Sprintf("even the shortest window is kept up with; give a shorter --min than %v", time.Duration(how.Shortest))
	}
	return f
}

// growth compares neighbours among the points with a valid trial.
func growth(points []Point) []Growth {
	out := []Growth{}
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.Valid == 0 })
	for i := 1; i < len(points); i++ {
		a, b := &points[i-1], &points[i]
		step := math.Log(float64(b.Value) / float64(a.Value))
		exponent := func(x, y float64) *float64 {
			if x <= 0 || y <= 0 || step == 0 {
				return nil
			}
			e := math.Log(y/x) / step
			return &e
		}
		var perOp *float64
		if !a.mostKeptUp() && !b.mostKeptUp() {
			perOp = exponent(a.NSPerBlockOp, b.NSPerBlockOp)
		}
		out = append(out, Growth{
			From: a.Label, To: b.Label,
			NSPerBlockOp: perOp,
			EventCPU:     exponent(a.EventCPUNS, b.EventCPUNS),
			QueryP50:     exponent(a.QueryService.P50, b.QueryService.P50),
			QueryP99:     exponent(a.QueryService.P99, b.QueryService.P99),
			PeakRSS:      exponent(a.PeakRSSBytes, b.PeakRSSBytes),
		})
	}
	return out
}

// warn says what a reader of the curve should know.
func (r *Result) warn() {
	say := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	shared, injected := 0, 0
	for _, rec := range r.records {
		if rec.Config.SharedCPUs {
			shared++
		}
		if rec.Injected != nil {
			injected++
		}
	}
	if injected > 0 {
		say("%d of %d trials were slowed on purpose; no figure is that of the index", injected, len(r.records))
	}
	if shared > 0 {
		say("in %d of %d trials threads shared CPUs; the figures are not comparable with those of a run with a CPU for each thread", shared, len(r.records))
	}
	unlocked := map[string]int{}
	for _, t := range r.Trials {
		if t.Unlocked != "" {
			unlocked[t.Unlocked]++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(unlocked)) {
		say("in %d of %d trials no lock kept other measurements of kvbench off the machine: %s", unlocked[why], len(r.Trials), why)
	}
	for _, t := range r.Trials {
		for _, c := range t.Machine {
			say("during %s %s, run %d, %s: %s", r.Plan.axis().Name, r.Plan.label(t.Value), t.Run, c.Name, c.Detail)
		}
	}
	var mute []string
	for _, p := range r.Points {
		if p.Trials > 0 && p.Valid == 0 {
			mute = append(mute, p.Label)
		}
	}
	if len(mute) > 0 {
		say("no valid trial at %s %s: no figures there", r.Plan.axis().Name, strings.Join(mute, ", "))
	}
	if r.Plan.axis().Name != Window {
		return
	}
	lost := ""
	for _, p := range r.Points {
		switch {
		case !p.recorded():
		case !p.mostKeptUp() && lost == "":
			lost = p.Label
		case p.mostKeptUp() && lost != "":
			say("window %s was kept up with though the longer %s was not: the machine was not equally fast all the time, and the knee is uncertain; repeat more often", p.Label, lost)
			return
		}
	}
}

// Unmeasured are the values at which there was no valid trial, and those that
// were not reached.
func (r *Result) Unmeasured() []string {
	var out []string
	for _, p := range r.Points {
		if p.Valid == 0 {
			out = append(out, p.Label)
		}
	}
	return out
}

// Failures are the trials without a record.
func (r *Result) Failures() []string {
	var out []string
	for _, p := range r.Points {
		for _, text := range p.Failed {
			out = append(out, p.Label+", "+text)
		}
	}
	return out
}

// AxisName is the name of the axis.
func (r *Result) AxisName() string { return r.Plan.axis().Name }
