package stats

import (
	"encoding/csv"
	"math"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// The naive references of this file enumerate everything.

// allMedians returns the distribution of the median over all nⁿ resamples.
func allMedians(x []float64) []atom {
	n := len(x)
	count := map[float64]int{}
	draw, sorted := make([]int, n), make([]float64, n)
	total := 0
	for {
		for i, d := range draw {
			sorted[i] = x[d]
		}
		slices.Sort(sorted)
		count[sorted[(n-1)/2]/2+sorted[n/2]/2]++
		total++
		i := 0
		for ; i < n; i++ {
			if draw[i]++; draw[i] < n {
				break
			}
			draw[i] = 0
		}
		if i == n {
			break
		}
	}
	var out []atom
	for v, c := range count {
		out = append(out, atom{value: v, p: float64(c) / float64(total), size: math.Abs(v)})
	}
	return join(out)
}

func TestMedianAtomsAreThoseOfAllResamples(t *testing.T) {
	for _, x := range [][]float64{
		{1, 3},
		{1, 2, 4},
		{1, 2, 4, 8},
		{-3, 0, 1, 7, 9},
		{0.97, 0.985, 0.992, 1.001, 1.004, 1.013},
		{0.98, 0.99, 0.99, 1, 1.01, 1.01}, // ties, and means that equal values
		{0.6, 0.988, 0.993, 0.997, 1.001, 1.006, 1.012},
	} {
		got, want := medianAtoms(x), allMedians(x)
		if len(got) != len(want) {
			t.Errorf("%v: %d atoms, want %d", x, len(got), len(want))
			continue
		}
		for i := range got {
			near(t, "atom", got[i].value, want[i].value)
			near(t, "its probability", got[i].p, want[i].p)
		}
	}
}

func TestMedianAtomsSumToOne(t *testing.T) {
	for n := 2; n <= maxExact; n += 1 + n/7 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(i * i)
		}
		var sum float64
		for _, a := range medianAtoms(x) {
			if a.p < 0 {
				t.Fatalf("n=%d: probability %g", n, a.p)
			}
			sum += a.p
		}
		if math.Abs(sum-1) > 1e-10 {
			t.Errorf("n=%d: probabilities add up to %.15g", n, sum)
		}
	}
}

// TestEvenLevel goes through all patterns of signs of values with distinct sizes,
// which is what a symmetric distribution draws from.
func TestEvenLevel(t *testing.T) {
	for _, n := range []int{6, 8, 10, 12} {
		for _, level := range []float64{0.8, 0.95, 0.99} {
			covered := 0
			x := make([]float64, n)
			p := Prepare(MethodExactBootstrap, n, level)
			for pattern := range 1 << n {
				for i := range x {
					// Any sizes give the same count; these give no equal sums.
					x[i] = math.Sqrt(float64(i + 2))
					if pattern>>i&1 == 1 {
						x[i] = -x[i]
					}
				}
				if p.Interval(x).Contains(0) {
					covered++
				}
			}
			want := float64(covered) / float64(int(1)<<n)
			if got := p.Blank().TrueLevel; math.Abs(got-want) > 1e-4 {
				t.Errorf("n=%d at %g: level %.6f, enumerated %.6f", n, level, got, want)
			}
		}
	}
}

// TestWalshRank compares with all sums of signed ranks.
func TestWalshRank(t *testing.T) {
	for n := 1; n <= 12; n++ {
		counts := make([]int, n*(n+1)/2+1)
		for pattern := range 1 << n {
			sum := 0
			for r := 1; r <= n; r++ {
				if pattern>>(r-1)&1 == 1 {
					sum += r
				}
			}
			counts[sum]++
		}
		for _, level := range []float64{0.5, 0.9, 0.95, 0.9818, 0.99} {
			want, below := 0, 0
			for 2*float64(below+counts[want])/float64(int(1)<<n) <= 1-level {
				below += counts[want]
				want++
			}
			rank, trueLevel := walshRank(n, level)
			if rank != want {
				t.Errorf("n=%d at %g: rank %d, want %d", n, level, rank, want)
			}
			near(t, "level", trueLevel, 1-2*float64(below)/float64(int(1)<<n))
		}
	}
}

func TestSignLevel(t *testing.T) {
	for n := 1; n <= 14; n++ {
		for k := 0; k <= (n+1)/2; k++ {
			covered := 0
			for pattern := range 1 << n {
				if below := bits.OnesCount(uint(pattern)); below >= k && n-below >= k {
					covered++
				}
			}
			near(t, "level", signLevel(n, k), float64(covered)/float64(int(1)<<n))
		}
	}
}

