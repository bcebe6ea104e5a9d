package results

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/internal/text"
)

// sampleRecord is a record with every part.
func sampleRecord() *Record {
	lat := func(f int64) Distribution {
		return Distribution{N: 12031, Mean: float64(f) * 1.5, P50: f, P90: 3 * f, P99: 10 * f, P999: 40 * f, Max: 1000 * f}
	}
	return &Record{
		Schema: ReplayV1, Kind: "replay",
		Provenance: Provenance{
			Argv: []string{"kvbench", "replay", "conversation_trace.jsonl"}, Version: "(devel)", Commit: "0123456789abcdef",
			GoVersion: "go1.26.1", BinarySHA256: strings.Repeat("ab", 32), TraceName: "conversation_trace.jsonl",
			TraceSHA256: strings.Repeat("cd", 32), CorpusSHA256: strings.Repeat("ef", 32), Seed: 42,
			StartTime: "2026-11-01T12:00:00.000000001Z", Build: []string{"-buildmode=exe"},
			Host: Host{OS: "linux", Arch: "amd64", Kernel: "6.1.0", CPUModel: "Some Processor", LogicalCPUs: 2, AllowedCPUs: "0-1", MemoryBytes: 24 << 30},
		},
		Config: Config{
			Index: "flat", Workers: 128, DPRanks: 1, Ranks: 128, BlockSize: 128, TraceBlockSize: 512, GPUBlocks: 16384,
			LengthFactor: 1, DuplicationFactor: 1, SpeedUp: 1, Rescale: "rank", TimeModel: "model", WindowNS: 2e9,
			EventThreads: 2, QueryThreads: 2, QueryLanes: 128, EventIssuers: 1, QueueCapacity: 8192, Assign: "roundrobin",
			TrackResidentBlocks: true, CounterLayout: "packed", SharedCPUs: true, Idle: "yield", GOMAXPROCS: 7, ReaderRate: 1000,
			QuiesceNS: 5e9, WarmupLookups: 128,
		},
		Totals: Totals{Queries: 12031, RequestBlocks: 1100000, StoredEvents: 12031, StoredBlocks: 1000000, RemovedEvents: 20, RemovedBlocks: 2000,
			BlockOps: 2102000, IssuedQueries: 12031, IssuedEvents: 12051, IssuedBlockOps: 2102000, CompletedQueries: 12031,
			CompletedEvents: 12051, CompletedBlockOps: 2102000, MatchedRanks: 1500000, RankBlocks: 90000, EngineHitBlocks: 80000},
		Rates: Rates{OfferedOpsPerSec: 12041, IssuedOpsPerSec: 12040, AchievedOpsPerSec: 9500.5,
			OfferedBlockOpsPerSec: 1051000, IssuedBlockOpsPerSec: 1050900, AchievedBlockOpsPerSec: 829000.25},
		Timing:  Timing{WindowNS: 2e9, IssueEndNS: 2000100000, LastQueryEndNS: 2000200000, LastEventEndNS: 2535000000, EndNS: 2535000000, DrainNS: 534900000, PrepareNS: 1200000000},
		Queries: QueryLatencies{IssueLag: lat(9000), QueueWait: lat(2500), Service: lat(1700), ScheduledToFinished: lat(15000)},
		Events:  EventLatencies{IssueLag: lat(12000), AcceptedToFinished: lat(220000), ScheduledToFinished: lat(240000)},
		Depths: Depths{QueriesAtIssueEnd: 1, EventsAtIssueEnd: 400, MaxQueries: 31, MaxEvents: 612, LaneAtIssueEnd: []int64{0, 1},
			EventThreadAtIssueEnd: []int64{180, 220}, BlockedSubmits: 3, BlockedNS: 1500},
		Threads: []Thread{
			{Role: "query_issuer", CPU: -1, RunNS: 3e8, UserNS: 2e8, SystemNS: 1e8, RunQueueWaitNS: 4e7, Operations: 12031, InvoluntaryContextSwitches: 12},
			{Role: "event_issuer", CPU: -1, RunNS: 3e8, UserNS: 2e8, SystemNS: 1e8, RunQueueWaitNS: 4e7, Operations: 12051},
			{Role: "query", CPU: -1, RunNS: 5e8, UserNS: 5e8, RunQueueWaitNS: 4e7, Operations: 6000},
			{Role: "query", Number: 1, CPU: -1, RunNS: 5e8, UserNS: 5e8, RunQueueWaitNS: -1, Operations: 6031},
			{Role: "event", CPU: -1, RunNS: 19e8, UserNS: 19e8, RunQueueWaitNS: 4e8, Operations: 12051},
		},
		EventThreads: []EventThread{
			{Number: 0, Ranks: 64, Accepted: 6000, Applied: 6000, BusyNS: 19e8, BusyShare: 0.7495, QueueHighWater: 180, BlockedSubmits: 3, BlockedNS: 1500},
			{Number: 1, Ranks: 64, Accepted: 6051, Applied: 6051, BusyNS: 20e8, BusyShare: 0.78895, QueueHighWater: 220},
		},
		Index: &IndexState{ResidentPairs: 998000,
			Memory: &IndexMemory{Bytes: 60e6, HugeBytes: 32 << 20, BytesPerPair: 60.12, Parts: []MemoryPart{{Name: "table", Bytes: 40e6, HugeBytes: 32 << 20}, {Name: "names", Bytes: 20e6}}},
			Shape:  &IndexShape{Unit: "node", Units: 29032, Blocks: 1700000, MaxDepth: 31, Holders: 40414, MaxHolders: 128}},
		Resident:  &Resident{Ranks: 128, Sum: 998000, Min: 1200, Median: 8000, Max: 16384, ReachableSum: 990000, ReachableRanks: 127, ByRank: []RankBlocks{{Worker: 0, DP: 0, Blocks: 8000}}},
		Reader:    &Reader{Rate: 1000, Passes: 2535, PassesPerSec: 1000, Reads: 324480, ReadsPerSec: 128000, LastRanks: 128, LastSum: 998000, MissedPasses: 2},
		Anomalies: Anomalies{Duplicate: 3, Orphaned: 17, ByRank: []RankAnomaly{{Worker: 7, Duplicate: 3, Orphaned: 17}}},
		Validity:  Validity{Valid: true, Reasons: []Reason{}},
		Verify:    &Verify{OK: true, Ranks: 128, Queries: 2000, First: []string{}},
		Machine:   MachineUse{HeapAllocations: 12, HeapAllocatedBytes: 900, MinorFaults: 5, StealNS: 1e7, PeakRSSBytes: 512 << 20, ClockReadNS: 31.5},
		Warnings: []string{"not pinned, CPUs shared: the run has 7 threads and this process may use 2 CPUs (0-1); figures are not comparable with those of a pinned run",
			"overloaded: done at 1.27 x window; throughput measures the backend, latencies measure the queue"},
	}
}

