package trace

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustNew(tb testing.TB, rows ...Request) *Trace {
	tb.Helper()
	t, err := New(DefaultBlockSize, rows)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func rowsOf(t *Trace) []Request {
	rows := make([]Request, t.Len())
	for i := range rows {
		rows[i] = t.Request(i)
	}
	return rows
}

func wantRows(t testing.TB, got *Trace, want ...Request) {
	t.Helper()
	if !slices.EqualFunc(rowsOf(got), want, same) {
		t.Errorf("got  %+v\nwant %+v", rowsOf(got), want)
	}
	checkGrouping(t, got)
}

// failer is a testing.TB or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// checkGrouping compares Turns, SessionOf and the rows' sessions.
func checkGrouping(t failer, tr *Trace) {
	t.Helper()
	n := 0
	for s := range tr.Sessions() {
		turns := tr.Turns(s)
		if n += len(turns); len(turns) == 0 || !slices.IsSorted(turns) {
			t.Fatalf("session %d has the turns %v", s, turns)
		}
		for _, i := range turns {
			if tr.SessionOf(int(i)) != s {
				t.Fatalf("row %d is a turn of session %d and of %d", i, s, tr.SessionOf(int(i)))
			}
		}
	}
	if n != tr.Len() {
		t.Fatalf("%d turns for %d rows", n, tr.Len())
	}
}

var nan = math.NaN()

// talk has a session of three turns around two single requests.
func talk(tb testing.TB) *Trace {
	return mustNew(tb,
		Request{1, "a", 100, nan, 600, 5, []uint64{7, 8}},
		Request{2, "", 150, nan, 512, 6, []uint64{7}},
		Request{3, "a", nan, 40, 1000, 7, []uint64{7, 9}},
		Request{4, "", 300, nan, 10, 8, []uint64{0}},
		Request{5, "a", 180, nan, 10, 9, []uint64{3}},
	)
}

func TestExpandPrefix(t *testing.T) {
	// The numbers are those that the format's other tools give.
	tr := mustNew(t, Request{0, "", 4, nan, 6, 3, []uint64{7, 8}})
	got, err := tr.ExpandPrefix(3)
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, got, Request{0, "", 4, nan, 18, 3, []uint64{21, 22, 23, 24, 25, 26}})
	if got.BlockSize != tr.BlockSize {
		t.Errorf("block size %d", got.BlockSize)
	}

	got, err = talk(t).ExpandPrefix(2)
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, got,
		Request{1, "a", 100, nan, 1200, 5, []uint64{14, 15, 16, 17}},
		Request{2, "", 150, nan, 1024, 6, []uint64{14, 15}},
		Request{3, "a", nan, 40, 2000, 7, []uint64{14, 15, 18, 19}},
		Request{4, "", 300, nan, 20, 8, []uint64{0, 1}},
		Request{5, "a", 180, 80, 20, 9, []uint64{6, 7}})
}

func TestDuplicate(t *testing.T) {
	got, err := talk(t).Duplicate(2)
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, got,
		Request{1, "a:copy_0", 100, nan, 600, 5, []uint64{7, 8}},
		Request{2, "", 150, nan, 512, 6, []uint64{7}},
		Request{3, "a:copy_0", nan, 40, 1000, 7, []uint64{7, 9}},
		Request{4, "", 300, nan, 10, 8, []uint64{0}},
		Request{5, "a:copy_0", 180, 80, 10, 9, []uint64{3}},
		Request{1, "a:copy_1", 100, nan, 600, 5, []uint64{17, 18}},
		Request{2, "", 150, nan, 512, 6, []uint64{17}},
		Request{3, "a:copy_1", nan, 40, 1000, 7, []uint64{17, 19}},
		Request{4, "", 300, nan, 10, 8, []uint64{10}},
		Request{5, "a:copy_1", 180, 80, 10, 9, []uint64{13}})
	if got.Sessions() != 6 || !slices.Equal(got.Turns(3), []uint32{5, 7, 9}) {
		t.Errorf("%d sessions, the second copy of the first has the turns %v", got.Sessions(), got.Turns(3))
	}
}

