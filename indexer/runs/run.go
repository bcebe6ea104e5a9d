package runs

import (
	"sync"
	"sync/atomic"
)

// Words of a run's header, a piece of the arena.
const (
	hContent    = iota // content, see contentWord; atomic, changed under the run's lock
	hFirst             // first local hash
	hNext              // next run of the bucket; atomic
	hKey               // parent << 32 | offset
	hRefs              // who needs the run, see segRef; 0: dead for good; atomic
	hMore              // first overflow block of holders; atomic
	hHold              // two inline holder slots; atomic
	headerWords = 8
)

// A holder slot is (rank's slot + 1) << 32 | cutoff; 0 is free.
// Overflow blocks hold the next block in word 0, the number of their holders in
// word 1 and holders in the others.
const (
	blockHolders = 30
	blockWords   = blockHolders + 2
)

// References to a run, each counted on its own in hRefs.
const (
	segRef   = 1       // a rank's segment
	holedRef = 1 << 17 // one of these that holds places behind its cutoff
	kidRef   = 1 << 34 // a child
)

// contentWord packs where a run's blocks lie, how many they are and the largest
// offset of a child since a cut last found none. Above that lie the writers'
// limit, length >> limitShift, and whether a cut is due.
func contentWord(at ref, length, kid uint32) uint64 {
	return uint64(at)<<32 | uint64(kid)<<13 | uint64(length)
}

func contentLen(c uint64) uint32 { return uint32(c) & (1<<13 - 1) }
func deepestKid(c uint64) uint32 { return uint32(c) >> 13 & (1<<13 - 1) }
func limitShift(c uint64) uint32 { return uint32(c) >> 26 & 15 }

const (
	limitBits = 15 << 26
	cutDue    = 1 << 30
)

// maxRun is the longest run; a longer sequence goes on in a child.
const maxRun = maxPiece

// holder is where a rank's cutoff in a run lies.
type holder struct {
	piece ref
	word  uint32
}

func (x *Index) runLock(r ref) *sync.Mutex { return &x.runLocks[r/headerWords%stripes] }

func (x *Index) content(r ref) []uint64 {
	c := atomic.LoadUint64(&x.mem.at(r)[hContent])
	n := contentLen(c)
	if n == 0 {
		return nil
	}
	return x.mem.at(ref(c >> 32))[:n]
}

// newRun makes a run with one reference, the caller's; nothing points to it yet.
func (x *Index) newRun(parent ref, off uint32, content []uint64) ref {
	c := x.mem.alloc(len(content))
	copy(x.mem.at(c), content)
	r := x.mem.alloc(headerWords)
	w := x.mem.at(r)[:headerWords]
	clear(w)
	w[hContent] = contentWord(c, uint32(len(content)), 0)
	w[hFirst] = content[0]
	w[hKey] = uint64(parent)<<32 | uint64(off)
	w[hRefs] = segRef
	return r
}

// acquire takes the reference of a segment unless the run is dead.
func (x *Index) acquire(r ref) bool {
	refs := &x.mem.at(r)[hRefs]
	for {
		n := atomic.LoadUint64(refs)
		if n == 0 {
			return false
		}
		if atomic.CompareAndSwapUint64(refs, n, n+segRef) {
			return true
		}
	}
}

// drop gives a reference up; with the last one the run goes, and its reference
// to its parent.
func (w *Writer) drop(r ref, kind uint64) {
	x := w.x
	for r != x.root {
		h := x.mem.at(r)
		if atomic.AddUint64(&h[hRefs], -kind) != 0 {
			return
		}
		x.unlink(r)
		now := x.ep.now.Load()
		for b := ref(atomic.LoadUint64(&h[hMore])); b != 0; b = ref(atomic.LoadUint64(&x.mem.at(b)[0])) {
			w.limbo.add(now, b)
		}
		w.limbo.add(now, ref(atomic.LoadUint64(&h[hContent])>>32))
		parent, off := ref(h[hKey]>>32), uint32(h[hKey])
		w.limbo.add(now, r)
		r, kind = parent, kidRef
		if r != x.root && x.long(r, 0) && !x.long(r, off) {
			atomic.AddUint64(&x.mem.at(r)[hRefs], ^uint64(kidRef-segRef-1))
			w.trims = append(w.trims, trim{run: r})
			return
		}
	}
}

