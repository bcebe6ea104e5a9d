package rounds

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/kvbench/kvbench/internal/nearest"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/stats"
)

// Metric is a figure of a trial.
type Metric struct {
	// Path leads to the figure in the record, as in rates.achieved_block_ops_per_sec.
	// Paths that begin with trial. are of the process: see trialMetrics.
	Path   string       `json:"path"`
	Unit   string       `json:"unit"`             // ns, 1/s, B or "" for a plain number
	Better stats.Better `json:"better,omitempty"` // "": neither direction is
}

// trialMetrics are known of every trial, whatever wrote its record.
var trialMetrics = map[string]func(*Trial) float64{
	"trial.wall_ns":       func(t *Trial) float64 { return float64(t.WallNS) },
	"trial.cpu_ns":        func(t *Trial) float64 { return float64(t.Usage.UserNS + t.Usage.SystemNS) },
	"trial.max_rss_bytes": func(t *Trial) float64 { return float64(t.Usage.MaxRSSBytes) },
}

// Metrics lists the metrics of a record, sorted.
func Metrics() []string { return slices.Clone(metricPaths()) }

// metricPaths are the numbers of a record that are no part of a list.
var metricPaths = sync.OnceValue(func() []string {
	var paths []string
	for name := range trialMetrics {
		paths = append(paths, name)
	}
	var walk func(prefix string, t reflect.Type)
	walk = func(prefix string, t reflect.Type) {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Struct:
			for i := range t.NumField() {
				name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
				if name != "" && name != "-" {
					walk(strings.TrimPrefix(prefix+"."+name, "."), t.Field(i).Type)
				}
			}
		case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64:
			paths = append(paths, prefix)
		}
	}
	walk("", reflect.TypeFor[results.Record]())
	slices.Sort(paths)
	return paths
})

// ResolveMetric returns the metric that a name means: its whole path, or an end
// of the path that only one metric has, where query_ and event_ may stand for
// queries. and events.: query_service.p50, achieved_block_ops_per_sec.
func ResolveMetric(name string) (Metric, error) {
	paths := metricPaths()
	full := name
	for short, long := range map[string]string{"query_": "queries.", "event_": "events."} {
		if rest, ok := strings.CutPrefix(name, short); ok {
			full = long + rest
		}
	}
	var found []string
	for _, p := range paths {
		if p == name || p == full {
			return describe(p), nil
		}
		if strings.HasSuffix(p, "."+name) {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 1:
		return describe(found[0]), nil
	case len(found) > 1:
		return Metric{}, fmt.Errorf("metric %q can be any of %s; write one of them", name, strings.Join(found, ", "))
	}
	candidates := slices.Clone(paths)
	for _, p := range paths {
		if _, last, ok := strings.Cut(p, "."); ok {
			candidates = append(candidates, last)
		}
	}
	for _, guess := range []string{full, name} {
		if near, ok := nearest.Name(guess, candidates); ok {
			return Metric{}, fmt.Errorf("a result record has no metric %q; did you mean %s?", name, near)
		}
	}
	return Metric{}, fmt.Errorf("a result record has no metric %q; 'kvbench rounds metrics' lists them", name)
}

// describe says what the path of a metric tells about it.
func describe(path string) Metric {
	m := Metric{Path: path}
	group, _, _ := strings.Cut(path, ".")
	last := path[strings.LastIndexByte(path, '.')+1:]
	latency := (group == "queries" || group == "events") && last != "n"
	switch {
	case latency || strings.HasSuffix(last, "_ns"):
		m.Unit = "ns"
	case strings.HasSuffix(last, "_per_sec"):
		m.Unit = "1/s"
	case strings.HasSuffix(last, "_bytes"):
		m.Unit = "B"
	}
	switch group {
	case "rates":
		if strings.HasPrefix(last, "achieved_") || strings.HasPrefix(last, "issued_") {
			m.Better = stats.Higher
		}
	case "resident_blocks_reader":
		switch last {
		case "passes", "passes_per_sec", "reads", "reads_per_sec":
			m.Better = stats.Higher
		case "missed_passes":
			m.Better = stats.Lower
		}
	case "queries", "events":
		if latency {
			m.Better = stats.Lower
		}
	case "timing", "depths", "anomalies", "machine_use", "trial":
		if last != "window_ns" {
			m.Better = stats.Lower
		}
	}
	return m
}

// Throughput says whether the window pins the metric as long as the index keeps
// up: whatever the index does, the work is done when the window ends.
func (m Metric) Throughput() bool {
	group, last, _ := strings.Cut(m.Path, ".")
	return group == "rates" || group == "timing" && last != "drain_ns" && last != "prepare_ns" || m.Path == "trial.wall_ns"
}

// Waiting says whether the metric is one of waiting, which an overload makes that
// of the queue.
func (m Metric) Waiting() bool {
	group, rest, _ := strings.Cut(m.Path, ".")
	part, _, _ := strings.Cut(rest, ".")
	return group == "queries" && part != "service" && part != "lookup" && part != "selection" && part != "booking" && part != "upkeep" || group == "events"
}

// figures is a record as plain JSON.
type figures map[string]any

// read returns the metric of a trial. why says why there is none.
func (m Metric) read(t *Trial, f figures) (value float64, why string) {
	if of, ok := trialMetrics[m.Path]; ok {
		return of(t), ""
	}
	var v any = map[string]any(f)
	for name := range strings.SplitSeq(m.Path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return 0, "its record has no " + m.Path
		}
		if v, ok = object[name]; !ok {
			return 0, "its record has no " + m.Path
		}
	}
	value, ok := v.(float64)
	switch {
	case !ok:
		return 0, fmt.Sprintf("%s in its record is no number", m.Path)
	case value < 0:
		return 0, fmt.Sprintf("%s is unknown (%g)", m.Path, value)
	}
	return value, ""
}

