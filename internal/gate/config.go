package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/kvbench/kvbench/stats"
)

// DefaultMargin is the loss that a gate accepts if nothing else is said.
const DefaultMargin = 0.02

// Config is what a gate file says.
type Config struct {
	// Confidence is the level of a fixed look and of the anytime sequence; 0:
	// DefaultLevel.
	Confidence float64
	Metrics    []MetricConfig
}

// MetricConfig asks for one row.
type MetricConfig struct {
	// Metric is the path of a figure in the result record.
	Metric string
	// Ratio is "of/to"; empty: every ratio of the experiment.
	Ratio string
	// Better is empty if the direction is that which the metric is known for.
	Better     stats.Better
	Margin     float64
	FailBeyond float64
	// Where is the place in a gate file, for errors; empty if none asked for it.
	Where string
}

// where says in errors which metric is meant.
func (m *MetricConfig) where() string {
	if m.Where == "" {
		return "metric " + m.Metric
	}
	return m.Where
}

// configFile is the form of Config in a file. Shares are text, so that 2% and
// 0.02 can both be written.
type configFile struct {
	Confidence string             `yaml:"confidence"`
	Metrics    []metricConfigFile `yaml:"metrics"`
}

type metricConfigFile struct {
	Metric     string `yaml:"metric"`
	Ratio      string `yaml:"ratio"`
	Better     string `yaml:"better"`
	Margin     string `yaml:"margin"`
	FailBeyond string `yaml:"fail_beyond"`
}

// maxConfigBytes bounds a gate file, which people write by hand.
const maxConfigBytes = 1 << 20

// ReadConfig reads a gate file. Errors name the file, the line and the field.
func ReadConfig(r io.Reader, name string) (Config, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxConfigBytes {
		return Config{}, fmt.Errorf("%s: larger than %d bytes; that is not a gate file", name, maxConfigBytes)
	}
	var f configFile
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			return Config{}, fmt.Errorf("%s: the file is empty; list at least one metric under metrics", name)
		}
		return Config{}, fmt.Errorf("%s: %s", name, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	var c Config
	if f.Confidence != "" {
		if c.Confidence, err = ParseShare(f.Confidence); err != nil || c.Confidence <= 0.5 {
			return Config{}, fmt.Errorf("%s: confidence: %q: give a share above 50%% and below 100%%, as 95%% or 0.95", name, f.Confidence)
		}
	}
	if len(f.Metrics) == 0 {
		return Config{}, fmt.Errorf("%s: metrics: there is none; list at least one, as '- metric: rates.achieved_block_ops_per_sec'", name)
	}
	for i, m := range f.Metrics {
		row := MetricConfig{Metric: m.Metric, Ratio: m.Ratio, Better: stats.Better(m.Better), Margin: DefaultMargin}
		where := fmt.Sprintf("%s: metrics[%d]", name, i)
		if m.Metric == "" {
			return Config{}, fmt.Errorf("%s: metric is missing", where)
		}
		if m.Margin != "" {
			if row.Margin, err = ParseShare(m.Margin); err != nil {
				return Config{}, fmt.Errorf("%s (%s): margin: %w", where, m.Metric, err)
			}
		}
		if m.FailBeyond != "" {
			if row.FailBeyond, err = ParseShare(m.FailBeyond); err != nil {
				return Config{}, fmt.Errorf("%s (%s): fail_beyond: %w", where, m.Metric, err)
			}
		}
		rule := stats.Rule{Margin: row.Margin, Better: row.Better, FailBeyond: row.FailBeyond}
		if err := rule.Check(); err != nil {
			return Config{}, fmt.Errorf("%s (%s): %w", where, m.Metric, err)
		}
		for _, other := range c.Metrics {
			if other.Metric == row.Metric && other.Ratio == row.Ratio {
				return Config{}, fmt.Errorf("%s (%s): the metric is listed twice for the same ratio", where, m.Metric)
			}
		}
		row.Where = fmt.Sprintf("%s (%s)", where, m.Metric)
		c.Metrics = append(c.Metrics, row)
	}
	return c, nil
}

// ParseShare reads a share from 0 to below 1, written as 2% or 0.02. A bare 2 is
// refused: it could mean either.
func ParseShare(s string) (float64, error) {
	text, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1) {
		return 0, fmt.Errorf("%q: give a share from 0 to below 1, as 2%% or 0.02", s)
	}
	return v, nil
}
