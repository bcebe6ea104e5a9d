package corpus

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
)

func TestDescribe(t *testing.T) {
	c := random(30, 500) // deadlines are multiples of 50 in a window of 1000 ns
	d := c.Describe(20)
	perDeadline := map[int64]int64{}
	want := make([]Bucket, 20)
	queries, events := make([]int64, 4), make([]int64, 4)
	for _, op := range c.Ops {
		perDeadline[op.Deadline]++
		b := &want[op.Deadline/50]
		b.BlockOps += int64(op.Len)
		if op.Kind == Query {
			b.Queries++
			queries[op.Slot]++
		} else {
			b.Events++
			events[op.Slot]++
		}
	}
	most := int64(0)
	for _, n := range perDeadline {
		most = max(most, n)
	}
	if d.Deadlines != int64(len(perDeadline)) || d.MostAtOnce != most {
		t.Errorf("%d deadlines, at most %d ops: got %d and %d", len(perDeadline), most, d.Deadlines, d.MostAtOnce)
	}
	for i := range want {
		if d.Buckets[i] != want[i] {
			t.Errorf("bucket %d: %+v, want %+v", i, d.Buckets[i], want[i])
		}
	}
	if d.QueriesPerRank != spreadOf(queries) || d.EventsPerRank != spreadOf(events) {
		t.Errorf("per rank: %+v, %+v", d.QueriesPerRank, d.EventsPerRank)
	}
	tot := c.Manifest.Totals
	if d.Ops != 500 || d.Ranks != 4 || d.BlockOps != tot.RequestBlocks+tot.StoredBlocks+tot.RemovedBlocks {
		t.Errorf("%+v", d)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6*b }
	if !near(d.OpsPerSec, 500e6) || !near(d.QueriesPerSec, float64(tot.Requests)*1e6) || !near(d.EventsPerSec, float64(500-tot.Requests)*1e6) ||
		!near(d.BlockOpsPerSec, float64(d.BlockOps)*1e6) {
		t.Errorf("rates of %+v", d)
	}
}

func TestDescribeRequests(t *testing.T) {
	query := func(deadline int64, seq uint32) Op { return Op{Deadline: deadline, Seq: seq} }
	c := &Corpus{
		Manifest: Manifest{Schema: SchemaV1, WindowNS: 100, Totals: Totals{Requests: 5, RefusedRequests: 1}},
		Ranks:    []indexer.Rank{{}},
		Ops:      []Op{query(0, 0), query(10, 1), query(10, 2), query(20, 3), query(90, 4)},
		Requests: []Request{
			{FirstToken: 5, Finish: 20},
			{FirstToken: 10, Finish: 10},
			{FirstToken: NeverRan, Finish: NeverRan},
			{FirstToken: 29, Finish: 95},
			{FirstToken: 130, Finish: 190},
		},
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	d := c.Describe(1)
	if d.NeverRan != 1 || d.ToFirstToken != (Spread{0, 5, 40}) || d.ToFinish != (Spread{0, 20, 100}) || d.FinishLater != 1 || d.MostInFlight != 2 {
		t.Errorf("%+v", d)
	}
}

func TestDescribeEmpty(t *testing.T) {
	c := &Corpus{Manifest: Manifest{Schema: SchemaV1, WindowNS: 1}}
	if d := c.Describe(0); d.Ops != 0 || d.MostAtOnce != 0 || len(d.Buckets) != 1 {
		t.Errorf("%+v", d)
	}
}

func TestSpread(t *testing.T) {
	for _, tc := range []struct {
		in   []int64
		want Spread
	}{
		{nil, Spread{}},
		{[]int64{7}, Spread{7, 7, 7}},
		{[]int64{9, 1}, Spread{1, 1, 9}},
		{[]int64{3, 9, 1}, Spread{1, 3, 9}},
		{[]int64{4, 3, 9, 1}, Spread{1, 3, 9}},
	} {
		if got := spreadOf(tc.in); got != tc.want {
			t.Errorf("%v: %+v, want %+v", tc.in, got, tc.want)
		}
	}
}

func TestBucketOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.Int64Range(1, math.MaxInt64).Draw(t, "window")
		deadline := rapid.Int64Range(0, window).Draw(t, "deadline")
		n := rapid.IntRange(1, 1000).Draw(t, "n")
		want := new(big.Int).Mul(big.NewInt(deadline), big.NewInt(int64(n)))
		want.Div(want, big.NewInt(window))
		if got := bucketOf(deadline, window, n); int64(got) != min(want.Int64(), int64(n-1)) {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}