// parse reads the record of a trial.
func parse(record json.RawMessage) (figures, error) {
	var f figures
	if err := json.Unmarshal(record, &f); err != nil {
		return nil, err
	}
	return f, nil
}

// Load says how a variant or an experiment stood to what was offered.
type Load string

// The loads.
const (
	KeepUp     Load = "keep-up"    // every trial kept up
	Overloaded Load = "overloaded" // every trial took at least 1.5 x window
	Between    Load = "between"    // neither: neither throughput nor latency is clean
	NoLoad     Load = "unknown"    // no valid trial says
)

// overloadedFrom is the length, in windows, from which the throughput is that of
// the backend.
const overloadedFrom = 1.5

// loads counts trials by how they stood to the load.
type loads struct{ trials, keptUp, over int }

func (l *loads) add(f figures) {
	window, _ := Metric{Path: "timing.window_ns"}.read(nil, f)
	end, why := Metric{Path: "timing.end_ns"}.read(nil, f)
	validity, _ := f["validity"].(map[string]any)
	kept, known := validity["kept_up"].(bool)
	config, _ := f["config"].(map[string]any)
	if serial, _ := config["serial"].(bool); serial {
		return // it is offered nothing at any time
	}
	if why != "" || !known || !(window > 0) || math.IsInf(end/window, 0) {
		return
	}
	l.trials++
	switch {
	case kept:
		l.keptUp++
	case end >= overloadedFrom*window:
		l.over++
	}
}

func (l *loads) load() Load {
	switch {
	case l.trials == 0:
		return NoLoad
	case l.keptUp == l.trials:
		return KeepUp
	case l.over == l.trials:
		return Overloaded
	}
	return Between
}

// defaults are the metrics that a load makes meaningful.
func (l Load) defaults() []string {
	throughput := []string{"rates.achieved_block_ops_per_sec"}
	latency := []string{"queries.service.p50", "queries.service.p99", "events.accepted_to_finished.p50", "events.accepted_to_finished.p99"}
	switch l {
	case KeepUp:
		return latency
	case Overloaded, NoLoad:
		return throughput
	}
	return append(throughput, latency...)
}
