package results

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kvbench/kvbench/internal/text"
)

func TestSummaryGolden(t *testing.T) {
	pinned := sampleRecord()
	c := &pinned.Config
	c.Pinned, c.SharedCPUs, c.Idle = true, false, "spin"
	c.QueryIssuerCPU, c.IssuerCPUs, c.BackendCPUs, c.ReaderCPU = "1", "0", "2-5", "6"
	pinned.Validity.KeptUp = true
	pinned.Warnings = []string{}

	invalid := sampleRecord()
	invalid.Validity = Validity{Reasons: []Reason{
		{Rule: "issue_span", Detail: "the last operation was issued at 2.2s, 110.00% of the window of 2s; the limit is 101%"},
		{Rule: "event_thread_failed", Detail: "event thread 0: panic: index is broken\ngoroutine 7 [running]:"},
	}}
	invalid.Verify = &Verify{Mismatches: 2, First: []string{"rank 3/0 has 7 resident blocks, the reference has 8"}}
	invalid.Resident, invalid.Reader = nil, nil
	invalid.Config.TrackResidentBlocks = false

	injected := sampleRecord()
	injected.Injected = &Injected{EventDelayNS: 200, QueryWork: 2}

	guessed := sampleRecord()
	guessed.Config.Approximate, guessed.Config.TTLNS = "ttl", 120e9
	guessed.Approximate = &Approximate{PredictedBlocks: 90000, OverPredicted: 13000, UnderPredicted: 3000, Decisions: 12031,
		ExpiredBlocks: 45000, EvictedBlocks: 1200, OverCapacity: 17, PeakOver: 250, PeakBlocks: 9000, Collisions: 1}

	serial := withPolicy(sampleRecord())
	serial.Config.Serial, serial.Config.QueryThreads, serial.Config.TrackedFor = true, 1, "policy"
	serial.Policy.Inputs, serial.Policy.ChosenBlocks, serial.Policy.Partitions = []string{}, -1, 1
	serial.Queries = QueryLatencies{Service: serial.Queries.Service, Selection: serial.Queries.Selection}
	for name, r := range map[string]*Record{"policy": withPolicy(sampleRecord()), "serial": serial, "approximate": guessed, "injected": injected, "overloaded": sampleRecord(), "pinned": pinned, "invalid": invalid, "empty": {}} {
		var b strings.Builder
		if err := WriteSummary(&b, r); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > text.Width {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		path := filepath.Join("testdata", name+".summary.txt")
		if *update {
			if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s: the summary differs from %s (go test ./results -update rewrites it):\n%s", name, path, b.String())
		}
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0ns", 999: "999ns", 1000: "1µs", 1234: "1.23µs", 99950: "100µs", 999499: "999µs",
		999600: "1.00ms", 45_600_000: "45.6ms", 2_000_000_000: "2s", 75_123_456_789: "75.1s", -1500: "-1.50µs",
		999_999e9: "999999s", math.MaxInt64: "9.2e+09s"} {
		if got := ns(n); got != want {
			t.Errorf("ns(%d) = %s, want %s", n, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 12: "12", 12.34: "12.3", 999.7: "1.00k", 12031: "12.0k", 2102000: "2.10M", 24e9: "24G", 0.5: "0.50",
		1e15: "1e+06G", -1.79e308: "-1.8e+299G"} {
		if got := count(v); got != want {
			t.Errorf("count(%v) = %s, want %s", v, got, want)
		}
	}
}

// TestSummaryOfExtremes has every number as large as it can be, which a file can
// hold though no trial writes it.
func TestSummaryOfExtremes(t *testing.T) {
	for name, set := range map[string]func(v reflect.Value){
		"largest": func(v reflect.Value) {
			switch {
			case v.CanInt():
				v.SetInt(math.MaxInt64)
			case v.CanUint():
				v.SetUint(1<<v.Type().Bits() - 1)
			case v.CanFloat():
				v.SetFloat(math.MaxFloat64)
			}
		},
		"smallest": func(v reflect.Value) {
			switch {
			case v.CanInt():
				v.SetInt(math.MinInt64)
			case v.CanFloat():
				v.SetFloat(-math.MaxFloat64)
			}
		},
	} {
		for _, valid := range []bool{true, false} {
			r := sampleRecord()
			everyNumber(reflect.ValueOf(r).Elem(), set)
			r.Validity.Valid = valid
			r.Verify.OK = valid
			var b strings.Builder
			if err := WriteSummary(&b, r); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > text.Width {
					t.Errorf("%s: %d columns: %s", name, n, line)
				}
			}
		}
	}
}

func everyNumber(v reflect.Value, set func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		everyNumber(v.Elem(), set)
	case reflect.Slice:
		for i := range v.Len() {
			everyNumber(v.Index(i), set)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			everyNumber(v.Field(i), set)
		}
	default:
		set(v)
	}
}

func TestUsages(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{{2, 3, 5}, {0, 0, 0}, {-1, 3, -1}, {3, -1, -1}, {math.MaxInt64, 1, math.MaxInt64}} {
		if got := plus(c.a, c.b); got != c.want {
			t.Errorf("plus(%d, %d) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
	for want, c := range map[string][2]float64{"97.4%": {1.948, 2}, "100%": {2, 2}, "0%": {0, 2}, "unknown": {1, 0}} {
		if got := percent(c[0], c[1]); got != want {
			t.Errorf("percent(%v, %v) = %s, want %s", c[0], c[1], got, want)
		}
	}
}
