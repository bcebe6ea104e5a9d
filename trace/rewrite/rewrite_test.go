package rewrite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/trace"
)

var nan = math.NaN()

// rows is a source of requests.
type rows struct {
	list []trace.Request
	next int
}

func (r *rows) Read(q *trace.Request) error {
	if r.next == len(r.list) {
		return io.EOF
	}
	ids := append(q.HashIDs[:0], r.list[r.next].HashIDs...)
	*q = r.list[r.next]
	q.HashIDs = ids
	r.next++
	return nil
}

func source(list ...trace.Request) Source { return &rows{list: list} }

// all reads a source to its end. It reads into one request, as users do.
func all(src Source) ([]trace.Request, error) {
	var list []trace.Request
	var q trace.Request
	for {
		switch err := src.Read(&q); {
		case err == io.EOF:
			if err := src.Read(&q); err != io.EOF {
				return list, fmt.Errorf("after the end: %v", err)
			}
			return list, nil
		case err != nil:
			return list, err
		}
		row := q
		row.HashIDs = slices.Clone(q.HashIDs)
		list = append(list, row)
	}
}

func must(t *testing.T, src Source, err error) []trace.Request {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	list, err := all(src)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func text(list []trace.Request) string {
	var b strings.Builder
	for _, q := range list {
		fmt.Fprintf(&b, "%q %v %v %d %d %v\n", q.Session, q.Timestamp, q.Delay, q.InputLength, q.OutputLength, q.HashIDs)
	}
	return b.String()
}

func rowsOf(tr *trace.Trace) []trace.Request {
	list := make([]trace.Request, tr.Len())
	for i := range list {
		list[i] = tr.Request(i)
	}
	return list
}

// drawTrace draws requests that make a trace, some of them turns with and without
// delays.
func drawTrace(t *rapid.T, blockSize int) []trace.Request {
	n := rapid.IntRange(1, 30).Draw(t, "rows")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	clock := float64(rng.IntN(1000))
	seen := map[string]bool{}
	var list []trace.Request
	for i := range n {
		clock += float64(rng.IntN(8)) / 4
		q := trace.Request{Line: i + 1, Timestamp: clock, Delay: nan, OutputLength: rng.IntN(50)}
		if s := rng.IntN(8); s < 4 {
			q.Session = fmt.Sprint("s", s)
			if seen[q.Session] {
				switch rng.IntN(3) {
				case 0:
					q.Timestamp, q.Delay = nan, float64(rng.IntN(20))/2
				case 1:
					q.Delay = float64(rng.IntN(20)) / 2
				}
			}
			seen[q.Session] = true
		}
		for range rng.IntN(5) {
			q.HashIDs = append(q.HashIDs, uint64(rng.IntN(12)))
		}
		if limit := len(q.HashIDs) * blockSize; limit > 0 {
			q.InputLength = rng.IntN(limit + 1)
		}
		list = append(list, q)
	}
	return list
}

// What streams is what the transforms in memory make, row by row.
func TestScaleAgreesWithMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawTrace(t, 16)
		tr, err := trace.New(16, list)
		if err != nil {
			t.Fatal(err)
		}
		extent, err := Measure(source(list...))
		if err != nil {
			t.Fatal(err)
		}
		var s Scale
		want := tr
		then := func(next *trace.Trace, err error) {
			if err != nil {
				t.Fatal(err)
			}
			want = next
		}
		switch rapid.IntRange(0, 3).Draw(t, "times") {
		case 1:
			s.SpeedUp = rapid.Float64Range(0.1, 10).Draw(t, "speed-up")
			then(want.SpeedUp(s.SpeedUp))
		case 2:
			s.StartSpanMS = rapid.Float64Range(1, 1e5).Draw(t, "span")
			then(want.RescaleStartSpan(s.StartSpanMS))
		case 3:
			s.ReadySpanMS = rapid.Float64Range(1, 1e5).Draw(t, "span")
			then(want.RescaleReadySpan(s.ReadySpanMS))
		}
		s.LengthFactor = rapid.IntRange(0, 4).Draw(t, "length")
		then(want.ExpandPrefix(max(1, s.LengthFactor)))
		s.Copies = rapid.IntRange(0, 3).Draw(t, "copies")
		then(want.Duplicate(max(1, s.Copies)))

		src, err := NewScaler(source(list...), s, extent)
		if err != nil {
			t.Fatal(err)
		}
		got, err := all(src)
		if err != nil {
			t.Fatal(err)
		}
		// In memory, all of a copy stand together.
		byCopy := make([]trace.Request, len(got))
		copies := max(1, s.Copies)
		for i, q := range got {
			byCopy[i%copies*len(list)+i/copies] = q
		}
		if a, b := text(byCopy), text(rowsOf(want)); a != b {
			t.Fatalf("%+v gives\n%s\nwant\n%s", s, a, b)
		}
		if !s.NeedsExtent() {
			src, _ := NewScaler(source(list...), s, Extent{})
			if again, err := all(src); err != nil || text(again) != text(got) {
				t.Fatalf("without an extent it is another: %v", err)
			}
		}
	})
}

