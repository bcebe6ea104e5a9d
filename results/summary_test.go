package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
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

	for name, r := range map[string]*Record{"overloaded": sampleRecord(), "pinned": pinned, "invalid": invalid, "empty": {}} {
		var b strings.Builder
		if err := WriteSummary(&b, r); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > summaryWidth {
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
		999600: "1.00ms", 45_600_000: "45.6ms", 2_000_000_000: "2s", 75_123_456_789: "75.1s", -1500: "-1.50µs"} {
		if got := ns(n); got != want {
			t.Errorf("ns(%d) = %s, want %s", n, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 12: "12", 12.34: "12.3", 999.7: "1.00k", 12031: "12.0k", 2102000: "2.10M", 24e9: "24G", 0.5: "0.50"} {
		if got := count(v); got != want {
			t.Errorf("count(%v) = %s, want %s", v, got, want)
		}
	}
}
