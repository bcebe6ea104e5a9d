package stats_test

import (
	"fmt"

	"github.com/kvbench/kvbench/stats"
)

func ExampleCompare() {
	base := stats.Series{Variant: "base"}
	tracked := stats.Series{Variant: "tracked"}
	for i, v := range [][2]float64{{30.91, 30.62}, {30.74, 30.41}, {31.02, 30.77}, {30.66, 30.55}, {30.88, 30.70},
		{30.79, 30.36}, {30.95, 27.10}, {30.83, 30.59}, {30.71, 30.48}, {30.97, 30.80}} {
		base.Readings = append(base.Readings, stats.Reading{Round: i + 1, Slot: i % 2, Value: v[0]})
		tracked.Readings = append(tracked.Readings, stats.Reading{Round: i + 1, Slot: 1 - i%2, Value: v[1]})
	}
	tracked.Readings[6].Invalid = "issued late"

	pairs, err := stats.Pair(tracked, base)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := stats.Compare(pairs, 0.95)
	fmt.Printf("%s %.4f, 95%% interval %.4f to %.4f, %d of %d pairs\n", pairs.Name(), c.Median, c.Interpolated.Low, c.Interpolated.High, len(c.Ratios), c.Planned)
	fmt.Printf("bootstrap %.4f to %.4f, truly %.1f%%\n", c.Bootstrap.Low, c.Bootstrap.High, 100*c.Bootstrap.TrueLevel)
	fmt.Println("left out:", pairs.DroppedText())
	fmt.Println(stats.Rule{Margin: 0.02, Better: stats.Higher}.Judge(c.Interpolated).Verdict)
	// Output:
	// tracked/base 0.9922, 95% interval 0.9896 to 0.9944, 9 of 10 pairs
	// bootstrap 0.9893 to 0.9945, truly 96.1%
	// left out: round 7 (tracked: issued late)
	// PASS
}

func ExampleRoundsNeeded() {
	// Ratios of an A/A run, in which both variants are the same.
	sigma, _ := stats.Noise([]float64{1.01, 0.97, 1.02, 0.99, 1.00, 1.03, 0.98})
	fmt.Printf("a gate at 2%% needs %d rounds; 10 resolve %.1f%%\n",
		stats.RoundsNeeded(sigma, 0.02, 0.95, 0.9, stats.MedianEfficiency),
		100*stats.Resolvable(sigma, 10, 0.95, 0.9, stats.MedianEfficiency))
	// Output:
	// a gate at 2% needs 36 rounds; 10 resolve 3.8%
}
