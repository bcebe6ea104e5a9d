package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvbench/kvbench/indexer"
)

func TestExportParquet(t *testing.T) {
	for _, n := range []int{0, 1, 5000} {
		c := random(20, n)
		var b bytes.Buffer
		if err := ExportParquet(&b, c); err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		var m Manifest
		text, _ := f.Lookup(ParquetManifestKey)
		if err := json.Unmarshal([]byte(text), &m); err != nil || m != c.Manifest {
			t.Fatalf("manifest %q (%v)", text, err)
		}
		if got, _ := f.Lookup(ParquetSHA256Key); got != c.SHA256() {
			t.Fatalf("sha256 %q, want %q", got, c.SHA256())
		}
		rows, err := parquet.Read[row](bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != n {
			t.Fatalf("%d rows, want %d", len(rows), n)
		}
		for i, r := range rows {
			op := c.Ops[i]
			rank := c.Ranks[op.Slot]
			if r.Op != int64(i) || r.Deadline != op.Deadline || r.Kind != op.Kind.String() || r.Worker != rank.Worker || r.DP != rank.DP || r.Seq != uint64(op.Seq) {
				t.Fatalf("row %d: %+v from %+v", i, r, op)
			}
			h := c.Hashes[op.Hashes:]
			var locals, sequences []uint64
			switch op.Kind {
			case Query:
				locals = h[:op.Len]
				q := c.Requests[op.Seq]
				if *r.TraceRow != q.Row || *r.Session != q.Session || *r.InputTokens != q.InputTokens || *r.OutputTokens != q.OutputTokens ||
					(r.FirstToken != nil) != q.Ran() || (r.Finish != nil) != q.Ran() || q.Ran() && (*r.FirstToken != q.FirstToken || *r.Finish != q.Finish) {
					t.Fatalf("row %d: request %+v", i, q)
				}
			case Stored:
				sequences, locals = h[:op.Len], h[op.Len:2*op.Len]
			case Removed:
				sequences = h[:op.Len]
			}
			if !slices.Equal(r.LocalHashes, locals) || !slices.Equal(r.SequenceHashes, sequences) {
				t.Fatalf("row %d (%s): hashes", i, r.Kind)
			}
			if (r.Parent != nil) != (op.HasParent == 1) || r.Parent != nil && *r.Parent != op.Parent {
				t.Fatalf("row %d: parent %v of %+v", i, r.Parent, op)
			}
			if op.Kind != Query && (r.TraceRow != nil || r.Session != nil || r.InputTokens != nil || r.OutputTokens != nil || r.FirstToken != nil || r.Finish != nil) {
				t.Fatalf("row %d: a %s with a request", i, r.Kind)
			}
		}
	}
}

func TestExportParquetRowGroups(t *testing.T) {
	c := random(21, 2*rowGroupRows+10)
	var b bytes.Buffer
	if err := ExportParquet(&b, c); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, g := range f.RowGroups() {
		total += g.NumRows()
		if g.NumRows() > rowGroupRows {
			t.Errorf("a row group of %d rows", g.NumRows())
		}
	}
	if total != int64(len(c.Ops)) || len(f.RowGroups()) != 3 {
		t.Errorf("%d rows in %d groups", total, len(f.RowGroups()))
	}
}

// Long lists end a row group too, or it would not fit into memory.
func TestExportParquetLongRows(t *testing.T) {
	const blocks, n = rowGroupHashes/2 + 1, 5
	c := &Corpus{
		Manifest: Manifest{Schema: SchemaV1, WindowNS: 1, Totals: Totals{RemovedEvents: n, RemovedBlocks: n * blocks}},
		Ranks:    []indexer.Rank{{}},
		Hashes:   make([]uint64, n*blocks),
	}
	for i := range n {
		c.Ops = append(c.Ops, Op{Hashes: uint64(i * blocks), Seq: uint32(i), Len: blocks, Kind: Removed})
	}
	var b bytes.Buffer
	if err := ExportParquet(&b, c); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var rows []int64
	for _, g := range f.RowGroups() {
		rows = append(rows, g.NumRows())
	}
	if !slices.Equal(rows, []int64{2, 2, 1}) {
		t.Errorf("row groups of %d rows", rows)
	}
}

func TestExportParquetFailures(t *testing.T) {
	c := random(22, 3000)
	var b bytes.Buffer
	if err := ExportParquet(&b, c); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < b.Len(); n += 1 + b.Len()/50 {
		if err := ExportParquet(&failAfter{n}, c); !errors.Is(err, errDisk) {
			t.Fatalf("full after %d of %d bytes: %v", n, b.Len(), err)
		}
	}
	bad := clone(c)
	bad.Ops[7].Slot = 99
	if err := ExportParquet(&b, bad); err == nil || !strings.Contains(err.Error(), "malformed corpus: op 7") {
		t.Fatalf("malformed: %v", err)
	}
}

// Another reader finds the same table.
func TestExportParquetForOthers(t *testing.T) {
	if out, err := exec.Command("python3", "-c", "import pyarrow.parquet").CombinedOutput(); err != nil {
		t.Skipf("python3 with pyarrow is not there: %v: %s", err, bytes.TrimSpace(out))
	}
	c := random(23, 2000)
	path := filepath.Join(t.TempDir(), "c.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ExportParquet(f, c), f.Close()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("python3", "-c", `
import json, sys, pyarrow.parquet as pq
t = pq.read_table(sys.argv[1])
json.dump({"types": [f"{f.name} {f.type}" for f in t.schema], "sha256": t.schema.metadata[b"kvbench.corpus.sha256"].decode(),
           "rows": t.to_pylist()}, sys.stdout)`, path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Types  []string
		SHA256 string
		Rows   []struct {
			Op, Deadline_ns      int64
			Kind                 string
			Worker_id, Seq       uint64
			Dp_rank              uint32
			Parent_sequence_hash *uint64
			Local_hashes         []uint64
			Sequence_hashes      []uint64
			Trace_row, Session   *uint32
			Input_tokens         *uint32
			Output_tokens        *uint32
			First_token_ns       *int64
			Finish_ns            *int64
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	wantTypes := []string{"op int64", "deadline_ns int64", "kind string", "worker_id uint64", "dp_rank uint32", "seq uint64",
		"parent_sequence_hash uint64", "local_hashes list<element: uint64 not null>", "sequence_hashes list<element: uint64 not null>",
		"trace_row uint32", "session uint32", "input_tokens uint32", "output_tokens uint32", "first_token_ns int64", "finish_ns int64"}
	if !slices.Equal(got.Types, wantTypes) {
		t.Errorf("columns %q, want %q", got.Types, wantTypes)
	}
	if got.SHA256 != c.SHA256() {
		t.Errorf("sha256 %q, want %q", got.SHA256, c.SHA256())
	}
	if len(got.Rows) != len(c.Ops) {
		t.Fatalf("%d rows, want %d", len(got.Rows), len(c.Ops))
	}
	same := func(a, b *uint32) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	sameTime := func(a, b *int64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	for i, g := range got.Rows {
		w := c.row(i)
		if g.Op != w.Op || g.Deadline_ns != w.Deadline || g.Kind != w.Kind || g.Worker_id != w.Worker || g.Seq != w.Seq || g.Dp_rank != w.DP ||
			(g.Parent_sequence_hash == nil) != (w.Parent == nil) || w.Parent != nil && *w.Parent != *g.Parent_sequence_hash ||
			!slices.Equal(g.Local_hashes, w.LocalHashes) || !slices.Equal(g.Sequence_hashes, w.SequenceHashes) ||
			!same(g.Trace_row, w.TraceRow) || !same(g.Session, w.Session) || !same(g.Input_tokens, w.InputTokens) || !same(g.Output_tokens, w.OutputTokens) ||
			!sameTime(g.First_token_ns, w.FirstToken) || !sameTime(g.Finish_ns, w.Finish) {
			t.Fatalf("row %d: %+v, want %+v", i, g, w)
		}
	}
}
