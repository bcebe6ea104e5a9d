package sweep

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWindows(t *testing.T) {
	a, err := Windows(750*time.Millisecond, 24*time.Second, 6)
	want := []int64{750e6, 1500e6, 3e9, 6e9, 12e9, 24e9}
	if err != nil || a.Name != Window || !slices.Equal(a.Values, want) {
		t.Errorf("%+v, %v; want %v", a, err, want)
	}
	for want, args := range map[string]struct {
		min, max time.Duration
		steps    int
	}{
		"--min is 0s":      {0, 1, 2},
		"--max is 1s":      {time.Second, time.Second, 2},
		"--steps is 1;":    {1, 2, 1},
		"--steps is 1001;": {1, 2, 1001},
		"only 3 windows":   {100, 102, 5},
	} {
		if a, err := Windows(args.min, args.max, args.steps); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %+v, %v; want %q", args, a, err, want)
		}
	}
}

func TestWindowsAscendBetweenTheEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shortest := rapid.Int64Range(1, 1e12).Draw(t, "min")
		longest := shortest + rapid.Int64Range(1, 1e15).Draw(t, "more")
		steps := rapid.IntRange(2, 40).Draw(t, "steps")
		a, err := Windows(time.Duration(shortest), time.Duration(longest), steps)
		if err != nil {
			return // too close together
		}
		if len(a.Values) != steps || a.Values[0] != shortest || a.Values[steps-1] != longest {
			t.Fatalf("%d to %d in %d: %v", shortest, longest, steps, a.Values)
		}
		for i := 1; i < steps; i++ {
			if a.Values[i] <= a.Values[i-1] {
				t.Fatalf("not ascending: %v", a.Values)
			}
		}
	})
}

func TestParseAxis(t *testing.T) {
	for text, want := range map[string]Axis{
		"workers=2,16,128":         {"workers", []int64{2, 16, 128}},
		"workers=16,2":             {"workers", []int64{2, 16}},
		"duplication-factor=1,2":   {"duplication", []int64{1, 2}},
		"event-workers=1,4":        {"event-threads", []int64{1, 4}},
		"block-size=16,2147483647": {"block-size", []int64{16, 2147483647}},
	} {
		got, err := ParseAxis(text)
		if err != nil || got.Name != want.Name || !slices.Equal(got.Values, want.Values) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                     "no =",
		"workers":              "no =",
		"worker=1,2":           "did you mean workers?",
		"window=1,2":           "not an axis",
		"workers=":             `value 1 is ""`,
		"workers=1":            "2 to 1000 points",
		"workers=1,1":          "named twice",
		"workers=1,0":          `value 2 is "0"`,
		"workers=1,-2":         `value 2 is "-2"`,
		"workers=1,+2":         `value 2 is "+2"`,
		"workers=1,2k":         `value 2 is "2k"`,
		"workers=1,3000000000": "value 2",
	} {
		if a, err := ParseAxis(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, a, err, want)
		}
	}
}

func FuzzParseAxis(f *testing.F) {
	f.Add("workers=2,16,128")
	f.Add("length=1,2")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAxis(s)
		if err != nil {
			return
		}
		if len(a.Values) < 2 || !slices.IsSorted(a.Values) || a.Values[0] < 1 || a.Flag() == "duration" {
			t.Errorf("%q: %+v", s, a)
		}
		// What it means can be written and read again.
		var values []string
		for _, v := range a.Values {
			values = append(values, a.label(v))
		}
		if b, err := ParseAxis(a.Name + "=" + strings.Join(values, ",")); err != nil || b.Name != a.Name || !slices.Equal(a.Values, b.Values) {
			t.Errorf("%q: %+v, then %+v, %v", s, a, b, err)
		}
	})
}
