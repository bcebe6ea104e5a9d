package sweep

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/text"
)

// page is the text of a result.
type page struct{ text.Builder }

// WriteText writes the result for people: a table, curves, and what to know.
func (r *Result) WriteText(w io.Writer) error {
	b := &page{}
	if r.Interrupted {
		b.Wrap("", "INTERRUPTED: some trials are missing")
	}
	axis := r.Plan.axis()
	switch {
	case r.KeepUp != nil:
		b.found(r.KeepUp)
	case r.Knee != nil:
		b.knee(r.Knee)
	}
	b.Line("")
	b.table(axis.Name, r.Points)
	if axis.Name == Window {
		b.curves(r.Points)
	}
	if axis.Name != Window {
		b.work(axis.Name, r.Points)
		b.growth(axis.Name, r.Growth)
	}
	b.Line("")
	for _, p := range r.Points {
		for _, line := range p.Invalid {
			b.Wrap("invalid: ", fmt.Sprintf("%s %s, %s", axis.Name, p.Label, line))
		}
		for _, line := range p.Failed {
			b.Wrap("failed: ", fmt.Sprintf("%s %s, %s", axis.Name, p.Label, line))
		}
	}
	for _, line := range r.Warnings {
		b.Wrap("warning: ", line)
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

func (b *page) found(f *Found) {
	if f.WindowNS == 0 {
		b.Wrap("NOT FOUND: ", f.Reason)
		return
	}
	below := ""
	if f.FailsNS > 0 {
		below = fmt.Sprintf("; %v is not", time.Duration(f.FailsNS))
	}
	b.Wrap("", fmt.Sprintf("shortest window that is kept up with: %v, %s block-ops/s offered, %d of %d trials%s",
		time.Duration(f.WindowNS), short(f.Offered), f.KeptUp, f.Trials, below))
	if f.Reason != "" {
		b.Wrap("note: ", f.Reason)
	}
}

func (b *page) knee(k *Knee) {
	switch {
	case k.LastLabel == "" && k.FirstLabel == "":
		b.Wrap("", "no trial, no knee")
	case k.LastLabel == "":
		b.Wrap("", fmt.Sprintf("knee: below %s block-ops/s, at which (window %s) it does not keep up; give a longer --max", short(k.First), k.FirstLabel))
	case k.FirstLabel == "":
		b.Wrap("", fmt.Sprintf("knee: above %s block-ops/s, with which (window %s) it keeps up; give a shorter --min", short(k.Last), k.LastLabel))
	default:
		b.Wrap("", fmt.Sprintf("knee: keeps up with %s block-ops/s (window %s), not with %s (window %s)", short(k.Last), k.LastLabel, short(k.First), k.FirstLabel))
	}
	if k.Most > 0 {
		b.Wrap("", fmt.Sprintf("most achieved: %s block-ops/s (window %s)", short(k.Most), k.MostLabel))
	}
}

// labelWidth bounds the first column of the table.
const labelWidth = 9

func (b *page) table(axis string, points []Point) {
	title := axis
	if len(title) > labelWidth {
		title = "value"
	}
	wide := len(title)
	for _, p := range points {
		wide = max(wide, len([]rune(p.column(axis))))
	}
	const rates, latencies = "%-*s %7s %8s %5s %5s ", "%-6s %-6s %-6s %-6s %-6s %-6s"
	b.Line(fmt.Sprintf(rates+"%-13s %-13s %-13s", wide, "", "offered", "achieved", "done", "kept", "query service", "query in all", "event in all"))
	b.Line(fmt.Sprintf(rates+latencies, wide, title, "b-ops/s", "b-ops/s", "x win", "up", "p50", "p99", "p50", "p99", "p50", "p99"))
	for _, p := range points {
		label, kept := p.column(axis), fmt.Sprintf("%d/%d", p.KeptUp, p.Trials)
		switch {
		case p.Trials == 0:
			b.Line(fmt.Sprintf("%-*s not run", wide, label))
		case !p.recorded():
			b.Line(fmt.Sprintf(rates+"no record", wide, label, "-", "-", "-", kept))
		case p.Valid == 0:
			b.Line(fmt.Sprintf(rates+"no valid trial", wide, label, short(p.Offered), "-", "-", kept))
		default:
			q, t, e := &p.QueryService, &p.QueryTotal, &p.EventTotal
			b.Line(fmt.Sprintf(rates+latencies, wide, label, short(p.Offered), short(p.Achieved),
				strconv.FormatFloat(p.Done, 'f', 2, 64), kept, ns(q.P50), ns(q.P99), ns(t.P50), ns(t.P99), ns(e.P50), ns(e.P99)))
		}
	}
	b.Wrap("", "b-ops: block-ops; done x win: the time until all was done, in windows; kept up: how many of the trials; in all: from scheduled to finished")
}

// column is the label as far as it fits the table.
func (p *Point) column(axis string) string {
	label := p.Label
	if axis == Window {
		for unit := time.Nanosecond; len([]rune(label)) > labelWidth && unit < time.Minute; unit *= 10 {
			label = time.Duration(p.Value).Round(unit).String()
		}
	}
	return label
}

// work shows what a point had to do and what that took.
func (b *page) work(axis string, points []Point) {
	b.Line("")
	b.Line(fmt.Sprintf("%-21s %13s %13s %9s %13s", axis, "block-ops", "ns a block-op", "event CPU", "peak memory"))
	for _, p := range points {
		if p.Valid == 0 {
			continue
		}
		cpu := "-"
		if p.EventCPUNS > 0 {
			cpu = ns(p.EventCPUNS)
		}
		b.Line(fmt.Sprintf("%-21s %13s %13s %9s %13s", p.Label, short(float64(p.BlockOps)), digits(p.NSPerBlockOp), cpu, short(p.PeakRSSBytes)+"B"))
	}
}

func (b *page) growth(axis string, growth []Growth) {
	if len(growth) == 0 {
		return
	}
	b.Line("")
	b.Wrap("", "growth: the exponent e if the figure goes with "+axis+"^e (0: no growth, 1: in proportion); ns a block-op only where it did not keep up, event CPU a block")
	b.Line(fmt.Sprintf("%-21s %13s %9s %9s %9s %11s", axis, "ns a block-op", "event CPU", "query p50", "query p99", "peak memory"))
	for _, g := range growth {
		cell := func(v *float64) string {
			if v == nil {
				return "-"
			}
			return strconv.FormatFloat(*v, 'f', 2, 64)
		}
		b.Line(fmt.Sprintf("%-21s %13s %9s %9s %9s %11s", g.From+" to "+g.To, cell(g.NSPerBlockOp), cell(g.EventCPU), cell(g.QueryP50), cell(g.QueryP99), cell(g.PeakRSS)))
	}
}

// curves plots achieved rate and latency against the offered rate.
func (b *page) curves(points []Point) {
	var rates, latencies plot
	for _, p := range points {
		if p.Valid == 0 {
			continue
		}
		mark := 'o'
		if !p.mostKeptUp() {
			mark = 'x'
		}
		rates.add(p.Offered, p.Offered, '.')
		rates.add(p.Offered, p.Achieved, mark)
		latencies.add(p.Offered, p.QueryTotal.P99, '9')
		latencies.add(p.Offered, p.QueryTotal.P50, '5')
		latencies.add(p.Offered, p.QueryService.P50, 's')
	}
	if rates.columns() < 2 {
		return
	}
	k := kneeOf(points)
	for _, c := range []struct {
		plot    *plot
		caption string
		format  func(float64) string
	}{
		{&rates, "achieved against offered, block-ops/s: o kept up, x did not, . achieved as much as offered", short},
		{&latencies, "query latency against offered block-ops/s: s service p50, 5 9 scheduled to finished p50 p99", ns},
	} {
		b.Line("")
		b.Wrap("", c.caption)
		for _, l := range c.plot.render(k, c.format) {
			b.Line(l)
		}
	}
}

// plot is a scatter plot with two logarithmic scales.
type plot struct {
	x, y []float64
	mark []rune
}

const (
	plotWidth  = 64
	plotHeight = 12
)

func (p *plot) add(x, y float64, mark rune) {
	if x > 0 && y > 0 && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		p.x, p.y, p.mark = append(p.x, x), append(p.y, y), append(p.mark, mark)
	}
}

// columns counts different x.
func (p *plot) columns() int {
	seen := map[float64]bool{}
	for _, x := range p.x {
		seen[x] = true
	}
	return len(seen)
}

// render draws the plot with the knee as a vertical line between its two loads.
func (p *plot) render(k *Knee, format func(float64) string) []string {
	x, y := newScale(p.x, plotWidth), newScale(p.y, plotHeight)
	grid := make([][]rune, plotHeight)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", plotWidth))
	}
	knee := -1
	if k.Last > 0 && k.First > 0 {
		knee = x.at(math.Sqrt(k.Last * k.First))
		for i := range grid {
			grid[i][knee] = '|'
		}
	}
	for i := range p.x {
		grid[plotHeight-1-y.at(p.y[i])][x.at(p.x[i])] = p.mark[i]
	}
	var out []string
	for i, row := range grid {
		label := ""
		if i%(plotHeight-1) == 0 || i == plotHeight/2 {
			label = format(y.value(plotHeight - 1 - i))
		}
		out = append(out, fmt.Sprintf("%9s |%s", label, string(row)))
	}
	out = append(out, strings.Repeat(" ", 10)+"+"+strings.Repeat("-", plotWidth))
	axis := []rune(strings.Repeat(" ", plotWidth))
	put := func(at int, text string) {
		at = max(0, min(at, plotWidth-len(text)))
		copy(axis[at:], []rune(text))
	}
	left, right := short(x.low), short(x.high)
	put(0, left)
	put(plotWidth-len(right), right)
	if at := knee - 2; knee >= 0 && at > len(left) && at+4 < plotWidth-len(right) {
		put(at, "knee")
	}
	return append(out, strings.Repeat(" ", 11)+string(axis))
}

