package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/kvbench/kvbench/results"
)

var testMeta = Meta{Command: []string{"kvbench", "test"}, Version: "v1.2.3", Commit: "abc", Go: "go1.26", Facts: map[string]string{"b": "2", "a": "1"}}

// random fills v with values that are all over their range, null at times.
func random(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			random(r, v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<32), r.Int64N(1e9)).UTC()))
			return
		}
		for i := range v.NumField() {
			random(r, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			random(r, v.Index(i))
		}
	case reflect.String:
		v.SetString([]string{"", "a", "täglich", strings.Repeat("x", 300), fmt.Sprint(r.IntN(5))}[r.IntN(5)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(r.NormFloat64() * 1e9)
	case reflect.Int64, reflect.Int32:
		v.SetInt(int64(r.Uint64()))
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(r.Uint64())
	default:
		panic(v.Kind())
	}
}

func randomRows[T Row](seed uint64, n int) []T {
	r := rand.New(rand.NewPCG(seed, 1))
	rows := make([]T, n)
	for i := range rows {
		random(r, reflect.ValueOf(&rows[i]).Elem())
	}
	return rows
}

// write writes rows in pieces and scribbles over each after it was written.
func write[T Row](t *testing.T, path string, rows []T, piece int) {
	t.Helper()
	w, err := Create[T](path, true, testMeta)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for part := range slices.Chunk(rows, piece) {
		lent := make([]T, len(part))
		for i := range lent {
			copyRow(reflect.ValueOf(&lent[i]).Elem(), reflect.ValueOf(&part[i]).Elem())
		}
		if err := w.Write(lent); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(9, 9))
		for i := range lent {
			scribble(r, reflect.ValueOf(&lent[i]).Elem())
		}
	}
	if w.Rows() != int64(len(rows)) {
		t.Errorf("Rows is %d of %d", w.Rows(), len(rows))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func copyRow(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			to.Elem().Set(from.Elem())
		}
	case reflect.Slice:
		to.Set(reflect.AppendSlice(reflect.MakeSlice(from.Type(), 0, from.Len()), from))
	case reflect.Struct:
		for i := range from.NumField() {
			copyRow(to.Field(i), from.Field(i))
		}
	default:
		to.Set(from)
	}
}

// scribble overwrites what the fields of a row lead to.
func scribble(r *rand.Rand, row reflect.Value) {
	for _, f := range references(row.Type()) {
		x := row.Field(f)
		if x.Kind() == reflect.Pointer && !x.IsNil() {
			random(r, x.Elem())
		} else if x.Kind() == reflect.Slice {
			for i := range x.Len() {
				x.Index(i).SetString("scribble")
			}
		}
	}
}

