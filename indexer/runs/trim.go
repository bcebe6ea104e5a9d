package runs

import (
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
)

// A run whose head is held on and on would keep the longest tail that it ever
// had. So tails that nobody can reach are cut off, in two steps; see "Dead tails"
// in the package comment.

// minTrim is the shortest run that is worth a shorter content.
const minTrim = 64

// trim is a run whose tail may go. Its reference is the writer's.
type trim struct {
	run   ref
	epoch uint64 // when the limit was set; 0: not yet
}

// The writers may look at so many holders for each run that they look at, on
// average, so that many ranks that leave a run one by one cost no more than a
// walk each.
const (
	trimCredit    = 256
	maxTrimCredit = 1 << 18
)

// extent returns the blocks of a run that a writer at offset k may go on with: up
// to the limit, if one is set.
func (x *Index) extent(r ref, k uint32) []uint64 {
	c := atomic.LoadUint64(&x.mem.at(r)[hContent])
	n := contentLen(c)
	if n == 0 {
		return nil
	}
	return x.mem.at(ref(c >> 32))[min(n, k):max(min(n, k), n>>limitShift(c))]
}

// unlimit takes the limit away; the caller has the run's lock. The cut stays due,
// so that no other writer's limit can be taken for the one that is gone.
func (x *Index) unlimit(r ref) {
	word := &x.mem.at(r)[hContent]
	atomic.StoreUint64(word, atomic.LoadUint64(word)&^limitBits)
}

// reach returns the offset behind which nothing of a run is held and no child
// hangs, or more. The caller has the run's lock.
func (x *Index) reach(r ref) uint32 {
	refs := atomic.LoadUint64(&x.mem.at(r)[hRefs])
	if refs/holedRef%(kidRef/holedRef) != 0 {
		return math.MaxUint32 // someone holds places behind the cutoff
	}
	most := uint32(0)
	if refs/kidRef != 0 {
		most = deepestKid(atomic.LoadUint64(&x.mem.at(r)[hContent]))
	}
	h := x.mem.at(r)
	hold, next := h[hHold:headerWords], &h[hMore]
	for {
		for i := range hold {
			most = max(most, uint32(atomic.LoadUint64(&hold[i])))
		}
		b := ref(atomic.LoadUint64(next))
		if b == 0 {
			return most
		}
		p := x.mem.at(b)
		next, hold = &p[0], p[2:blockWords]
	}
}

// long says whether a run is long enough for a tail behind an offset to go.
func (x *Index) long(r ref, off uint32) bool {
	c := atomic.LoadUint64(&x.mem.at(r)[hContent])
	return contentLen(c) >= minTrim && off <= contentLen(c)/2 && c&cutDue == 0
}

// plan sets the limits of the runs that were noted during the event. The writer
// is in a call.
func (w *Writer) plan() {
	kept := w.trims[:0]
	for i := 0; i < len(w.trims); i++ {
		t := w.trims[i]
		if t.epoch != 0 || w.limit(&t) {
			kept = append(kept, t)
			continue
		}
		// It may end runs and note their parents behind the others.
		w.drop(t.run, segRef)
	}
	w.trims = kept
}

func (w *Writer) limit(t *trim) bool {
	x := w.x
	refs := atomic.LoadUint64(&x.mem.at(t.run)[hRefs])
	if refs == segRef {
		return false // it goes as a whole
	}
	w.credit = min(w.credit+trimCredit, maxTrimCredit)
	cost := 2 * int(refs%holedRef)
	if cost > w.credit {
		return false
	}
	w.credit -= cost
	l := x.runLock(t.run)
	l.Lock()
	defer l.Unlock()
	word := &x.mem.at(t.run)[hContent]
	c := atomic.LoadUint64(word)
	n, most := contentLen(c), x.reach(t.run)
	if n < minTrim || most == 0 || most > n/2 || c&cutDue != 0 {
		return false
	}
	atomic.StoreUint64(word, c|cutDue|uint64(bits.Len32(n/most)-1)<<26)
	t.epoch = x.ep.now.Load()
	return true
}

// trim cuts the tails of the runs whose limits every writer has seen by now. It
// says whether there were any. The writer is in no call.
func (w *Writer) trim(now uint64) bool {
	due := 0
	for due < len(w.trims) && w.trims[due].epoch+2 <= now {
		due++
	}
	if due == 0 {
		return false
	}
	w.x.ep.pin(w.part)
	for i := range due {
		run := w.trims[i].run
		w.cut(run)
		w.drop(run, segRef)
	}
	w.trims = append(w.trims[:0], w.trims[due:]...)
	w.plan()
	w.x.ep.unpin(w.part)
	return true
}

// cut publishes a shorter content, unless someone needs more by now.
func (w *Writer) cut(run ref) {
	x := w.x
	l := x.runLock(run)
	l.Lock()
	defer l.Unlock()
	h := x.mem.at(run)
	c := atomic.LoadUint64(&h[hContent])
	atomic.StoreUint64(&h[hContent], c&^cutDue)
	if limitShift(c) == 0 {
		return // a writer went beyond the limit
	}
	n := contentLen(c) >> limitShift(c)
	old := ref(c >> 32)
	at := x.mem.alloc(int(n))
	copy(x.mem.at(at)[:n], x.mem.at(old)[:n])
	x.closeGates()
	most := x.reach(run)
	if most <= n {
		kid := uint32(0)
		if atomic.LoadUint64(&h[hRefs])/kidRef != 0 {
			kid = deepestKid(c)
		}
		atomic.StoreUint64(&h[hContent], contentWord(at, n, kid))
	}
	x.openGates()
	if most > n {
		x.unlimit(run)
		x.mem.release(at)
		return
	}
	w.limbo.add(x.ep.now.Load(), old)
}

// closeGates waits until no event thread is in a commit and keeps them from the
// next one. The caller is in none.
func (x *Index) closeGates() {
	for _, l := range x.logs {
		l.gate.Add(1)
	}
	for _, l := range x.logs {
		for l.count.Load()%2 != 0 {
			runtime.Gosched()
		}
	}
}

func (x *Index) openGates() {
	for _, l := range x.logs {
		l.gate.Add(-1)
	}
}
