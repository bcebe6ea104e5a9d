package runs

import (
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// Reader answers queries. See the package comment.
type Reader struct {
	x     *Index
	part  *participant
	start []uint64
	again []indexer.Slot // changed since note
	list  []indexer.Slot
}

// Reader implements indexer.Index.
func (x *Index) Reader() indexer.Reader {
	return &Reader{x: x, part: x.ep.join(), start: make([]uint64, len(x.logs))}
}

// Close implements indexer.Reader.
func (r *Reader) Close() { r.x.ep.leave(r.part) }

// note remembers how far each event thread is.
func (r *Reader) note() {
	for i, l := range r.x.logs {
		r.start[i] = l.count.Load() &^ 1
	}
}

// changed lists whose commits ran since note; false: too many to know.
func (r *Reader) changed() bool {
	r.again = r.again[:0]
	for i, l := range r.x.logs {
		end := (l.count.Load() + 1) &^ 1
		if end-r.start[i] > 2*48 {
			return false
		}
		for n := r.start[i]; n < end; n += 2 {
			r.again = append(r.again, indexer.Slot(l.log[n/2%64].Load()))
		}
		if l.count.Load()-r.start[i] > 2*56 {
			return false
		}
	}
	return true
}

// Find implements indexer.Reader.
func (r *Reader) Find(query []indexer.LocalHash, opts indexer.FindOptions, ans *indexer.Answer) {
	ans.Reset()
	if len(query) == 0 {
		return
	}
	x := r.x
	x.ep.pin(r.part)
	q := unsafe.Slice((*uint64)(&query[0]), len(query))
	done := false
	for try := 0; try < 3 && !done; try++ {
		ans.Reset()
		r.note()
		r.walk(q, opts.EarlyExit, ans)
		done = r.changed() && r.mend(q, ans)
	}
	if !done {
		ans.Reset()
		r.stop()
		r.walk(q, opts.EarlyExit, ans)
		r.release()
	}
	x.ep.unpin(r.part)
	ans.Keep(opts.MaxRanks)
}

// mend walks again, each on its own, the ranks that changed during the walk. A
// rank that was not seen at all needs it not: one word said so. It is false if
// one is gone now, since an answer cannot lose a rank.
func (r *Reader) mend(q []uint64, ans *indexer.Answer) bool {
	r.list = append(r.list[:0], r.again...)
	for _, slot := range r.list {
		if ans.Score(slot) == 0 {
			continue
		}
		n := r.walkAgain(q, slot)
		if n == 0 {
			return false
		}
		ans.Set(slot, n)
	}
	return true
}

// walkAgain returns the score of one rank at one moment.
func (r *Reader) walkAgain(q []uint64, slot indexer.Slot) uint32 {
	for range 8 {
		r.note()
		n := r.walkOne(q, slot)
		if r.changed() && !slices.Contains(r.again, slot) {
			return n
		}
	}
	r.stop()
	defer r.release()
	return r.walkOne(q, slot)
}

// stop makes every event thread wait before its next commit.
func (r *Reader) stop() {
	for _, l := range r.x.logs {
		l.gate.Add(1)
	}
	for _, l := range r.x.logs {
		for l.count.Load()%2 != 0 {
			runtime.Gosched()
		}
	}
}

func (r *Reader) release() {
	for _, l := range r.x.logs {
		l.gate.Add(-1)
	}
}

// commonChunk is how many words are compared at once.
const commonChunk = 16

// common returns the length of the common beginning.
func common(a, b []uint64) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+commonChunk <= n; i += commonChunk {
		if *(*[commonChunk]uint64)(a[i:]) != *(*[commonChunk]uint64)(b[i:]) {
			break
		}
	}
	for ; i < n && a[i] == b[i]; i++ {
	}
	return i
}

// walk follows the query from run to run and counts a run's blocks for the ranks
// that hold all blocks before it.
func (r *Reader) walk(q []uint64, earlyExit bool, ans *indexer.Answer) {
	x := r.x
	scores, touched := ans.Open(int(x.slots.Load()))
	run, off, depth := x.root, uint32(0), uint32(0)
	for int(depth) < len(q) {
		run = x.find(run, off, q[depth], false)
		if run == 0 {
			break
		}
		m := uint32(common(x.content(run), q[depth:]))
		going := 0
		h := x.mem.at(run)
		hold := h[hHold:headerWords]
		next := &h[hMore]
		for {
			for i := range hold {
				v := atomic.LoadUint64(&hold[i])
				cutoff := uint32(v)
				if cutoff == 0 {
					continue
				}
				slot := indexer.Slot(v>>32) - 1
				if int(slot) >= len(scores) {
					// It was attached after the walk began.
					ans.Done(touched)
					scores, touched = ans.Open(int(slot) + 1)
				}
				score := scores[slot]
				if score != depth {
					continue
				}
				if depth == 0 {
					touched = append(touched, slot)
				}
				scores[slot] = depth + min(cutoff, m)
				if cutoff >= m {
					going++
				}
			}
			b := ref(atomic.LoadUint64(next))
			if b == 0 {
				break
			}
			p := x.mem.at(b)
			next, hold = &p[0], p[2:blockWords]
		}
		if going == 0 || going == 1 && earlyExit {
			break
		}
		depth, off = depth+m, m
	}
	ans.Done(touched)
}

func (r *Reader) walkOne(q []uint64, slot indexer.Slot) uint32 {
	x := r.x
	run, off, depth := x.root, uint32(0), uint32(0)
	for int(depth) < len(q) {
		if run = x.find(run, off, q[depth], false); run == 0 {
			return depth
		}
		m := uint32(common(x.content(run), q[depth:]))
		h := x.mem.at(run)
		hold := h[hHold:headerWords]
		next := &h[hMore]
		cutoff := uint32(0)
	scan:
		for {
			for i := range hold {
				if v := atomic.LoadUint64(&hold[i]); v>>32 == uint64(slot)+1 && uint32(v) > cutoff {
					cutoff = uint32(v)
					break scan
				}
			}
			b := ref(atomic.LoadUint64(next))
			if b == 0 {
				break
			}
			p := x.mem.at(b)
			next, hold = &p[0], p[2:blockWords]
		}
		if cutoff < m {
			return depth + cutoff
		}
		depth, off = depth+m, m
	}
	return depth
}