// scale maps values to cells by their logarithms.
type scale struct {
	low, high float64
	cells     int
}

func newScale(values []float64, cells int) scale {
	s := scale{low: math.Inf(1), high: 0, cells: cells}
	for _, v := range values {
		s.low, s.high = min(s.low, v), max(s.high, v)
	}
	return s
}

func (s *scale) at(v float64) int {
	if s.high <= s.low {
		return 0
	}
	f := math.Log(v/s.low) / math.Log(s.high/s.low)
	return max(0, min(s.cells-1, int(math.Round(f*float64(s.cells-1)))))
}

func (s *scale) value(cell int) float64 {
	return s.low * math.Pow(s.high/s.low, float64(cell)/float64(s.cells-1))
}

// short writes a number with three digits and k, M or G.
func short(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= u.size*0.9995 {
			return digits(v/u.size) + u.name
		}
	}
	return digits(v)
}

// ns writes a duration with three digits.
func ns(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		if v >= u.size*0.9995 {
			return digits(v/u.size) + u.name
		}
	}
	return digits(v) + "ns"
}

func digits(v float64) string {
	switch {
	case v >= 999_999.5:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case v >= 99.95 || v == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// WriteCSV writes one row for each trial, invalid ones and those without a record
// among them, in the order in which they ran.
func (r *Result) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	axis := r.Plan.axis()
	if err := out.Write([]string{"axis", "value", "run", "exit", "valid", "kept_up", "reasons", "failure", "record",
		"offered_block_ops_per_sec", "issued_block_ops_per_sec", "achieved_block_ops_per_sec", "window_ns", "end_ns", "block_ops",
		"query_service_p50_ns", "query_service_p99_ns", "query_service_p99_9_ns",
		"query_scheduled_to_finished_p50_ns", "query_scheduled_to_finished_p99_ns", "query_scheduled_to_finished_p99_9_ns",
		"event_scheduled_to_finished_p50_ns", "event_scheduled_to_finished_p99_ns", "event_scheduled_to_finished_p99_9_ns",
		"peak_rss_bytes"}); err != nil {
		return err
	}
	for _, t := range r.Trials {
		row := []string{axis.Name, strconv.FormatInt(t.Value, 10), strconv.Itoa(t.Run), strconv.Itoa(t.Exit)}
		rec := r.records[t.key()]
		if rec == nil {
			row = append(row, "false", "false", "", t.Failure, "")
			row = append(row, make([]string, 16)...)
		} else {
			f := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
			n := func(v int64) string { return strconv.FormatInt(v, 10) }
			q, qt, et := &rec.Queries.Service, &rec.Queries.ScheduledToFinished, &rec.Events.ScheduledToFinished
			row = append(row, strconv.FormatBool(rec.Validity.Valid), strconv.FormatBool(rec.Validity.KeptUp), reasons(rec), "", t.Record,
				f(rec.Rates.OfferedBlockOpsPerSec), f(rec.Rates.IssuedBlockOpsPerSec), f(rec.Rates.AchievedBlockOpsPerSec),
				n(rec.Timing.WindowNS), n(rec.Timing.EndNS), n(rec.Totals.BlockOps),
				n(q.P50), n(q.P99), n(q.P999), n(qt.P50), n(qt.P99), n(qt.P999), n(et.P50), n(et.P99), n(et.P999), n(rec.Machine.PeakRSSBytes))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