func readAll[T Row](t *testing.T, path string, piece int) []T {
	t.Helper()
	r, err := Open[T](path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if d := cmp.Diff(testMeta, r.Meta()); d != "" {
		t.Error(d)
	}
	var out []T
	rows := make([]T, piece)
	for {
		n, err := r.Read(rows)
		out = append(out, rows[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if int64(len(out)) != r.Rows() {
		t.Errorf("%d rows read of %d", len(out), r.Rows())
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	t.Run("trials", roundTrip[Trial])
	t.Run("requests", roundTrip[Request])
	t.Run("decisions", roundTrip[Decision])
	t.Run("operations", roundTrip[Operation])
}

func roundTrip[T Row](t *testing.T) {
	for _, n := range []int{0, 1, batchRows, batchRows + 7} {
		rows := randomRows[T](uint64(n), n)
		path := filepath.Join(t.TempDir(), "x.parquet")
		write(t, path, rows, 1000)
		got := readAll[T](t, path, 333)
		if len(got) != n {
			t.Fatalf("%d rows of %d", len(got), n)
		}
		for i := range got {
			if emptyIsNil(&rows[i]); reflect.DeepEqual(rows[i], got[i]) {
				continue
			}
			if d := cmp.Diff(rows[i], got[i], cmp.FilterValues(func(a, b []string) bool { return len(a)+len(b) == 0 }, cmp.Ignore())); d != "" {
				t.Fatalf("row %d: %s", i, d)
			}
		}
		if all, err := ReadAll[T](path); err != nil || len(all) != n {
			t.Fatalf("%d rows of %d, %v", len(all), n, err)
		}
		first, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, rows, 37)
		if second, err := os.ReadFile(path); err != nil || !bytes.Equal(first, second) {
			t.Errorf("%d rows in other pieces make other bytes (%v)", n, err)
		}
	}
}

// emptyIsNil makes empty lists nil, since a table does not tell them apart.
func emptyIsNil(row any) {
	v := reflect.ValueOf(row).Elem()
	for _, f := range references(v.Type()) {
		if x := v.Field(f); x.Kind() == reflect.Slice && x.Len() == 0 {
			x.SetZero()
		}
	}
}

func TestRowGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	rows := make([]Operation, groupRows+5)
	for i := range rows {
		rows[i].Op, rows[i].Kind = int64(i), "query"
	}
	write(t, path, rows, 5000)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	p, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	for _, g := range p.RowGroups() {
		sizes = append(sizes, g.NumRows())
	}
	if !slices.Equal(sizes, []int64{groupRows, 5}) {
		t.Errorf("row groups of %v", sizes)
	}
	for i, row := range readAll[Operation](t, path, 10000) {
		if row.Op != int64(i) || row.Kind != "query" || row.Thread != nil {
			t.Fatalf("row %d: %+v", i, row)
		}
	}
}

func TestNothingIsLeftOrReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.parquet")
	w, err := Create[Decision](path, false, testMeta)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(make([]Decision, 3000)), w.Abort(), w.Abort()); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Fatalf("%v is left", entries)
	}
	write(t, path, []Decision{{Request: 1}}, 1)
	if _, err := Create[Decision](path, false, testMeta); !errors.Is(err, os.ErrExist) {
		t.Errorf("an existing table: %v", err)
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.parquet")
	write(t, good, randomRows[Request](1, 2000), 2000)
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign.parquet")
	if err := parquet.WriteFile(foreign, []struct{ A int }{{1}}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"empty.parquet":     {[]byte{}, "not a Parquet file"},
		"text.parquet":      {[]byte("hello"), "not a Parquet file"},
		"cut.parquet":       {whole[:len(whole)/2], "not a Parquet file, or a damaged one"},
		"good.parquet":      {nil, `it is a table of schema "kvbench.requests/v1", and one of "kvbench.decisions/v1" is wanted`},
		"foreign.parquet":   {nil, "not a table of kvbench: its metadata has no kvbench.schema"},
		"":                  {nil, "it is a folder"},
		"is not there":      {nil, "no such file"},
		"no/folder.parquet": {nil, "no such file"},
	} {
		path := filepath.Join(dir, name)
		if c.content != nil {
			if err := os.WriteFile(path, c.content, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open[Decision](path); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want %q", name, err, c.says)
		}
	}
}

// TestDamage flips bytes: a reader must say so or read something, and never panic.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.parquet")
	write(t, path, randomRows[Operation](1, 300), 300)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	errs := 0
	for range 200 {
		b := bytes.Clone(whole)
		b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		if in, err := Open[Operation](path); err != nil {
			errs++
		} else {
			_ = in.Close()
			if _, err := ReadAll[Operation](path); err != nil {
				errs++
			}
		}
	}
	if errs < 40 {
		t.Errorf("only %d of 200 damaged files were refused", errs)
	}
}

// TestOlderColumns reads files of this version that lack columns, or have them as
// another type.
func TestOlderColumns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.parquet")
	type without struct {
		Op         int64  `parquet:"op,delta"`
		Kind       string `parquet:"kind,dict"`
		WorkerID   uint64 `parquet:"worker_id"`
		DPRank     uint32 `parquet:"dp_rank"`
		Seq        uint64 `parquet:"seq"`
		Blocks     int64  `parquet:"blocks"`
		DeadlineNS int64  `parquet:"deadline_ns,delta"`
	}
	key := parquet.KeyValueMetadata(SchemaKey, OperationsV1)
	if err := parquet.WriteFile(path, []without{{Op: 7, Kind: "query"}}, key); err != nil {
		t.Fatal(err)
	}
	in, err := Open[Operation](path)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]Operation, 2)
	if n, err := in.Read(rows); n != 1 || !errors.Is(err, io.EOF) || rows[0].Op != 7 || rows[0].Kind != "query" || rows[0].FinishedNS != nil {
		t.Errorf("%d rows, %v, %+v", n, err, rows[0])
	}
	_ = in.Close()
	type other struct {
		Op string `parquet:"op"`
	}
	if err := parquet.WriteFile(path, []other{{"7"}}, key); err != nil {
		t.Fatal(err)
	}
	if _, err := Open[Operation](path); err == nil || !strings.Contains(err.Error(), "column op is of type") {
		t.Errorf("a column of another type: %v", err)
	}
	if err := parquet.WriteFile(path, []struct{ A int }{{1}}, key); err != nil {
		t.Fatal(err)
	}
	if _, err := Open[Operation](path); err == nil || !strings.Contains(err.Error(), "column op is missing") {
		t.Errorf("a missing column: %v", err)
	}
}

