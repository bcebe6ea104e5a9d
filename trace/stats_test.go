package trace

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// conversation loads the public trace, which lies beside the repository.
func conversation(tb testing.TB) (*Trace, Source) {
	tb.Helper()
	root, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if filepath.Dir(root) == root {
			tb.Fatal("no go.mod above the test")
		}
		root = filepath.Dir(root)
	}
	path := filepath.Join(filepath.Dir(root), "shared", "traces", "mooncake", "conversation_trace.jsonl")
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("the public trace is not at %s", path)
	}
	t, src, err := Load(tb.Context(), path, ReaderOptions{}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return t, src
}

func TestConversationTrace(t *testing.T) {
	tr, src := conversation(t)
	if src.Name != "conversation_trace.jsonl" || len(src.Warnings) > 0 || src.Generator != nil ||
		src.SHA256 != "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df" {
		t.Errorf("source %+v", src)
	}
	i := Describe(tr)
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"requests", i.Requests, 12031}, {"sessions", i.Sessions, 12031}, {"span", i.SpanMS, 3536999.0},
		{"distinct times", i.DistinctArrivalTimes, 1180},
		{"block references", i.BlockReferences, 288500}, {"distinct blocks", i.DistinctBlocks, 182790},
		{"longest request", i.MaxRequestBlocks, 247},
		{"mean input", fmt.Sprintf("%.2f", i.Input.MeanTokens), "12035.06"}, {"mean output", fmt.Sprintf("%.2f", i.Output.MeanTokens), "342.62"},
		{"input quantiles", []int{i.Input.P50Tokens, i.Input.P90Tokens, i.Input.P99Tokens, i.Input.MaxTokens}, []int{6909, 27367, 85399, 126195}},
		{"output quantiles", []int{i.Output.P50Tokens, i.Output.P90Tokens, i.Output.P99Tokens, i.Output.MaxTokens}, []int{350, 597, 1115, 2000}},
		{"hit blocks", i.PrefixHitBlocks, 105710},
		{"share of blocks", fmt.Sprintf("%.3f%%", 100*i.PrefixHitBlockShare), "36.641%"},
		{"share of tokens", fmt.Sprintf("%.3f%%", 100*i.PrefixHitTokenShare), "37.362%"},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	rows := rowsOf(tr)
	if !slices.IsSortedFunc(rows, func(a, b Request) int { return int(a.Timestamp - b.Timestamp) }) {
		t.Error("timestamps are not sorted")
	}
	if !checkIDs(t, rows, DefaultBlockSize)[0] {
		t.Error("id 0 is not used")
	}
}

// checkIDs wants an id for each block, none twice in a row, and none after two
// different ids. It returns the ids.
func checkIDs(t testing.TB, rows []Request, blockSize int) map[uint64]bool {
	t.Helper()
	used := map[uint64]bool{}
	parents := map[uint64]uint64{}
	for i, q := range rows {
		if want := (q.InputLength + blockSize - 1) / blockSize; len(q.HashIDs) != want {
			t.Fatalf("row %d has %d ids for %d tokens", i, len(q.HashIDs), q.InputLength)
		}
		here := map[uint64]bool{}
		parent := uint64(math.MaxUint64)
		for _, id := range q.HashIDs {
			if here[id] {
				t.Fatalf("row %d has id %d twice", i, id)
			}
			if p, ok := parents[id]; ok && p != parent {
				t.Fatalf("row %d: id %d comes after %d, before after %d", i, id, parent, p)
			}
			here[id], used[id], parents[id] = true, true, parent
			parent = id
		}
	}
	return used
}

// naive counts by sets of whole prefixes.
func naive(t *Trace) (hitBlocks int, hitTokens int64, repeated int) {
	cached := map[string]bool{}
	count := map[uint64]int{}
	for i := range t.Len() {
		q := t.Request(i)
		hit := 0
		for hit < len(q.HashIDs) && cached[fmt.Sprint(q.HashIDs[:hit+1])] {
			hit++
		}
		for n := range q.HashIDs {
			cached[fmt.Sprint(q.HashIDs[:n+1])] = true
		}
		hitBlocks += hit
		hitTokens += int64(min(hit*t.BlockSize, q.InputLength))
		for _, id := range q.HashIDs {
			count[id]++
		}
	}
	for _, n := range count {
		if n > 1 {
			repeated++
		}
	}
	return hitBlocks, hitTokens, repeated
}

func TestDescribeAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few ids, so that prefixes repeat, also with one id in two places.
		var rows []Request
		for range rapid.IntRange(0, 20).Draw(t, "rows") {
			ids := rapid.SliceOfN(rapid.Uint64Range(0, 2), 0, 5).Draw(t, "ids")
			rows = append(rows, Request{Timestamp: rapid.Float64Range(0, 100).Draw(t, "time"), Delay: nan,
				InputLength: rapid.IntRange(0, len(ids)*4).Draw(t, "input"), OutputLength: rapid.IntRange(0, 9).Draw(t, "output"), HashIDs: ids})
		}
		tr, err := New(4, rows)
		if err != nil {
			t.Fatal(err)
		}
		info := Describe(tr)
		if blocks, tokens, repeated := naive(tr); info.PrefixHitBlocks != blocks || info.PrefixHitTokens != tokens || info.RepeatedBlocks != repeated {
			t.Fatalf("%d blocks, %d tokens, %d repeated, want %d, %d, %d", info.PrefixHitBlocks, info.PrefixHitTokens, info.RepeatedBlocks, blocks, tokens, repeated)
		}
		arrived := 0
		for _, n := range info.Arrivals.Requests {
			arrived += n
		}
		if arrived != len(rows) || len(info.Arrivals.Requests) != arrivalBuckets {
			t.Fatalf("%d of %d requests in %d buckets", arrived, len(rows), len(info.Arrivals.Requests))
		}
		outputs := []int{}
		for _, q := range rows {
			outputs = append(outputs, q.OutputLength)
		}
		slices.Sort(outputs)
		if n := len(outputs); n > 0 {
			rank := func(p float64) int { return outputs[int(math.Floor(float64(n-1)*p/100+1e-9))] }
			if want := [4]int{rank(50), rank(90), rank(99), rank(100)}; want != [4]int{info.Output.P50Tokens, info.Output.P90Tokens, info.Output.P99Tokens, info.Output.MaxTokens} {
				t.Fatalf("quantiles %+v, want %v", info.Output, want)
			}
		}
	})
}

// Turns without timestamps arrive their delays after the turns before them.
func TestDescribeArrivals(t *testing.T) {
	info := Describe(mustNew(t,
		Request{0, "a", 100, nan, 1, 1, []uint64{1}},
		Request{0, "a", nan, 30, 1, 1, []uint64{1}},
		Request{0, "a", nan, 30, 1, 1, []uint64{1}},
		Request{0, "", 130, nan, 1, 1, []uint64{1}},
		Request{0, "", 159.5, nan, 1, 1, []uint64{1}},
	))
	want := make([]int, 60)
	want[0], want[30], want[59] = 1, 2, 2
	if info.SpanMS != 60 || info.DistinctArrivalTimes != 4 || info.Arrivals.BucketMS != 1 || !slices.Equal(info.Arrivals.Requests, want) {
		t.Errorf("%+v", info)
	}
}

func TestInfoJSON(t *testing.T) {
	b, err := json.Marshal(Describe(mustNew(t)))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	if len(fields) != reflect.TypeFor[Info]().NumField() {
		t.Errorf("fields %v", fields)
	}
	for name := range fields {
		if name != strings.ToLower(name) {
			t.Errorf("%s is no snake_case", name)
		}
	}
}

func TestPlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []Request
		scale := math.Pow(10, float64(rapid.IntRange(-6, 12).Draw(t, "scale")))
		for range rapid.IntRange(2, 50).Draw(t, "rows") {
			rows = append(rows, Request{Timestamp: scale * rapid.Float64Range(0, 1).Draw(t, "time"), Delay: nan})
		}
		tr, err := New(512, rows)
		if err != nil {
			t.Fatal(err)
		}
		info := Describe(tr)
		width := rapid.IntRange(50, 200).Draw(t, "width")
		plot := info.Plot(width)
		if info.SpanMS < 1e-6 {
			if plot != "" {
				t.Fatal("a plot of one instant")
			}
			return
		}
		if got := widest(plot); got > min(width, 80) || got < 30 {
			t.Fatalf("the plot is %d wide, want up to %d:\n%s", got, min(width, 80), plot)
		}
		if !utf8.ValidString(plot) || !strings.Contains(plot, "requests per second") || strings.Count(plot, "\n") > 12 {
			t.Fatalf("the plot is\n%s", plot)
		}
	})
	if plot := Describe(mustNew(t)).Plot(80); plot != "" {
		t.Errorf("the plot of an empty trace is %q", plot)
	}
	// The rate is more than a number can hold.
	if plot := Describe(mustNew(t, Request{Delay: nan}, Request{Timestamp: 1e-303, Delay: nan})).Plot(80); plot != "" {
		t.Errorf("the plot of an instant is %q", plot)
	}
}

func BenchmarkDescribe(b *testing.B) {
	tr, _ := conversation(b)
	for b.Loop() {
		Describe(tr)
	}
}
