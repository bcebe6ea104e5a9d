package rewrite

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"

	"github.com/kvbench/kvbench/trace"
)

// Merge says what traces that are merged have to do with one another.
type Merge struct {
	// Same says that they are parts of one trace: ids and sessions of one name are
	// the same in all. Else source k of n gets the ids id x n + k, so that none has
	// content of another, and its session s is called "<s>:file_k".
	Same bool
	// Names are those of the sources, for errors; nil: they are numbered from 1.
	Names []string
	// Rebase shifts the times of each source so that its first row is at 0.
	Rebase bool
}

// NewMerger returns a source of the requests of all sources in the order of time,
// and of sources where times are equal. A row stays behind those before it in its
// source, even if its time is earlier or it has none. Memory grows with the named
// sessions.
func NewMerger(m Merge, sources ...Source) (Source, error) {
	if len(sources) == 0 {
		return nil, errors.New("there is nothing to merge")
	}
	out := &merger{merge: m, n: uint64(len(sources))}
	for k, src := range sources {
		out.pending = append(out.pending, &mergeInput{src: src, k: k, at: math.Inf(-1), base: math.NaN()})
	}
	return out, nil
}

type merger struct {
	merge   Merge
	n       uint64
	turns   trace.Turns
	pending []*mergeInput // not begun
	inputs  mergeHeap
	last    *mergeInput // whose row was given last
}

// mergeInput is a source with the row that comes next.
type mergeInput struct {
	src  Source
	k    int
	row  trace.Request
	at   float64 // when the row has its turn: never before an earlier one
	base float64
}

type mergeHeap []*mergeInput

func (h mergeHeap) Len() int      { return len(h) }
func (h mergeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h mergeHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].k < h[j].k
}
func (h *mergeHeap) Push(x any) { *h = append(*h, x.(*mergeInput)) }
func (h *mergeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (m *merger) Read(q *trace.Request) error {
	for _, in := range m.pending {
		if err := m.next(in); err == nil {
			m.inputs = append(m.inputs, in)
		} else if err != io.EOF {
			return err
		}
	}
	if m.pending != nil {
		m.pending = nil
		heap.Init(&m.inputs)
	}
	if m.last != nil {
		switch err := m.next(m.last); {
		case err == nil:
			heap.Fix(&m.inputs, 0)
		case err == io.EOF:
			heap.Pop(&m.inputs)
		default:
			return err
		}
		m.last = nil
	}
	if len(m.inputs) == 0 {
		return io.EOF
	}
	in := m.inputs[0]
	m.last = in
	ids := append(q.HashIDs[:0], in.row.HashIDs...)
	*q = in.row
	q.HashIDs = ids
	if _, field, err := m.turns.Settle(q); err != nil {
		return fmt.Errorf("%s: %w", m.name(in), rowError(q, field, err))
	}
	return nil
}

func (m *merger) name(in *mergeInput) string {
	if in.k < len(m.merge.Names) {
		return m.merge.Names[in.k]
	}
	return fmt.Sprintf("source %d", in.k+1)
}

// next reads the next row of an input and makes it what it is in the whole.
func (m *merger) next(in *mergeInput) error {
	q := &in.row
	if err := in.src.Read(q); err != nil {
		return err
	}
	if m.merge.Rebase {
		if err := rebase(q, &in.base); err != nil {
			return fmt.Errorf("%s: %w", m.name(in), err)
		}
	}
	if !math.IsNaN(q.Timestamp) {
		in.at = max(in.at, q.Timestamp)
	}
	if m.merge.Same {
		return nil
	}
	for i, id := range q.HashIDs {
		hi, lo := bits.Mul64(id, m.n)
		sum, carry := bits.Add64(lo, uint64(in.k), 0)
		if hi != 0 || carry != 0 {
			return fmt.Errorf("%s: %w", m.name(in), rowError(q, "hash_ids", fmt.Errorf(
				"the id %d becomes larger than 2^64-1, as ids of %d sources are kept apart; number the ids of each anew with 'kvbench trace anonymise --ids numbered'", id, m.n)))
		}
		q.HashIDs[i] = sum
	}
	if q.Session != "" {
		q.Session = fmt.Sprintf("%s:file_%d", q.Session, in.k)
	}
	return nil
}