// TestTrialOf gives each figure of a record a value of its own and finds it in the
// row.
func TestTrialOf(t *testing.T) {
	rec := new(results.Record)
	next := int64(1)
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		next++
		switch v.Kind() {
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0))
		case reflect.String:
			v.SetString(fmt.Sprint("text ", next))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Float64:
			v.SetFloat(float64(next))
		case reflect.Int, reflect.Int64:
			v.SetInt(next)
		default:
			v.SetUint(uint64(next))
		}
	}
	fill(reflect.ValueOf(rec).Elem())
	rec.Provenance.StartTime = "2026-01-02T03:04:05.000000006Z"
	row := TrialOf("a.json", rec)
	if !row.Valid || row.Source != "a.json" || !row.StartTime.Equal(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)) ||
		len(row.Reasons) != 1 || !slices.Equal(row.Warnings, rec.Warnings) {
		t.Errorf("%+v", row)
	}
	seen := map[any]string{}
	v := reflect.ValueOf(row)
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch {
		case v.Type().Field(i).Tag.Get("record") == "":
			continue
		case f.IsZero():
			t.Errorf("%s is not filled", name)
			continue
		case f.Kind() == reflect.Pointer:
			f = f.Elem()
		default:
			f = f.Index(0)
		}
		if f.Kind() == reflect.Bool {
			continue
		}
		value := fmt.Sprint(f.Interface())
		if other := seen[value]; other != "" {
			t.Errorf("%s and %s have the same value", name, other)
		}
		seen[value] = name
	}
	if got := *row.AchievedBlockOpsPerSec; got != rec.Rates.AchievedBlockOpsPerSec {
		t.Errorf("achieved %v", got)
	}
	if got := *row.QueryServiceP99NS; got != rec.Queries.Service.P99 {
		t.Errorf("p99 %v", got)
	}

	// What is not known is null.
	rec.Machine.StealNS, rec.Queries.Service.N, rec.Reader = -1, 0, nil
	row = TrialOf("a.json", rec)
	if row.MachineStealNS != nil || row.QueryServiceP99NS != nil || *row.QueryServiceN != 0 || row.ResidentBlocksReaderRate != nil {
		t.Error("unknown figures are not null")
	}
	if row.QueryQueueWaitP99NS == nil {
		t.Error("a known figure is null")
	}
}