func TestTimes(t *testing.T) {
	base := talk(t)
	for name, tc := range map[string]struct {
		do    func() (*Trace, error)
		times [5]float64
		delay [2]float64 // of the later turns
	}{
		"speed up":         {func() (*Trace, error) { return base.SpeedUp(4) }, [5]float64{25, 37.5, nan, 75, 45}, [2]float64{10, 20}},
		"slow down":        {func() (*Trace, error) { return base.SpeedUp(0.5) }, [5]float64{200, 300, nan, 600, 360}, [2]float64{80, 160}},
		"normalize":        {func() (*Trace, error) { return base.NormalizeStarts(), nil }, [5]float64{0, 50, nan, 200, 80}, [2]float64{40, 80}},
		"start span":       {func() (*Trace, error) { return base.RescaleStartSpan(50) }, [5]float64{0, 12.5, nan, 50, nan}, [2]float64{40, 80}},
		"start span 0":     {func() (*Trace, error) { return base.RescaleStartSpan(0) }, [5]float64{0, 0, nan, 0, nan}, [2]float64{40, 80}},
		"ready span":       {func() (*Trace, error) { return base.RescaleReadySpan(100) }, [5]float64{0, 25, nan, 100, 40}, [2]float64{20, 40}},
		"ready span 0":     {func() (*Trace, error) { return base.RescaleReadySpan(0) }, [5]float64{0, 0, nan, 0, 0}, [2]float64{0, 0}},
		"nothing speed up": {func() (*Trace, error) { return base.SpeedUp(1) }, [5]float64{100, 150, nan, 300, 180}, [2]float64{40, 80}},
	} {
		got, err := tc.do()
		if err != nil {
			t.Fatal(name, err)
		}
		want := rowsOf(base)
		for i := range want {
			want[i].Timestamp = tc.times[i]
		}
		want[2].Delay, want[4].Delay = tc.delay[0], tc.delay[1]
		t.Run(name, func(t *testing.T) { wantRows(t, got, want...) })
	}
	wantRows(t, base, rowsOf(talk(t))...) // no transform changes what it is given

	// The delays of a session reach beyond the last start.
	long := mustNew(t, Request{0, "a", 10, nan, 1, 1, []uint64{1}}, Request{0, "", 20, nan, 1, 1, []uint64{1}},
		Request{0, "a", nan, 30, 1, 1, []uint64{1}}, Request{0, "a", nan, 60, 1, 1, []uint64{1}})
	got, err := long.RescaleReadySpan(45)
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, got, Request{0, "a", 0, nan, 1, 1, []uint64{1}}, Request{0, "", 5, nan, 1, 1, []uint64{1}},
		Request{0, "a", nan, 15, 1, 1, []uint64{1}}, Request{0, "a", nan, 30, 1, 1, []uint64{1}})

	// One instant has no span to scale, and less than 1 ms counts as 1 ms.
	instant := mustNew(t, Request{0, "", 7, nan, 1, 1, []uint64{1}}, Request{0, "", 7.5, nan, 1, 1, []uint64{1}})
	if got, err = instant.RescaleReadySpan(100); err != nil || got.Request(1).Timestamp != 50 {
		t.Errorf("%+v, %v", rowsOf(got), err)
	}
	single := mustNew(t, Request{0, "", 7, nan, 1, 1, []uint64{1}})
	if got, err = single.RescaleStartSpan(100); err != nil || got.Request(0).Timestamp != 0 {
		t.Errorf("%+v, %v", rowsOf(got), err)
	}
}

