package corpus

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// row is a row of the exported table. Its fields are described at ExportParquet.
type row struct {
	Op             int64    `parquet:"op,delta"`
	Deadline       int64    `parquet:"deadline_ns,delta"`
	Kind           string   `parquet:"kind,dict"`
	Worker         uint64   `parquet:"worker_id"`
	DP             uint32   `parquet:"dp_rank"`
	Seq            uint64   `parquet:"seq"`
	Parent         *uint64  `parquet:"parent_sequence_hash,optional"`
	LocalHashes    []uint64 `parquet:"local_hashes,list"`
	SequenceHashes []uint64 `parquet:"sequence_hashes,list"`
	TraceRow       *uint32  `parquet:"trace_row,optional"`
	Session        *uint32  `parquet:"session,optional"`
	InputTokens    *uint32  `parquet:"input_tokens,optional"`
	OutputTokens   *uint32  `parquet:"output_tokens,optional"`
	FirstToken     *int64   `parquet:"first_token_ns,optional"`
	Finish         *int64   `parquet:"finish_ns,optional"`
}

// The keys of the metadata that ExportParquet adds.
const (
	ParquetManifestKey = "kvbench.manifest"      // the manifest as JSON
	ParquetSHA256Key   = "kvbench.corpus.sha256" // what SHA256 returns
)

// A row group is complete with so many rows or hashes, whatever comes first. It
// is held in memory until then.
const (
	rowGroupRows   = 1 << 16
	rowGroupHashes = 1 << 22
)

// ExportParquet writes the corpus to w as a Parquet file, zstd-compressed, so
// that programs without this package can replay the same work. It holds one row
// group in memory at a time. There is one row for each op, in order:
//
//	op                    int64          position in the order of the corpus, from 0
//	deadline_ns           int64          from the start of the window
//	kind                  string         query, stored, removed or cleared
//	worker_id, dp_rank    uint64, uint32 the rank
//	seq                   uint64         number among all queries; id of the event within its rank
//	parent_sequence_hash  uint64 or null of a stored; null: starts a prompt
//	local_hashes          list of uint64 of a query or stored, else empty
//	sequence_hashes       list of uint64 of a stored or removed, else empty
//	trace_row, session    uint32 or null of a query: where in the transformed trace it comes from
//	input_tokens, output_tokens  uint32 or null, of a query
//	first_token_ns, finish_ns    int64 or null, of a query: when the rank's engine had the first
//	                             token of the answer and when the request ended, from the start of
//	                             the window and perhaps behind its end; null also if it never ran
//
// The file's metadata has the manifest and the corpus's SHA-256 under
// ParquetManifestKey and ParquetSHA256Key. The caller closes what is behind w;
// after an error the output is not a Parquet file.
func ExportParquet(w io.Writer, c *Corpus) error {
	if err := c.exportParquet(w); err != nil {
		return fmt.Errorf("export corpus as Parquet: %w", err)
	}
	return nil
}

func (c *Corpus) exportParquet(w io.Writer) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("malformed corpus: %w", err)
	}
	img, err := c.seal()
	if err != nil {
		return err
	}
	out := parquet.NewGenericWriter[row](w,
		parquet.Compression(&parquet.Zstd),
		parquet.KeyValueMetadata(ParquetManifestKey, string(img.sections[manifestSection])),
		parquet.KeyValueMetadata(ParquetSHA256Key, c.SHA256()),
	)
	rows := make([]row, 0, 1024)
	inGroup, hashes := 0, uint64(0)
	write := func() error {
		_, err := out.Write(rows)
		inGroup += len(rows)
		rows = rows[:0]
		return err
	}
	for i := range c.Ops {
		rows = append(rows, c.row(i))
		hashes += c.Ops[i].HashCount()
		if len(rows) < cap(rows) && hashes < rowGroupHashes {
			continue
		}
		if err := write(); err != nil {
			return err
		}
		if inGroup >= rowGroupRows || hashes >= rowGroupHashes {
			if err := out.Flush(); err != nil {
				return err
			}
			inGroup, hashes = 0, 0
		}
	}
	if err := write(); err != nil {
		return err
	}
	return out.Close()
}

// row returns op i as a row. Its slices alias the corpus.
func (c *Corpus) row(i int) row {
	op := &c.Ops[i]
	rank := c.Ranks[op.Slot]
	r := row{Op: int64(i), Deadline: op.Deadline, Kind: op.Kind.String(), Worker: rank.Worker, DP: rank.DP, Seq: uint64(op.Seq)}
	hashes := c.Hashes[op.Hashes:][:op.HashCount()]
	switch op.Kind {
	case Query:
		r.LocalHashes = hashes
		q := &c.Requests[op.Seq]
		r.TraceRow, r.Session, r.InputTokens, r.OutputTokens = &q.Row, &q.Session, &q.InputTokens, &q.OutputTokens
		if q.Ran() {
			r.FirstToken, r.Finish = &q.FirstToken, &q.Finish
		}
	case Stored:
		r.SequenceHashes, r.LocalHashes = hashes[:op.Len], hashes[op.Len:]
		if op.HasParent != 0 {
			r.Parent = &op.Parent
		}
	case Removed:
		r.SequenceHashes = hashes
	}
	return r
}