func TestScaleOutputs(t *testing.T) {
	list := []trace.Request{{Delay: nan, OutputLength: 0}, {Delay: nan, OutputLength: 1}, {Delay: nan, OutputLength: 10}, {Delay: nan, OutputLength: 1000}}
	for factor, want := range map[float64][]int{0.01: {0, 1, 1, 10}, 0.35: {0, 1, 4, 350}, 2.5: {0, 3, 25, 2500}} {
		src, err := NewScaler(source(list...), Scale{OutputFactor: factor}, Extent{})
		for i, q := range must(t, src, err) {
			if q.OutputLength != want[i] {
				t.Errorf("%v x %d is %d, want %d", factor, list[i].OutputLength, q.OutputLength, want[i])
			}
		}
	}
}

func TestScaleRefuses(t *testing.T) {
	row := func(id uint64) trace.Request {
		return trace.Request{Line: 7, Delay: nan, InputLength: 5, OutputLength: 2, HashIDs: []uint64{id}}
	}
	for _, tc := range []struct {
		s    Scale
		id   uint64
		want string
	}{
		{Scale{SpeedUp: -1}, 0, "the speed-up is -1"},
		{Scale{SpeedUp: nan}, 0, "the speed-up is NaN"},
		{Scale{OutputFactor: math.Inf(1)}, 0, "the output factor is +Inf"},
		{Scale{SpeedUp: 2, StartSpanMS: 3}, 0, "give one of"},
		{Scale{StartSpanMS: 2, ReadySpanMS: 3}, 0, "give one of"},
		{Scale{LengthFactor: -1}, 0, "the length factor is -1"},
		{Scale{Copies: -1}, 0, "the copies are -1"},
		{Scale{LengthFactor: 2}, 1 << 63, "row 7: hash_ids: the id 9223372036854775808 becomes larger"},
		{Scale{LengthFactor: 1 << 30}, 0, "row 7: input_length"},
		{Scale{OutputFactor: 1 << 31}, 0, "row 7: output_length"},
		{Scale{Copies: 2}, 1 << 63, "in copy 1"},
		{Scale{Copies: 2}, math.MaxUint64, "becomes larger"},
		{Scale{Copies: 2, LengthFactor: 3}, 1 << 63, "becomes larger"},
	} {
		extent, err := Measure(source(row(tc.id)))
		if err != nil {
			t.Fatal(err)
		}
		src, err := NewScaler(source(row(tc.id)), tc.s, extent)
		if err == nil {
			_, err = all(src)
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), ";") {
			t.Errorf("%+v: %v, want %q", tc.s, err, tc.want)
		}
	}
	// The last id that fits.
	extent, _ := Measure(source(row(1<<63 - 1)))
	src, err := NewScaler(source(row(1<<63-1)), Scale{Copies: 2}, extent)
	if got := must(t, src, err); got[1].HashIDs[0] != math.MaxUint64 {
		t.Errorf("got %v", got)
	}
	if _, err := Measure(source()); err == nil {
		t.Error("nothing is measured")
	}
}