// TestInterpolationIsExactForLaplace: the weight is derived from a distribution
// with exponential tails, where the level is exactly that asked for.
func TestInterpolationIsExactForLaplace(t *testing.T) {
	for n := MinValues; n <= 200; n++ {
		for _, level := range []float64{0.9, 0.95, 0.9818} {
			k, lambda := interpolation(n, level)
			if k == 0 {
				continue
			}
			b := distuv.Binomial{N: float64(n), P: 0.5}
			// Minima of exponentials have rates k and n-k.
			a, c := float64(k)*lambda, float64(n-k)*(1-lambda)
			miss := b.CDF(float64(k-1)) + b.Prob(float64(k))*a/(a+c)
			if math.Abs(1-2*miss-level) > 1e-9 {
				t.Errorf("n=%d: level %.12f for Laplace, want %g", n, 1-2*miss, level)
			}
			if normal := interpolatedNormalLevel(n, k, lambda); math.Abs(normal-level) > 0.008 {
				t.Errorf("n=%d: level %.4f for normal values", n, normal)
			}
		}
	}
}

func TestAnytime(t *testing.T) {
	f, err := os.Open("testdata/ranks.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		n, _ := strconv.Atoi(row[0])
		want, err := strconv.Atoi(row[len(row)-1])
		if err != nil {
			t.Fatal(err)
		}
		if got := anytimeRank(n, 0.95, 0); got != want {
			t.Errorf("n=%d: rank %d, want %d", n, got, want)
		}
	}
	// The exact probability of ever excluding the true median.
	for n, want := range map[int]float64{20: 0.01020050048828125, 40: 0.017441059168049833, 60: 0.021280463852149656,
		100: 0.025396752925785, 200: 0.030043412799935033, 400: 0.0335383052692013} {
		near(t, "probability of ever excluding", 1-neverExcluded(n, 0.95), want)
	}
	// By all sequences of signs.
	const n = 14
	for _, level := range []float64{0.8, 0.95} {
		covered := 0
		for pattern := range 1 << n {
			ok := true
			for i := 1; i <= n; i++ {
				below := bits.OnesCount(uint(pattern) & (1<<i - 1))
				if k := min(below, i-below); signEvidence(i, k) >= 1/(1-level) {
					ok = false
				}
			}
			if ok {
				covered++
			}
		}
		near(t, "never excluded", neverExcluded(n, level), float64(covered)/float64(int(1)<<n))
	}
}

func TestPocockLevel(t *testing.T) {
	// Critical values as published for equally spaced looks (Jennison and Turnbull
	// 2000, table 2.1, α = 0.05 and 0.1).
	for _, c := range []struct {
		looks int
		level float64
		value float64
	}{
		{1, 0.95, 1.960}, {2, 0.95, 2.178}, {3, 0.95, 2.289}, {4, 0.95, 2.361}, {5, 0.95, 2.413}, {10, 0.95, 2.555},
		{2, 0.9, 1.875}, {5, 0.9, 2.122},
	} {
		looks := make([]int, c.looks)
		for i := range looks {
			looks[i] = 10 * (i + 1)
		}
		got, err := PocockLevel(looks, c.level)
		if err != nil {
			t.Fatal(err)
		}
		if z := distuv.UnitNormal.Quantile((1 + got) / 2); math.Abs(z-c.value) > 0.0006 {
			t.Errorf("%d looks at %g: critical value %.4f, want %.3f", c.looks, c.level, z, c.value)
		}
	}
	if got, _ := PocockLevel(DefaultLooks(), 0.95); math.Abs(got-0.9818) > 0.00005 {
		t.Errorf("level of each of the default looks %.5f, want 0.9818", got)
	}
	// A look after every round.
	every := make([]int, 15)
	for i := range every {
		every[i] = i + 6
	}
	if got, err := PocockLevel(every, 0.95); err != nil || got < 0.975 || got > 0.995 {
		t.Errorf("level of 15 looks: %.5f, %v", got, err)
	}
	for _, looks := range [][]int{nil, {0, 10}, {10, 10}, {20, 10}} {
		if _, err := PocockLevel(looks, 0.95); err == nil {
			t.Errorf("looks %v are accepted", looks)
		}
	}
	for _, level := range []float64{0, 1, math.NaN()} {
		if _, err := PocockLevel([]int{10}, level); err == nil {
			t.Errorf("level %g is accepted", level)
		}
	}
}

