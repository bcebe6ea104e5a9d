package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// DefaultLooks returns the numbers of rounds after which a sequential gate looks.
func DefaultLooks() []int { return []int{10, 20, 30, 40} }

// PocockLevel returns the level that the interval of every look needs so that all
// of them together cover with the level: equal critical values c with
// P(|S(n)| ≤ c·√n at every look) = level for a normal random walk S (Pocock 1977).
// The looks are numbers of values, rising.
func PocockLevel(looks []int, level float64) (float64, error) {
	if len(looks) == 0 {
		return 0, fmt.Errorf("no looks")
	}
	if !(level > 0 && level < 1) {
		return 0, fmt.Errorf("level %g is not between 0 and 1", level)
	}
	for i, n := range looks {
		if n <= 0 || i > 0 && n <= looks[i-1] {
			return 0, fmt.Errorf("looks %v: give rising numbers of rounds", looks)
		}
	}
	// One look needs the plain value, and more of them at most Bonferroni's.
	low := distuv.UnitNormal.Quantile((1 + level) / 2)
	high := distuv.UnitNormal.Quantile(1 - (1-level)/2/float64(len(looks)))
	for high-low > 1e-9 {
		mid := (low + high) / 2
		if stays(looks, mid) < level {
			low = mid
		} else {
			high = mid
		}
	}
	return 2*distuv.UnitNormal.CDF(high) - 1, nil
}

// stays returns the probability that a normal random walk lies within ±c standard
// deviations at every look, by integrating its density from look to look (Armitage,
// McPherson and Rowe 1969).
func stays(looks []int, c float64) float64 {
	const nodes = 96
	var at, weight, density [2][nodes]float64
	for i, n := range looks {
		now, before := i%2, (i+1)%2
		reach := c * math.Sqrt(float64(n))
		quad.Legendre{}.FixedLocations(at[now][:], weight[now][:], -reach, reach)
		step := distuv.Normal{Mu: 0, Sigma: math.Sqrt(float64(n))}
		if i > 0 {
			step.Sigma = math.Sqrt(float64(n - looks[i-1]))
		}
		for j, s := range at[now] {
			if i == 0 {
				density[now][j] = step.Prob(s)
				continue
			}
			var sum float64
			for l, from := range at[before] {
				sum += weight[before][l] * density[before][l] * step.Prob(s-from)
			}
			density[now][j] = sum
		}
	}
	last := (len(looks) - 1) % 2
	var p float64
	for j, d := range density[last] {
		p += weight[last][j] * d
	}
	return p
}