// join takes a free holder slot of a run for a rank, with cutoff 0.
func (x *Index) join(r ref, slot uint32) holder {
	mine := uint64(slot+1) << 32
	h := x.mem.at(r)
	for i := hHold; i < headerWords; i++ {
		if atomic.LoadUint64(&h[i]) == 0 && atomic.CompareAndSwapUint64(&h[i], 0, mine) {
			return holder{r, uint32(i)}
		}
	}
	link := &h[hMore]
	for {
		b := ref(atomic.LoadUint64(link))
		if b == 0 {
			fresh := x.mem.alloc(blockWords)
			clear(x.mem.at(fresh)[:blockWords])
			x.mem.at(fresh)[1], x.mem.at(fresh)[2] = 1, mine
			if atomic.CompareAndSwapUint64(link, 0, uint64(fresh)) {
				return holder{fresh, 2}
			}
			x.mem.release(fresh)
			continue
		}
		p := x.mem.at(b)[:blockWords]
		// The count is a reservation: who stays below the limit finds a slot.
		if atomic.LoadUint64(&p[1]) >= blockHolders {
			link = &p[0]
			continue
		}
		if n := atomic.AddUint64(&p[1], 1); n <= blockHolders {
			for i := n - 1; ; i++ {
				at := 2 + i%blockHolders
				if atomic.LoadUint64(&p[at]) == 0 && atomic.CompareAndSwapUint64(&p[at], 0, mine) {
					return holder{b, uint32(at)}
				}
			}
		}
		atomic.AddUint64(&p[1], ^uint64(0))
		link = &p[0]
	}
}

// part gives a holder slot of a run back.
func (x *Index) part(r ref, h holder) {
	p := x.mem.at(h.piece)
	atomic.StoreUint64(&p[h.word], 0)
	if h.piece != r {
		atomic.AddUint64(&p[1], ^uint64(0))
	}
}

// step returns the run below (run, k) that begins with rest, longer or made as
// needed. The caller's rank has a segment there, or new is true and a reference
// was taken for it.
func (w *Writer) step(r *rank, run ref, k uint32, rest []uint64) (child ref, grown, fresh bool) {
	x := w.x
	for {
		c := x.find(run, k, rest[0], true)
		if c != 0 {
			if r.segment(c) != 0 {
				return c, false, false
			}
			if x.acquire(c) {
				return c, false, true
			}
			continue
		}
		if run != x.root {
			l := x.runLock(run)
			l.Lock()
			now := x.content(run)
			if uint32(len(now)) > k && now[k] == rest[0] {
				x.unlimit(run)
				l.Unlock()
				return run, true, false
			}
			if c = x.find(run, k, rest[0], true); c != 0 {
				l.Unlock()
				continue
			}
			if uint32(len(now)) == k && k < maxRun {
				w.grow(run, now, rest[:min(len(rest), maxRun-int(k))])
				l.Unlock()
				return run, true, false
			}
			c, fresh = w.create(run, k, rest)
			if word := &x.mem.at(run)[hContent]; k > deepestKid(*word) {
				atomic.StoreUint64(word, *word&^(1<<26-1<<13)|uint64(k)<<13)
			}
			l.Unlock()
		} else {
			c, fresh = w.create(run, k, rest)
		}
		if fresh {
			return c, false, true
		}
	}
}

// create makes a child unless another writer just did.
func (w *Writer) create(run ref, k uint32, rest []uint64) (ref, bool) {
	x := w.x
	h := hashKey(run, k, rest[0])
	l := x.dir.lock(h)
	l.Lock()
	defer l.Unlock()
	if c := x.find(run, k, rest[0], true); c != 0 {
		return c, false
	}
	atomic.AddUint64(&x.mem.at(run)[hRefs], kidRef)
	c := x.newRun(run, k, rest[:min(len(rest), maxRun)])
	x.push(c, h)
	return c, true
}

// grow appends to a run; the caller has its lock.
func (w *Writer) grow(run ref, now, more []uint64) {
	x := w.x
	h := x.mem.at(run)
	c := atomic.LoadUint64(&h[hContent])
	old := ref(c >> 32)
	n := len(now) + len(more)
	at := old
	if n > x.mem.words(old) {
		at = x.mem.alloc(min(maxRun, n+n/4))
		copy(x.mem.at(at), now)
	}
	copy(x.mem.at(at)[len(now):], more)
	atomic.StoreUint64(&h[hContent], contentWord(at, uint32(n), deepestKid(c))|c&cutDue)
	if at != old {
		w.limbo.add(x.ep.now.Load(), old)
	}
}