func TestTransformErrors(t *testing.T) {
	small := talk(t)
	huge := mustNew(t, Request{3, "", 1, nan, 1, 1, []uint64{5, math.MaxUint64 - 1}}, Request{4, "", maxTimeMS, nan, 1, 1, []uint64{1}})
	top := mustNew(t, Request{0, "", 0, nan, 1, 1, []uint64{math.MaxUint64}})
	for _, tc := range []struct {
		name string
		do   func() (*Trace, error)
		want string
	}{
		{"expand 0", func() (*Trace, error) { return small.ExpandPrefix(0) }, "the length factor is 0; give 1 or more"},
		{"expand -1", func() (*Trace, error) { return small.ExpandPrefix(-1) }, "length factor"},
		{"expand ids", func() (*Trace, error) { return huge.ExpandPrefix(2) },
			"line 3: the id 18446744073709551614 becomes larger than 2^64-1; lower the length factor"},
		{"expand the last of an id", func() (*Trace, error) {
			return mustNew(t, Request{0, "", 0, nan, 1, 1, []uint64{math.MaxUint64 / 3}}).ExpandPrefix(3)
		}, "becomes larger than 2^64-1; lower the length factor"},
		{"expand lengths", func() (*Trace, error) { return small.ExpandPrefix(1 << 22) },
			"line 1: an input of 600 tokens becomes longer than 2147483647; lower the length factor"},
		{"expand the number of ids", func() (*Trace, error) {
			return mustNew(t, Request{0, "", 0, nan, 0, 1, []uint64{0}}).ExpandPrefix(1 << 33)
		}, "row 0: 1 ids become more than 2^32-1; lower the length factor"},
		{"expand far", func() (*Trace, error) { return small.ExpandPrefix(math.MaxInt) }, "lower the length factor"},
		{"duplicate 0", func() (*Trace, error) { return small.Duplicate(0) }, "the duplication factor is 0; give 1 or more"},
		{"duplicate ids", func() (*Trace, error) { return huge.Duplicate(2) }, "becomes larger than 2^64-1 in copy 1; lower the duplication factor"},
		{"duplicate the top id", func() (*Trace, error) { return top.Duplicate(2) }, "lower the duplication factor"},
		{"duplicate rows", func() (*Trace, error) { return small.Duplicate(1 << 30) }, "5 rows become more than 2^32-1; lower the duplication factor"},
		{"speed up 0", func() (*Trace, error) { return small.SpeedUp(0) }, "the speed-up is 0"},
		{"speed up -2", func() (*Trace, error) { return small.SpeedUp(-2) }, "the speed-up is -2"},
		{"speed up NaN", func() (*Trace, error) { return small.SpeedUp(nan) }, "the speed-up is NaN"},
		{"speed up Inf", func() (*Trace, error) { return small.SpeedUp(math.Inf(1)) }, "the speed-up is +Inf"},
		{"speed up too slow", func() (*Trace, error) { return huge.SpeedUp(1e-300) }, "line 4: a time becomes infinite; raise the speed-up"},
		{"start span NaN", func() (*Trace, error) { return small.RescaleStartSpan(nan) }, "the span is NaN ms"},
		{"start span negative", func() (*Trace, error) { return small.RescaleStartSpan(-1) }, "the span is -1 ms"},
		{"start span too long", func() (*Trace, error) { return small.RescaleStartSpan(math.MaxFloat64) }, "becomes infinite; lower the span"},
		{"ready span Inf", func() (*Trace, error) { return small.RescaleReadySpan(math.Inf(1)) }, "the span is +Inf ms"},
		{"ready span negative", func() (*Trace, error) { return small.RescaleReadySpan(-0.1) }, "the span is -0.1 ms"},
	} {
		if got, err := tc.do(); err == nil || !strings.Contains(err.Error(), tc.want) || got != nil {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	// The largest factors that fit.
	fits := mustNew(t, Request{0, "", 0, nan, 1, 1, []uint64{1<<63 - 1}})
	if got, err := fits.ExpandPrefix(2); err != nil || !slices.Equal(got.Request(0).HashIDs, []uint64{math.MaxUint64 - 1, math.MaxUint64}) {
		t.Errorf("%v", err)
	}
	if got, err := fits.Duplicate(2); err != nil || got.Request(1).HashIDs[0] != math.MaxUint64 {
		t.Errorf("%v", err)
	}
}

func TestEmptyTrace(t *testing.T) {
	tr := mustNew(t)
	for _, do := range []func() (*Trace, error){
		func() (*Trace, error) { return tr.ExpandPrefix(3) }, func() (*Trace, error) { return tr.Duplicate(3) },
		func() (*Trace, error) { return tr.SpeedUp(3) }, func() (*Trace, error) { return tr.NormalizeStarts(), nil },
		func() (*Trace, error) { return tr.RescaleStartSpan(3) }, func() (*Trace, error) { return tr.RescaleReadySpan(3) },
	} {
		if got, err := do(); err != nil || got.Len() != 0 || got.Sessions() != 0 {
			t.Errorf("%v", err)
		}
	}
	if len(tr.Partition(3, 1)) != 0 {
		t.Error("an empty trace has parts")
	}
}

// anyTrace draws a trace of sessions and single rows with small ids.
func anyTrace() *rapid.Generator[*Trace] {
	return rapid.Custom(func(t *rapid.T) *Trace {
		var rows []Request
		now := 0.0
		started := map[string]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "rows") {
			now += float64(rapid.IntRange(0, 100).Draw(t, "gap"))
			ids := rapid.SliceOfN(rapid.Uint64Range(0, 20), 1, 6).Draw(t, "ids")
			q := Request{Session: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "session"), Timestamp: now, Delay: nan,
				InputLength: len(ids) * DefaultBlockSize, OutputLength: 1, HashIDs: ids}
			if q.Session != "" && started[q.Session] && rapid.Bool().Draw(t, "delay given") {
				q.Timestamp, q.Delay = nan, float64(rapid.IntRange(0, 100).Draw(t, "delay"))
			}
			started[q.Session] = true
			rows = append(rows, q)
		}
		tr, err := New(DefaultBlockSize, rows)
		if err != nil {
			t.Fatal(err)
		}
		return tr
	})
}

func TestTransformProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := anyTrace().Draw(t, "trace")
		f := rapid.IntRange(1, 4).Draw(t, "factor")

		expanded, err := tr.ExpandPrefix(f)
		if err != nil {
			t.Fatal(err)
		}
		duplicated, err := tr.Duplicate(f)
		if err != nil {
			t.Fatal(err)
		}
		checkGrouping(t, expanded)
		checkGrouping(t, duplicated)
		// What is shared stays shared, f times as much, and copies share nothing.
		info, e, d := Describe(tr), Describe(expanded), Describe(duplicated)
		if e.PrefixHitBlocks != f*info.PrefixHitBlocks || e.DistinctBlocks != f*info.DistinctBlocks || e.Input.TotalTokens != int64(f)*info.Input.TotalTokens {
			t.Fatalf("expanded %+v, was %+v", e, info)
		}
		if d.PrefixHitBlocks != f*info.PrefixHitBlocks || d.DistinctBlocks != f*info.DistinctBlocks || d.Requests != f*info.Requests ||
			d.SpanMS != info.SpanMS || d.DistinctArrivalTimes != info.DistinctArrivalTimes {
			t.Fatalf("duplicated %+v, was %+v", d, info)
		}
		// The two do not depend on their order but for where the copies lie.
		a, err := expanded.Duplicate(f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := duplicated.ExpandPrefix(f)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(rowsOf(a), rowsOf(b), same) {
			t.Fatal("expanding and duplicating depend on their order")
		}

		if tr.Len() == 0 {
			return
		}
		span := float64(rapid.IntRange(1, 1000).Draw(t, "span"))
		ready, err := tr.RescaleReadySpan(span)
		if err != nil {
			t.Fatal(err)
		}
		last := 0.0
		for s := range ready.Sessions() {
			at := 0.0
			for turn, i := range ready.Turns(s) {
				if q := ready.Request(int(i)); turn == 0 {
					at = q.Timestamp
				} else {
					at += q.Delay
				}
			}
			last = max(last, at)
		}
		if info.SpanMS >= 1 && math.Abs(last-span) > 1e-6*span || last > span*(1+1e-9) {
			t.Fatalf("the last turn is ready at %v, want %v", last, span)
		}
		starts, err := tr.RescaleStartSpan(span)
		if err != nil {
			t.Fatal(err)
		}
		if first, last := starts.starts(); first != 0 || last != 0 && math.Abs(last-span) > 1e-6 {
			t.Fatalf("starts from %v to %v, want 0 to %v", first, last, span)
		}
		if first, _ := tr.NormalizeStarts().starts(); first != 0 {
			t.Fatalf("the first start is %v", first)
		}
	})
}

func TestPartition(t *testing.T) {
	rows := make([]Request, 16)
	tr := mustNew(t, rows...)
	// These draws are recorded in what users keep: they never change.
	for _, tc := range []struct {
		n    int
		seed uint64
		want []int
	}{
		{8, 0, []int{4, 5, 7, 2, 3, 6, 0, 7, 3, 4, 6, 7, 7, 7, 4, 5}},
		{128, 42, []int{61, 111, 125, 31, 17, 83, 6, 52, 13, 34, 90, 68, 39, 86, 35, 100}},
	} {
		if got := tr.Partition(tc.n, tc.seed); !slices.Equal(got, tc.want) {
			t.Errorf("Partition(%d, %d) = %v, want %v", tc.n, tc.seed, got, tc.want)
		}
	}
	if !slices.Equal(tr.Partition(1, 9), make([]int, 16)) {
		t.Error("one part is not all")
	}

	// 40,000 sessions over 8 parts: each has 5,000 within 5 standard deviations.
	tr = mustNew(t, make([]Request, 40000)...)
	counts := make([]int, 8)
	for _, p := range tr.Partition(8, 3) {
		counts[p]++
	}
	for p, n := range counts {
		if math.Abs(float64(n)-5000) > 5*math.Sqrt(5000*7.0/8) {
			t.Errorf("part %d has %d of 40000 sessions", p, n)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a partition into 0 parts")
		}
	}()
	tr.Partition(0, 1)
}
