package sweep

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// search plays a bisection against an oracle.
func search(t interface{ Fatalf(string, ...any) }, how KeepUp, keepsUp func(window int64, run int) bool) (b *bisection, trials int) {
	b = newBisection(how)
	for {
		window, run, more := b.next()
		if !more {
			return b, trials
		}
		if trials++; trials > 10_000 {
			t.Fatalf("no end: %+v", b)
		}
		if window < how.Shortest || window > how.Longest || run < 1 || run > how.Runs {
			t.Fatalf("asked for window %d, run %d of %+v", window, run, how)
		}
		b.record(window, keepsUp(window, run))
	}
}

func TestBisectionFindsTheThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		how := KeepUp{Shortest: rapid.Int64Range(1000, 1e9).Draw(t, "min"), Runs: rapid.IntRange(1, 7).Draw(t, "runs")}
		how.Longest = how.Shortest * rapid.Int64Range(2, 1000).Draw(t, "times")
		how.Need = rapid.IntRange(1, how.Runs).Draw(t, "need")
		how.Precision = rapid.SampledFrom([]float64{0.01, 0.05, 0.5}).Draw(t, "precision")
		if err := how.check(); err != nil {
			t.Fatal(err)
		}
		threshold := rapid.Int64Range(how.Shortest/2, how.Longest+how.Longest/2).Draw(t, "threshold")
		b, trials := search(t, how, func(window int64, _ int) bool { return window >= threshold })
		// The ends, and then halves on a logarithmic scale.
		limit := 3 + math.Ceil(math.Log2(math.Log(float64(how.Longest)/float64(how.Shortest))/math.Log(1+how.Precision)))
		if float64(trials) > (limit+2)*float64(how.Runs) {
			t.Fatalf("%d trials", trials)
		}
		switch {
		case threshold > how.Longest:
			if b.passes != 0 || b.fails != how.Longest {
				t.Fatalf("threshold %d: %+v", threshold, b)
			}
		case threshold <= how.Shortest:
			if b.passes != how.Shortest || b.fails != 0 {
				t.Fatalf("threshold %d: %+v", threshold, b)
			}
		default:
			if b.passes < threshold || b.fails >= threshold {
				t.Fatalf("threshold %d: %+v", threshold, b)
			}
			// Three digits are the finest step there is.
			if closest := max(1+how.Precision, 1.02); float64(b.passes) > float64(b.fails)*closest+1 {
				t.Fatalf("threshold %d, precision %v: between %d and %d", threshold, how.Precision, b.fails, b.passes)
			}
		}
	})
}

func TestBisectionCountsRuns(t *testing.T) {
	how := KeepUp{Shortest: 100, Longest: 10000, Runs: 5, Need: 3, Precision: 0.05}
	// Every second trial keeps up: 3 of 5 do, from the first on.
	b, _ := search(t, how, func(_ int64, run int) bool { return run%2 == 1 })
	if b.passes != 100 {
		t.Errorf("3 of 5 kept up: %+v", b)
	}
	// 2 of 5 do.
	b, trials := search(t, how, func(_ int64, run int) bool { return run%2 == 0 })
	if b.passes != 0 || trials != 5 {
		t.Errorf("2 of 5 kept up: %+v after %d trials", b, trials)
	}
	// What is decided is not tried again.
	if b, trials := search(t, how, func(int64, int) bool { return true }); b.passes != 100 || trials != 6 {
		t.Errorf("all kept up: %+v after %d trials", b, trials)
	}
	if b, trials := search(t, how, func(int64, int) bool { return false }); b.passes != 0 || trials != 3 {
		t.Errorf("none kept up: %+v after %d trials", b, trials)
	}
}

func TestKeepUpRefuses(t *testing.T) {
	good := KeepUp{Shortest: 1, Longest: 2, Runs: 3, Need: 2, Precision: 0.05}
	for want, change := range map[string]func(*KeepUp){
		"--min":                   func(k *KeepUp) { k.Shortest = 0 },
		"--max":                   func(k *KeepUp) { k.Longest = 1 },
		"--keepup-runs is 0":      func(k *KeepUp) { k.Runs = 0 },
		"--keepup-need is 4":      func(k *KeepUp) { k.Need = 4 },
		"--keepup-need is 0":      func(k *KeepUp) { k.Need = 0 },
		"--keepup-precision is 0": func(k *KeepUp) { k.Precision = 0 },
		"--keepup-precision is N": func(k *KeepUp) { k.Precision = math.NaN() },
	} {
		k := good
		change(&k)
		if err := k.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", k, err, want)
		}
	}
	if err := good.check(); err != nil {
		t.Error(err)
	}
}