// withPolicy adds what a trial with a policy has.
func withPolicy(r *Record) *Record {
	r.Config.Policy = "kv:temperature=0.2"
	r.Queries.Lookup = Distribution{N: 12031, Mean: 1500, P50: 1200, P90: 2500, P99: 6000, P999: 20000, Max: 900000}
	r.Queries.Selection = Distribution{N: 12031, Mean: 450, P50: 400, P90: 700, P99: 1500, P999: 9000, Max: 80000}
	r.Queries.Upkeep = Distribution{N: 12031, Mean: 350, P50: 100, P90: 900, P99: 4000, P999: 8000, Max: 20000}
	r.Queries.Booking = Distribution{N: 12031, Mean: 250, P50: 200, P90: 300, P99: 800, P999: 5000, Max: 9000}
	r.Policy = &Policy{
		Name: "kv", Text: "kv:temperature=0.2", Full: "kv:overlap=1,temperature=0.2", Inputs: []string{"CACHE", "LOAD"}, Partitions: 2,
		Selections: 12030, Failures: 1, FirstFailure: "operation 7: no rank can serve the request",
		ChosenBlocks: 330000, TraceBlocks: 90000, BestBlocks: 400000,
		TraceRank: 94, DistinctRanks: 127, MaxDispatches: 188, MeanDispatches: 93.98, Imbalance: 2.0004,
		ByPartition: []Partition{{Number: 0, Selections: 6000, Failures: 1, ChosenBlocks: 160000}, {Number: 1, Selections: 6030, ChosenBlocks: 170000}},
	}
	return r
}

func TestRecordRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	want := withPolicy(sampleRecord())
	if err := Write(path, want, false); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("read back differently: %s", d)
	}
	if err := Write(path, want, false); err == nil || !strings.Contains(err.Error(), "--overwrite") {
		t.Errorf("an existing file: %v, want an error that says what to do", err)
	}
	if err := Write(path, want, true); err != nil {
		t.Errorf("overwrite: %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "empty",
		"{":                               "line 1",
		"[]":                              "not a result record",
		"{}":                              "no field schema",
		`{"schema": "kvbench.result/v9"}`: `"kvbench.result/v9"`,
		`{"schema": 1}`:                   "line 1",
		`{"schema": "kvbench.result/v1"}`: `kind is ""`,
		`{"schema": "kvbench.result/v1", "kind": "simulate"}`:                       `kind is "simulate"`,
		`{"schema": "kvbench.result/v1", "kind": "replay"} extra`:                   "line 1",
		`{"schema": "kvbench.result/v1", "kind": "replay"} {}`:                      "line 1",
		"{\"schema\": \"kvbench.result/v1\", \"kind\": \"replay\",\n\"totals\": 3}": "line 2",
	} {
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	dir := t.TempDir()
	if _, err := Read(filepath.Join(dir, "none.json")); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	path := filepath.Join(dir, "cut.json")
	if err := Write(path, sampleRecord(), false); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, len(whole) / 2, len(whole) - 3} {
		if err := os.WriteFile(path, whole[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("cut after %d bytes: %v, want an error that names the file", n, err)
		}
	}
	if err := os.WriteFile(path, bytes.Replace(whole, []byte(`"kind"`), []byte(`"news": {"a": [1]}, "kind"`), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(path); err != nil || r.Totals != sampleRecord().Totals {
		t.Errorf("an unknown field: %v", err)
	}
}

// TestWriteFailureKeepsTheOldRecord has a figure that JSON cannot hold.
func TestWriteFailureKeepsTheOldRecord(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	if err := Write(path, sampleRecord(), false); err != nil {
		t.Fatal(err)
	}
	bad := sampleRecord()
	bad.Rates.IssuedOpsPerSec = math.NaN()
	if err := Write(path, bad, true); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("NaN: %v, want an error that names it and the file", err)
	}
	if _, err := Read(path); err != nil {
		t.Errorf("the old record is gone: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

func TestJSONIsReadable(t *testing.T) {
	r := sampleRecord()
	r.Warnings = []string{"a < b & c > d"}
	var b strings.Builder
	if err := r.Encode(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\n  \"warnings\": [\n    \"a < b & c > d\"\n") {
		t.Errorf("not as expected: %s", b.String())
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schema": "kvbench.result/v1", "kind": "replay", "warnings": [null, "\u001b[2J"]}`))
	whole, err := json.Marshal(sampleRecord())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if (r == nil) == (err == nil) {
			t.Fatalf("record %v, error %v", r, err)
		}
		if err == nil {
			// What decodes can be shown and validated without a panic.
			_ = Validate(b)
			var shown strings.Builder
			if err := WriteSummary(&shown, r); err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(shown.String(), "\n") {
				if n := utf8.RuneCountInString(line); n > text.Width || strings.ContainsFunc(line, unicode.IsControl) {
					t.Fatalf("%d columns: %q", n, line)
				}
			}
			var again strings.Builder
			if err := r.Encode(&again); err != nil {
				t.Fatal(err)
			}
			if _, err := Decode([]byte(again.String())); err != nil {
				t.Fatalf("not read back: %v", err)
			}
		}
	})
}

// TestSummarizeAgainstItsDefinition compares with the definition by counting.
func TestSummarizeAgainstItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Int64Range(-50, 1000), 1, 3000).Draw(t, "samples")
		naive := func(share float64) int64 {
			best := int64(1 << 62)
			for _, v := range samples {
				notAbove := 0
				for _, w := range samples {
					if w <= v {
						notAbove++
					}
				}
				if float64(notAbove) >= share*float64(len(samples))-1e-9 && v < best {
					best = v
				}
			}
			return best
		}
		if len(samples) > 400 {
			samples = samples[:400]
		}
		want := Distribution{N: int64(len(samples)), P50: naive(.5), P90: naive(.9), P99: naive(.99), P999: naive(.999), Max: naive(1)}
		for _, v := range samples {
			want.Mean += float64(v)
		}
		want.Mean /= float64(len(samples))
		got := Summarize(samples)
		if d := got.Mean - want.Mean; d > 1e-9 || d < -1e-9 {
			t.Fatalf("mean %v, want %v", got.Mean, want.Mean)
		}
		got.Mean = want.Mean
		if got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
	if got := Summarize(nil); got != (Distribution{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestQuantilesOfEverySize has the samples 1..n, whose ranks are their values, so
// that the definition can be checked in integers for sizes that matter.
func TestQuantilesOfEverySize(t *testing.T) {
	for n := int64(1); n <= 2100; n++ {
		samples := make([]int64, n)
		for i := range samples {
			samples[i] = n - int64(i)
		}
		d := Summarize(samples)
		for k, got := range map[int64]int64{500: d.P50, 900: d.P90, 990: d.P99, 999: d.P999} {
			if 1000*got < k*n || 1000*(got-1) >= k*n {
				t.Errorf("n = %d: %d/1000 is %d", n, k, got)
			}
		}
	}
}
