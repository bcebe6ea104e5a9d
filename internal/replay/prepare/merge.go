package prepare

import (
	"context"
	"math"
	"math/bits"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/kvbench/kvbench/internal/replay/corpus"
)

// scale maps the times of one rank to deadlines.
type scale struct {
	first  int64  // time that becomes 0
	span   uint64 // time from first that becomes window; 0: all becomes 0
	window uint64 // ns, at most 2^63-1
}

// deadline needs first <= at. It does not change the order of times. One behind
// first + span is behind the window, and 2^63-1 where it would be more; if span is
// 0, where nothing can be scaled, all times are 0.
func (s scale) deadline(at int64) int64 {
	if s.span == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(at)-uint64(s.first), s.window)
	if hi >= s.span {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, s.span)
	return int64(min(q, math.MaxInt64))
}

// request adds the times to a request.
func (s scale) request(r corpus.Request, m *moments) corpus.Request {
	r.FirstToken, r.Finish = corpus.NeverRan, corpus.NeverRan
	if m.ran {
		r.FirstToken, r.Finish = s.deadline(m.first), s.deadline(m.end)
	}
	return r
}

// scalesOf returns the scale of each timeline.
func scalesOf(lines []timeline, window uint64, rescale string) []scale {
	var longest uint64
	for i := range lines {
		longest = max(longest, lines[i].span())
	}
	scales := make([]scale, len(lines))
	for i := range lines {
		span := lines[i].span()
		if rescale == corpus.RescaleGlobal {
			span = longest
		}
		scales[i] = scale{first: lines[i].first, span: span, window: window}
	}
	return scales
}

// head is the next op of a stream in the merge. The streams are numbered so that
// (deadline, stream) is the order of the corpus: first the queries of all slots,
// then the events of all slots.
type head struct {
	deadline int64
	stream   uint32
}

func (a head) before(b head) bool {
	return a.deadline < b.deadline || a.deadline == b.deadline && a.stream < b.stream
}

// siftDown puts h[i] where it belongs in the heap below it.
func siftDown(h []head, i int) {
	x := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(x) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = x
}

// cursor walks over the ops of a stream.
type cursor struct {
	ops   *slab[corpus.Op]
	scale scale
	chunk int
	i     int
}

// op returns the op under the cursor, nil behind the last one.
func (c *cursor) op() *corpus.Op {
	if c.chunk == len(c.ops.chunks) {
		return nil
	}
	return &c.ops.chunks[c.chunk][c.i]
}

func (c *cursor) advance() {
	if c.i++; c.i == len(c.ops.chunks[c.chunk]) {
		c.chunk, c.i = c.chunk+1, 0
	}
}

// checkEvery is how many ops are worked on between two looks at the context.
const checkEvery = 1 << 14

// mergeOps merges the ops of all timelines. It gives each op its deadline, its
// number and the place of its hashes, and each request its times, and writes that place to the op of the
// timeline too, for gatherHashes.
func mergeOps(ctx context.Context, lines []timeline, scales []scale, request func(row uint32) corpus.Request) ([]corpus.Op, []corpus.Request, error) {
	numOps, numQueries := 0, 0
	cursors := make([]cursor, 2*len(lines))
	for slot := range lines {
		l := &lines[slot]
		numOps += l.ops()
		numQueries += l.queries.ops.n
		cursors[slot] = cursor{ops: &l.queries.ops, scale: scales[slot]}
		cursors[len(lines)+slot] = cursor{ops: &l.events.ops, scale: scales[slot]}
	}
	heap := make([]head, 0, len(cursors))
	for i := range cursors {
		if op := cursors[i].op(); op != nil {
			heap = append(heap, head{cursors[i].scale.deadline(op.Deadline), uint32(i)})
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i)
	}

	ops := make([]corpus.Op, 0, numOps)
	requests := make([]corpus.Request, 0, numQueries)
	var hashes uint64
	for len(heap) > 0 {
		if len(ops)%checkEvery == 0 && ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		top := heap[0]
		cur := &cursors[top.stream]
		src := cur.op()
		src.Hashes = hashes
		op := *src
		op.Deadline = top.deadline
		if op.Kind == corpus.Query {
			// The slabs of queries and requests have grown in step.
			of := &lines[op.Slot].requests.chunks[cur.chunk][cur.i]
			requests = append(requests, cur.scale.request(request(op.Seq), of))
			op.Seq = uint32(len(requests) - 1)
		}
		ops = append(ops, op)
		hashes += op.HashCount()

		cur.advance()
		if next := cur.op(); next != nil {
			heap[0].deadline = cur.scale.deadline(next.Deadline)
		} else {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		if len(heap) > 0 {
			siftDown(heap, 0)
		}
	}
	return ops, requests, nil
}

// gatherHashes copies the hashes of all timelines to where mergeOps put them, on
// all cores. It frees the ops and hashes of the timelines on the way.
func gatherHashes(ctx context.Context, lines []timeline) ([]uint64, error) {
	n := 0
	for i := range lines {
		n += lines[i].queries.hashes.n + lines[i].events.hashes.n
	}
	hashes := make([]uint64, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range lines {
		for _, s := range []*stream{&lines[i].queries, &lines[i].events} {
			if s.ops.n == 0 {
				continue
			}
			group.Go(func() error { return s.scatter(ctx, hashes) })
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return hashes, nil
}

// scatter copies the hashes of s to dst and empties s.
func (s *stream) scatter(ctx context.Context, dst []uint64) error {
	src := s.hashes.chunks
	at := 0 // in src[0]
	for ci, chunk := range s.ops.chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range chunk {
			op := &chunk[i]
			for to := dst[op.Hashes:][:op.HashCount()]; len(to) > 0; {
				n := copy(to, src[0][at:])
				to = to[n:]
				if at += n; at == len(src[0]) {
					src[0] = nil
					src, at = src[1:], 0
				}
			}
		}
		s.ops.chunks[ci] = nil
	}
	*s = stream{}
	return nil
}