var slicing = []trace.Request{
	{Session: "", Timestamp: 100, Delay: nan, HashIDs: []uint64{1}},
	{Session: "a", Timestamp: 110, Delay: nan, HashIDs: []uint64{2}},
	{Session: "b", Timestamp: 120, Delay: nan, HashIDs: []uint64{3}},
	{Session: "a", Timestamp: 130, Delay: nan, HashIDs: []uint64{4}},
	{Session: "", Timestamp: 140, Delay: nan, HashIDs: []uint64{5}},
	{Session: "b", Timestamp: nan, Delay: 7, HashIDs: []uint64{6}},
	{Session: "c", Timestamp: 150, Delay: nan, HashIDs: []uint64{7}},
	{Session: "a", Timestamp: 160, Delay: 1, HashIDs: []uint64{8}},
}

func TestSlice(t *testing.T) {
	for _, tc := range []struct {
		s    Slice
		want []uint64
	}{
		{Slice{}, []uint64{1, 2, 3, 4, 5, 6, 7, 8}},
		{Slice{From: 10}, []uint64{2, 3, 4, 5, 6, 7, 8}},
		{Slice{From: 10.5}, []uint64{3, 5, 6, 7}},
		{Slice{To: 20}, []uint64{1, 2, 4, 8}},
		{Slice{From: 20, To: 50}, []uint64{3, 5, 6}},
		{Slice{Requests: 4}, []uint64{1, 2, 3, 4}},
		{Slice{Skip: 2}, []uint64{3, 5, 6, 7}},
		{Slice{Skip: 2, Requests: 3}, []uint64{3, 5, 6}},
		{Slice{Sessions: 2}, []uint64{1, 2, 4, 8}},
		{Slice{Sessions: 2, Skip: 1}, []uint64{2, 3, 4, 6, 8}},
		{Slice{Names: []string{"b", "c"}}, []uint64{3, 6, 7}},
		{Slice{Names: []string{"a"}, Requests: 2}, []uint64{2, 4}},
		{Slice{Share: 1}, []uint64{1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		src, err := NewSlicer(source(slicing...), tc.s)
		var got []uint64
		for _, q := range must(t, src, err) {
			got = append(got, q.HashIDs[0])
			// What the later turns waited still holds.
			if want := map[uint64]float64{4: 20, 6: 7, 8: 1}[q.HashIDs[0]]; q.Delay != want && !(math.IsNaN(q.Delay) && want == 0) {
				t.Errorf("%+v: row %v waits %v, want %v", tc.s, q.HashIDs, q.Delay, want)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v keeps %v, want %v", tc.s, got, tc.want)
		}
	}
	src, err := NewSlicer(source(slicing...), Slice{From: 20, Rebase: true})
	var times []string
	for _, q := range must(t, src, err) {
		times = append(times, fmt.Sprint(q.Timestamp))
	}
	if want := []string{"0", "20", "NaN", "30"}; !slices.Equal(times, want) {
		t.Errorf("times %v, want %v", times, want)
	}

	for want, s := range map[string]Slice{
		"begins at -1": {From: -1}, "give a later end": {From: 5, To: 5}, "begins at NaN": {From: nan}, "may be below 0": {Skip: -1}, "share of the sessions is 1.5": {Share: 1.5},
	} {
		if _, err := NewSlicer(source(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	src, _ = NewSlicer(source(slicing...), Slice{Names: []string{"d"}})
	if _, err := all(src); err == nil || !strings.Contains(err.Error(), `no session "d"`) {
		t.Errorf("a session that is not there: %v", err)
	}
	back := []trace.Request{{Timestamp: 5, Delay: nan}, {Line: 2, Timestamp: 3, Delay: nan}}
	src, _ = NewSlicer(source(back...), Slice{Rebase: true})
	if _, err := all(src); err == nil || !strings.Contains(err.Error(), "row 2: timestamp: 3 ms is before the 5 ms of the first row") {
		t.Errorf("times that go back: %v", err)
	}
	src, _ = NewSlicer(source(trace.Request{Line: 1, Timestamp: nan, Delay: nan}), Slice{})
	if _, err := all(src); err == nil || !strings.Contains(err.Error(), "row 1: timestamp: is missing") {
		t.Errorf("a row without a time: %v", err)
	}
}

// A share keeps about so many sessions, the same ones with the same seed, and more
// of them with a larger one.
func TestSliceShare(t *testing.T) {
	var list []trace.Request
	for i := range 4000 {
		q := trace.Request{Timestamp: float64(i), Delay: nan, HashIDs: []uint64{uint64(i)}}
		if i%2 == 0 {
			q.Session = fmt.Sprint(i % 1000)
		}
		list = append(list, q)
	}
	kept := func(share float64, seed uint64) map[uint64]bool {
		src, err := NewSlicer(source(list...), Slice{Share: share, Seed: seed})
		out := map[uint64]bool{}
		for _, q := range must(t, src, err) {
			out[q.HashIDs[0]] = true
		}
		return out
	}
	few, many, other := kept(0.2, 1), kept(0.5, 1), kept(0.2, 2)
	if n := len(few); n < 600 || n > 1000 {
		t.Errorf("%d of 4000 rows were kept, want about 800", n)
	}
	same := 0
	for i := range few {
		if !many[i] {
			t.Fatalf("row %d is in the smaller share and not in the larger", i)
		}
		if other[i] {
			same++
		}
		if i%2 == 0 && !few[(i+1000)%4000] {
			t.Fatalf("the session of row %d is kept in part", i)
		}
	}
	if same > len(few)/2 {
		t.Errorf("%d of %d rows are kept with another seed too", same, len(few))
	}
}

func TestMerge(t *testing.T) {
	a := []trace.Request{
		{Session: "x", Timestamp: 10, Delay: nan, HashIDs: []uint64{0, 5}},
		{Timestamp: 30, Delay: nan, HashIDs: []uint64{1}},
		{Session: "x", Timestamp: nan, Delay: 3, HashIDs: []uint64{2}},
		{Timestamp: 20, Delay: nan, HashIDs: []uint64{3}}, // back in time: stays behind
	}
	b := []trace.Request{
		{Session: "x", Timestamp: 5, Delay: nan, HashIDs: []uint64{0}},
		{Timestamp: 10, Delay: nan, HashIDs: []uint64{1}},
		{Session: "x", Timestamp: 30, Delay: nan, HashIDs: []uint64{2}},
		{Timestamp: 31, Delay: nan, HashIDs: []uint64{math.MaxUint64 / 2}},
	}
	src, err := NewMerger(Merge{}, source(a...), source(), source(b[:3]...))
	got := must(t, src, err)
	want := `"x:file_2" 5 NaN 0 0 [2]
"x:file_0" 10 NaN 0 0 [0 15]
"" 10 NaN 0 0 [5]
"" 30 NaN 0 0 [3]
"x:file_0" NaN 3 0 0 [6]
"" 20 NaN 0 0 [9]
"x:file_2" 30 25 0 0 [8]
`
	if text(got) != want {
		t.Errorf("got\n%s\nwant\n%s", text(got), want)
	}
	src, err = NewMerger(Merge{Same: true}, source(a[:2]...), source(b...))
	if got := text(must(t, src, err)); got != `"x" 5 NaN 0 0 [0]
"x" 10 5 0 0 [0 5]
"" 10 NaN 0 0 [1]
"" 30 NaN 0 0 [1]
"x" 30 20 0 0 [2]
"" 31 NaN 0 0 [9223372036854775807]
` {
		t.Errorf("parts of one trace:\n%s", got)
	}
	src, err = NewMerger(Merge{Rebase: true}, source(a[:2]...), source(b[:2]...))
	if got := text(must(t, src, err)); got != `"x:file_0" 0 NaN 0 0 [0 10]
"x:file_1" 0 NaN 0 0 [1]
"" 5 NaN 0 0 [3]
"" 20 NaN 0 0 [2]
` {
		t.Errorf("rebased:\n%s", got)
	}
	src, err = NewMerger(Merge{}, source(b...), source(a...), source(a...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all(src); err == nil || !strings.Contains(err.Error(), "source 1: hash_ids: the id 9223372036854775807 becomes larger") {
		t.Errorf("got %v", err)
	}
	if _, err := NewMerger(Merge{}); err == nil {
		t.Error("nothing is merged")
	}
	broken := errors.New("broken")
	src, _ = NewMerger(Merge{}, source(a...), failing{broken})
	if _, err := all(src); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	src, _ = NewMerger(Merge{Names: []string{"a.jsonl", "b.jsonl"}}, source(a...), source(trace.Request{Line: 3, Timestamp: nan, Delay: nan}))
	if _, err := all(Named("all", src)); err == nil || !strings.HasPrefix(err.Error(), "all: b.jsonl: row 3: timestamp") {
		t.Errorf("got %v", err)
	}
	// A turn whose session begins in another file, later.
	src, _ = NewMerger(Merge{Same: true}, source(trace.Request{Line: 3, Session: "s", Timestamp: nan, Delay: 4}), source(trace.Request{Session: "s", Timestamp: 1, Delay: nan}))
	if _, err := all(src); err == nil || !strings.Contains(err.Error(), "source 1: row 3: delay") {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read(*trace.Request) error { return f.err }

// Merging takes nothing away, adds nothing, keeps the order of each source, and is
// in the order of time if the sources are.
func TestMergeIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sources []Source
		var lists [][]trace.Request
		for range rapid.IntRange(1, 4).Draw(t, "sources") {
			var list []trace.Request
			clock := 0.0
			for range rapid.IntRange(0, 12).Draw(t, "rows") {
				clock += float64(rapid.IntRange(0, 3).Draw(t, "gap"))
				list = append(list, trace.Request{Timestamp: clock, Delay: nan, HashIDs: []uint64{rapid.Uint64Range(0, 1<<60).Draw(t, "id")}})
			}
			lists, sources = append(lists, list), append(sources, source(list...))
		}
		src, err := NewMerger(Merge{}, sources...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := all(src)
		if err != nil {
			t.Fatal(err)
		}
		at := make([]int, len(lists))
		last := 0.0
		for _, q := range got {
			k := int(q.HashIDs[0] % uint64(len(lists)))
			if at[k] == len(lists[k]) {
				t.Fatalf("source %d gave too much", k)
			}
			want := lists[k][at[k]]
			at[k]++
			if q.HashIDs[0]/uint64(len(lists)) != want.HashIDs[0] || q.Timestamp != want.Timestamp || q.Timestamp < last {
				t.Fatalf("got %+v, want %+v of source %d", q, want, k)
			}
			last = q.Timestamp
		}
		for k := range lists {
			if at[k] != len(lists[k]) {
				t.Fatalf("%d of %d rows of source %d", at[k], len(lists[k]), k)
			}
		}
	})
}

func TestAnonymise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var list []trace.Request
	for i := range 500 {
		q := trace.Request{Line: i + 1, Timestamp: 1e12 + float64(i), Delay: nan, InputLength: i, OutputLength: 3}
		if i%3 > 0 {
			q.Session = fmt.Sprint("user", i%7)
		}
		for range 4 {
			q.HashIDs = append(q.HashIDs, uint64(rng.IntN(300)))
		}
		list = append(list, q)
	}
	get := func(a Anonymise) []trace.Request { return must(t, NewAnonymiser(source(list...), a), nil) }
	permuted, again, other := get(Anonymise{Key: []byte("k")}), get(Anonymise{Key: []byte("k")}), get(Anonymise{Key: []byte("l")})
	numbered := get(Anonymise{Key: []byte("k"), Numbered: true})
	if text(permuted) != text(again) {
		t.Error("the same key gives another result")
	}
	for name, got := range map[string][]trace.Request{"permuted": permuted, "numbered": numbered, "another key": other} {
		to, from := map[uint64]uint64{}, map[uint64]uint64{}
		names, back := map[string]string{}, map[string]string{}
		for i, q := range got {
			was := list[i]
			if q.Timestamp != was.Timestamp-1e12 || q.InputLength != was.InputLength || q.OutputLength != was.OutputLength {
				t.Fatalf("%s: %+v was %+v", name, q, was)
			}
			for k, id := range q.HashIDs {
				old := was.HashIDs[k]
				if x, ok := to[old]; ok && x != id {
					t.Fatalf("%s: the id %d is %d and %d", name, old, x, id)
				}
				if x, ok := from[id]; ok && x != old {
					t.Fatalf("%s: the ids %d and %d are one", name, old, x)
				}
				to[old], from[id] = id, old
				if name == "numbered" && id > uint64(len(to)-1) {
					t.Fatalf("the number %d of %d", id, len(to))
				}
			}
			if x, ok := names[was.Session]; ok && x != q.Session || strings.Contains(q.Session, "user") || (q.Session == "") != (was.Session == "") {
				t.Fatalf("%s: the session %q is %q", name, was.Session, q.Session)
			}
			names[was.Session], back[q.Session] = q.Session, was.Session
		}
		if len(names) != len(back) {
			t.Errorf("%s: sessions were joined", name)
		}
	}
	same := 0
	for i := range permuted {
		for k, id := range permuted[i].HashIDs {
			if id == other[i].HashIDs[k] || id == list[i].HashIDs[k] {
				same++
			}
		}
	}
	if same > 0 || permuted[1].Session == other[1].Session {
		t.Errorf("%d ids do not depend on the key", same)
	}
	if kept := get(Anonymise{KeepTimes: true}); kept[5].Timestamp != list[5].Timestamp {
		t.Error("times are not kept")
	}
	back := NewAnonymiser(source(trace.Request{Timestamp: 5, Delay: nan}, trace.Request{Line: 2, Timestamp: 3, Delay: nan}), Anonymise{})
	if _, err := all(back); err == nil || !strings.Contains(err.Error(), "row 2: timestamp") || !strings.Contains(err.Error(), "--keep-times") {
		t.Errorf("times that go back: %v", err)
	}
}

// The permutation is one: it can be undone with the key.
func TestPermutation(t *testing.T) {
	a := NewAnonymiser(source(), Anonymise{Key: []byte("k")}).(*anonymiser)
	undo := func(id uint64) uint64 {
		// A Feistel network is undone by itself with its rounds reversed; the halves
		// change places.
		left, right := uint32(id>>32), uint32(id)
		for round := 5; round >= 0; round-- {
			text := [16]byte{4: byte(round)}
			text[0], text[1], text[2], text[3] = byte(left), byte(left>>8), byte(left>>16), byte(left>>24)
			a.block.Encrypt(text[:], text[:])
			f := uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24
			left, right = right^f, left
		}
		return uint64(left)<<32 | uint64(right)
	}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Uint64().Draw(t, "id")
		if got := undo(a.permute(id)); got != id {
			t.Fatalf("%d comes back as %d", id, got)
		}
	})
	flipped := 0
	for bit := range 64 {
		flipped += popcount(a.permute(12345) ^ a.permute(12345^1<<bit))
	}
	// 64 x 32 expected, with a standard deviation of 32.
	if flipped < 2048-200 || flipped > 2048+200 {
		t.Errorf("%d of 4096 bits change with one bit of the id, want about half", flipped)
	}
	// It never changes, or ids of one key could not be compared.
	golden := []uint64{a.permute(0), a.permute(1), a.permute(math.MaxUint64)}
	if want := []uint64{0xd2bacdbab365025e, 0x30562b41238d88b2, 0x6cc1883e7380e75a}; !slices.Equal(golden, want) {
		t.Errorf("the permutation changed: %#x", golden)
	}
}

func popcount(x uint64) (n int) {
	for ; x != 0; x &= x - 1 {
		n++
	}
	return n
}

// Any encoding gives back what was written, as far as its format holds it.
func TestEncodings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawTrace(t, 16)
		e := Encoding{Format: rapid.SampledFrom([]trace.Format{trace.Mooncake, trace.Parquet}).Draw(t, "format")}
		if e.Format == trace.Mooncake {
			e.Compression = rapid.SampledFrom([]string{"", "gzip", "zstd"}).Draw(t, "compression")
		}
		var b bytes.Buffer
		w, err := NewWriter(&b, e, 16)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.SetGenerator(json.RawMessage(`{"a": 1}`)); err != nil {
			t.Fatal(err)
		}
		n, err := Copy(w, Check(source(list...)))
		if err := errors.Join(err, w.Close()); err != nil || n != len(list) || w.Warnings() != nil {
			t.Fatal(n, err)
		}
		opts := trace.ReaderOptions{}
		if notes := w.Notes(); e.Format == trace.Mooncake {
			if len(notes) != 1 || !strings.Contains(notes[0], "--trace-block-size 16") {
				t.Fatalf("notes %q", notes)
			}
			opts.BlockSize = 16
		} else if notes != nil {
			t.Fatalf("notes %q", notes)
		}
		r, err := trace.NewReader(bytes.NewReader(b.Bytes()), "t", opts)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		got, err := all(r)
		if err != nil || text(got) != text(list) {
			t.Fatalf("%v\n%s\nwant\n%s", err, text(got), text(list))
		}
		if r.Format() != e.Format || r.BlockSize() != 16 || string(r.Generator()) != `{"a":1}` {
			t.Fatalf("%s, %d, %s", r.Format(), r.BlockSize(), r.Generator())
		}
	})
}

func TestAIPerf(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, Encoding{Format: trace.AIPerf}, 16)
	if err != nil {
		t.Fatal(err)
	}
	list := []trace.Request{
		{Timestamp: 1.5, Delay: nan, InputLength: 20, OutputLength: 3, HashIDs: []uint64{1, 2, 9}},
		{Session: "s", Timestamp: 2, Delay: nan, InputLength: 20, OutputLength: 3, HashIDs: []uint64{1, 2}},
		{Session: "s", Timestamp: 12, Delay: nan, InputLength: 40, OutputLength: 4, HashIDs: []uint64{1, 3, 4}},
		{Session: "s", Timestamp: nan, Delay: 6, InputLength: 44, OutputLength: 4, HashIDs: []uint64{1, 3, 4}},
	}
	if err := w.SetGenerator(json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := Copy(w, source(list...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&trace.Request{Session: "s", Timestamp: nan, Delay: 1, InputLength: 47, HashIDs: []uint64{1, 2, 3}}); err == nil || !strings.Contains(err.Error(), "row 5 to write: input_length: a prompt of 47 tokens is shorter than the 48") {
		t.Errorf("a shorter prompt: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := `{"timestamp": 2, "input_length": 20, "output_length": 3, "hash_ids": [1, 2]}
{"timestamp": 2, "session_id": "s", "input_length": 20, "output_length": 3, "hash_ids": [1, 2]}
{"delay": 10, "session_id": "s", "input_length": 17, "output_length": 4}
{"delay": 6, "session_id": "s", "input_length": 0, "output_length": 4}
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if warnings := w.Warnings(); len(warnings) != 2 || !strings.HasPrefix(warnings[0], "1 row has a time that was rounded") || !strings.HasPrefix(warnings[1], "2 rows are later turns") {
		t.Errorf("warnings %q", warnings)
	}
	r, err := trace.NewReader(strings.NewReader(want), "t", trace.ReaderOptions{Format: trace.AIPerf, BlockSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	got, err := all(r)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range got {
		if q.InputLength != list[i].InputLength || q.OutputLength != list[i].OutputLength || q.HashIDs[0] != 1 {
			t.Errorf("row %d comes back as %+v, and was %+v", i, q, list[i])
		}
	}
}

func TestEncodingOf(t *testing.T) {
	for _, tc := range []struct {
		name   string
		format trace.Format
		want   string
	}{
		{"a.jsonl", "", "mooncake "}, {"a.jsonl.gz", "", "mooncake gzip"}, {"dir.parquet/a.ZST", "", "mooncake zstd"}, {"a.parquet", "", "parquet "},
		{"a.jsonl", trace.Parquet, "parquet "}, {"a.jsonl.zst", trace.AIPerf, "aiperf zstd"}, {"", trace.Mooncake, "mooncake "},
		{"a.parquet", trace.AIPerf, "error: change one"}, {"a.parquet.gz", "", "error: compressed within"}, {"a", trace.Azure, "error: not written as azure"},
	} {
		e, err := EncodingOf(tc.name, tc.format)
		if want, bad := strings.CutPrefix(tc.want, "error: "); bad {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s as %q: %v", tc.name, tc.format, err)
			}
		} else if got := fmt.Sprintf("%s %s", e.Format, e.Compression); err != nil || got != tc.want {
			t.Errorf("%s as %q: %q, %v", tc.name, tc.format, got, err)
		}
	}
	for _, e := range []Encoding{{}, {Format: trace.Azure}, {Format: trace.Mooncake, Compression: "xz"}} {
		if _, err := NewWriter(io.Discard, e, 1); err == nil {
			t.Errorf("%+v is written", e)
		}
	}
}

// watched gives n requests and watches the live heap while it does.
type watched struct {
	n, ids      int
	given       int
	first, last uint64 // live bytes after a tenth and near the end
}

func (w *watched) Read(q *trace.Request) error {
	if w.given == w.n {
		return io.EOF
	}
	if w.given == w.n/10 || w.given == w.n-1 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.first, w.last = w.last, m.HeapAlloc
	}
	*q = trace.Request{Line: w.given + 1, Timestamp: float64(w.given), Delay: nan, InputLength: 512 * w.ids, OutputLength: 100, HashIDs: q.HashIDs[:0]}
	for i := range w.ids {
		q.HashIDs = append(q.HashIDs, uint64(w.given*w.ids+i))
	}
	w.given++
	return nil
}

// Ten times the rows take no more memory: less than their ids alone would.
func TestMemoryStaysBounded(t *testing.T) {
	const n = 2_000
	for name, tc := range map[string]struct {
		make func(Source) (Source, error)
		e    Encoding
		most uint64 // bytes
	}{
		"check":  {func(s Source) (Source, error) { return Check(s), nil }, Encoding{Format: trace.Mooncake}, 1 << 20},
		"zstd":   {func(s Source) (Source, error) { return s, nil }, Encoding{Format: trace.Mooncake, Compression: "zstd"}, 1 << 20},
		"aiperf": {func(s Source) (Source, error) { return s, nil }, Encoding{Format: trace.AIPerf, Compression: "gzip"}, 1 << 20},
		"slice":  {func(s Source) (Source, error) { return NewSlicer(s, Slice{From: 5, Share: 0.5}) }, Encoding{Format: trace.Mooncake}, 1 << 20},
		"merge":  {func(s Source) (Source, error) { return NewMerger(Merge{}, s, source()) }, Encoding{Format: trace.Mooncake}, 1 << 20},
		"scale": {func(s Source) (Source, error) {
			return NewScaler(s, Scale{LengthFactor: 2, Copies: 2}, Extent{LargestID: 1 << 40})
		}, Encoding{Format: trace.Mooncake}, 1 << 20},
		"anonymise": {func(s Source) (Source, error) { return NewAnonymiser(s, Anonymise{}), nil }, Encoding{Format: trace.Mooncake}, 1 << 20},
		"parquet":   {func(s Source) (Source, error) { return s, nil }, Encoding{Format: trace.Parquet}, 28 << 20},
	} {
		w := &watched{n: n, ids: 200}
		if tc.e.Format == trace.Parquet {
			w.ids = 2500 // a row group of a table has up to 2^21 ids
		}
		src, err := tc.make(w)
		if err != nil {
			t.Fatal(err)
		}
		out, err := NewWriter(io.Discard, tc.e, 512)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Copy(out, src); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f MB, then %.1f MB", name, float64(w.first)/1e6, float64(w.last)/1e6)
		if w.last > w.first+tc.most {
			t.Errorf("%s: %d bytes are live after %d rows and %d after %d", name, w.first, n/10, w.last, n)
		}
	}
}
