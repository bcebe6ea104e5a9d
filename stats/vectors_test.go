package stats

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
)

// vector is a data set with intervals computed elsewhere: by rational arithmetic
// and enumeration of all resamples, and by R (wilcox.test, t.test, quantileCI). Ends of
// the t intervals are those of quantiles of Student's t to all digits: older versions of
// scipy have nine of them, which moves an end in its eleventh digit; see TestStudentT.
type vector struct {
	Name           string     `json:"name"`
	Values         []float64  `json:"values"`
	Median         float64    `json:"median"`
	Bootstrap      [2]float64 `json:"bootstrap"`
	BootstrapTails [2]float64 `json:"bootstrap_tails"`
	BootstrapSE    float64    `json:"bootstrap_se"`
	Interpolated   [2]float64 `json:"interpolated"`
	Lambda         float64    `json:"lambda"`
	Order          [2]float64 `json:"order"`
	OrderRank      int        `json:"order_rank"`
	OrderLevel     float64    `json:"order_level"`
	HodgesLehmann  struct {
		Estimate float64    `json:"estimate"`
		Ends     [2]float64 `json:"ends"`
		Rank     int        `json:"rank"`
		Level    float64    `json:"level"`
	} `json:"hodges_lehmann"`
	GeometricMean float64    `json:"geometric_mean"`
	LogT          [2]float64 `json:"log_t"`
	Trimmed       struct {
		Estimate float64    `json:"estimate"`
		Ends     [2]float64 `json:"ends"`
	} `json:"trimmed"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v []vector
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// near fails unless got is want to about 12 digits.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 2e-12*max(1, math.Abs(want))) {
		t.Errorf("%s is %.15g, want %.15g", what, got, want)
	}
}

func ends(t *testing.T, what string, got Interval, want [2]float64) {
	t.Helper()
	if !got.Ok() {
		t.Errorf("%s: %s", what, got.Explain())
		return
	}
	near(t, what+" low", got.Low, want[0])
	near(t, what+" high", got.High, want[1])
}

func TestVectors(t *testing.T) {
	const level = 0.95
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			n := len(v.Values)
			near(t, "median", Median(v.Values), v.Median)

			ends(t, "bootstrap", ExactBootstrap(v.Values, level), v.Bootstrap)
			near(t, "bootstrap standard error", BootstrapSE(v.Values), v.BootstrapSE)
			var below, above float64
			for _, a := range medianAtoms(v.Values) {
				if a.value <= v.Bootstrap[0]+1e-12 {
					below += a.p
				}
				if a.value >= v.Bootstrap[1]-1e-12 {
					above += a.p
				}
			}
			near(t, "bootstrap tail below", below, v.BootstrapTails[0])
			near(t, "bootstrap tail above", above, v.BootstrapTails[1])

			ends(t, "interpolated", Interpolated(v.Values, level), v.Interpolated)
			k, lambda := interpolation(n, level)
			near(t, "lambda", lambda, v.Lambda)
			if k != v.OrderRank {
				t.Errorf("order rank %d, want %d", k, v.OrderRank)
			}
			order := Conservative(v.Values, level)
			ends(t, "order", order, v.Order)
			near(t, "order level", order.TrueLevel, v.OrderLevel)

			hl := HodgesLehmann(v.Values, level)
			near(t, "Hodges-Lehmann", hl.Estimate, v.HodgesLehmann.Estimate)
			ends(t, "Hodges-Lehmann", hl, v.HodgesLehmann.Ends)
			near(t, "Hodges-Lehmann level", hl.TrueLevel, v.HodgesLehmann.Level)

			lt := LogT(v.Values, level)
			near(t, "geometric mean", lt.Estimate, v.GeometricMean)
			ends(t, "t", lt, v.LogT)
			tt := TrimmedLogT(v.Values, level)
			near(t, "trimmed mean", tt.Estimate, v.Trimmed.Estimate)
			ends(t, "trimmed t", tt, v.Trimmed.Ends)
		})
	}
}

// TestRanks compares ranks and levels for n = 5 to 60 with tables computed in
// rational arithmetic.
func TestRanks(t *testing.T) {
	f, err := os.Open("testdata/ranks.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 57 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows[1:] {
		cell := map[string]float64{}
		for i, s := range row {
			if s == "" {
				continue
			}
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			cell[rows[0][i]] = v
		}
		n := int(cell["n"])
		for _, c := range []struct {
			suffix string
			level  float64
		}{{"", 0.95}, {"_9818", 0.9818}} {
			k, lambda := interpolation(n, c.level)
			if k != int(cell["order_rank"+c.suffix]) {
				t.Errorf("n=%d at %g: rank %d, want %g", n, c.level, k, cell["order_rank"+c.suffix])
			}
			if k > 0 {
				near(t, "level of the order statistics", signLevel(n, k), cell["order_level"+c.suffix])
				near(t, "lambda", lambda, cell["lambda"+c.suffix])
			}
		}
		rank, trueLevel := walshRank(n, 0.95)
		if rank != int(cell["walsh_rank"]) {
			t.Errorf("n=%d: Walsh rank %d, want %g", n, rank, cell["walsh_rank"])
		}
		near(t, "Walsh level", trueLevel, cell["walsh_level"])
		if want, ok := cell["odd_bootstrap_rank"]; ok {
			values := make([]float64, n)
			for i := range values {
				values[i] = float64(i + 1)
			}
			low := lowerEnd(medianAtoms(values), 0.025)
			if low != want {
				t.Errorf("n=%d: bootstrap rank %g, want %g", n, low, want)
			}
			near(t, "bootstrap level", signLevel(n, int(low)), cell["odd_bootstrap_level"])
		}
	}
}