func TestFisherExact(t *testing.T) {
	for _, c := range []struct {
		a, n, b, m int
		want       float64
	}{
		{3, 4, 1, 4, 34.0 / 70}, // the lady tasting tea
		{0, 20, 0, 20, 1},
		{6, 20, 0, 20, 2 * 38760.0 / 3838380}, // 2·C(20,6)/C(40,6)
		{5, 5, 0, 5, 2.0 / 252},
		{1, 10, 2, 10, 1},
		{0, 0, 0, 0, 1},
	} {
		near(t, "p", FisherExact(c.a, c.n, c.b, c.m), c.want)
	}
	if !math.IsNaN(FisherExact(3, 2, 0, 5)) {
		t.Error("an impossible table has a p-value")
	}
}

// TestRunsTest compares with all arrangements.
func TestRunsTest(t *testing.T) {
	for n := 2; n <= 12; n += 2 {
		count := map[int]int{}
		total := 0
		var arrangements [][]float64
		for pattern := range 1 << n {
			if bits.OnesCount(uint(pattern)) != n/2 {
				continue
			}
			x := make([]float64, n)
			runs := 0
			for i := range x {
				x[i] = float64(pattern >> i & 1)
				if i == 0 || x[i] != x[i-1] {
					runs++
				}
			}
			count[runs]++
			total++
			arrangements = append(arrangements, x)
		}
		for _, x := range arrangements {
			runs, p := RunsTest(x)
			few, many := 0, 0
			for r, c := range count {
				if r <= runs {
					few += c
				}
				if r >= runs {
					many += c
				}
			}
			near(t, "p", p, min(1, 2*float64(min(few, many))/float64(total)))
		}
	}
	if runs, p := RunsTest([]float64{1, 1, 1}); runs != 0 || p != 1 {
		t.Errorf("equal values: %d runs, p = %g", runs, p)
	}
	if _, p := RunsTest(nil); p != 1 {
		t.Errorf("no values: p = %g", p)
	}
	// Unequal sides: two below and four above, of 15 arrangements 2 have two runs.
	runs, p := RunsTest([]float64{1, 2, 5, 5, 5, 5, 5, 9, 9, 9, 9})
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
	near(t, "p", p, 4.0/15)
}

func TestHolm(t *testing.T) {
	got := Holm([]float64{0.04, 0.01, 0.02, 0.03})
	for i, want := range []float64{0.06, 0.04, 0.06, 0.06} {
		near(t, "adjusted", got[i], want)
	}
	if got := Holm([]float64{0.9, 0.6}); got[0] != 1 || got[1] != 1 {
		t.Errorf("adjusted %v", got)
	}
	if got := Holm(nil); len(got) != 0 {
		t.Errorf("adjusted %v", got)
	}
}

// TestPBelow: p is at most α just where the interval of 1-2α ends below.
func TestPBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(0.9, 1.1), MinValues, 30).Draw(t, "values")
		theta := rapid.Float64Range(0.88, 1.12).Draw(t, "theta")
		alpha := rapid.Float64Range(0.001, 0.3).Draw(t, "alpha")
		p := PBelow(x, theta)
		iv := Interpolated(x, 1-2*alpha)
		if !iv.Ok() || math.Abs(p-alpha) < 1e-9 || math.Abs(iv.High-theta) < 1e-12 {
			return
		}
		if (p < alpha) != (iv.High < theta) {
			t.Fatalf("p = %g, α = %g, but the interval is %g to %g about %g", p, alpha, iv.Low, iv.High, theta)
		}
		if above := PAbove(x, theta); math.Abs(p+above-1) > 1e-6 && Median(x) != theta && p > 1e-6 && above > 1e-6 {
			t.Fatalf("p below %g and above %g", p, above)
		}
	})
	six := []float64{0.9, 0.91, 0.92, 0.93, 0.94, 0.95}
	near(t, "all six below", PBelow(six, 1), 1.0/64)
	near(t, "all six above", PBelow(six, 0.8), 1-1.0/64)
	if p := PBelow(six[:5], 1); p != 1 {
		t.Errorf("p = %g from five values", p)
	}
	if p := PBelow([]float64{1, 1, 1, 1, 1, 1}, 1); p < 0.5 {
		t.Errorf("p = %g though all are equal to theta", p)
	}
}
