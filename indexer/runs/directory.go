package runs

import (
	"sync"
	"sync/atomic"
)

// The directory finds the run that hangs at an offset of a run and begins with a
// local hash. The key is exact. Runs of a bucket are chained through their
// headers. Readers take no lock: a run that they find has the right key,
// whatever moves meanwhile, and a miss counts only if the version says that no
// resize ran.
const (
	stripes    = 256
	minBuckets = stripes
)

type directory struct {
	version atomic.Uint32 // odd during a resize
	buckets atomic.Pointer[[]atomic.Uint32]
	count   atomic.Int64
	locks   [stripes]sync.Mutex
}

func (d *directory) init() {
	b := make([]atomic.Uint32, minBuckets)
	d.buckets.Store(&b)
}

func hashKey(parent ref, off uint32, local uint64) uint64 {
	h := (uint64(parent)<<32 | uint64(off)) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32 ^ local) * 0xd6e8feb86659fd93
	return h ^ h>>32
}

// find returns the run of a key, dead ones skipped if alive is set, or 0.
func (x *Index) find(parent ref, off uint32, local uint64, alive bool) ref {
	d := &x.dir
	h := hashKey(parent, off, local)
	key := uint64(parent)<<32 | uint64(off)
	for {
		version := d.version.Load()
		b := *d.buckets.Load()
		for r := b[h&uint64(len(b)-1)].Load(); r != 0; {
			w := x.mem.at(r)[:headerWords:headerWords]
			if w[hFirst] == local && w[hKey] == key && (!alive || atomic.LoadUint64(&w[hRefs]) != 0) {
				return r
			}
			r = ref(atomic.LoadUint64(&w[hNext]))
		}
		if version%2 == 0 && d.version.Load() == version {
			return 0
		}
	}
}

func (d *directory) lock(h uint64) *sync.Mutex { return &d.locks[h%stripes] }

// push puts a run in front of its bucket. The caller holds the stripe.
func (x *Index) push(r ref, h uint64) {
	d := &x.dir
	b := *d.buckets.Load()
	head := &b[h&uint64(len(b)-1)]
	atomic.StoreUint64(&x.mem.at(r)[hNext], uint64(head.Load()))
	head.Store(r)
	d.count.Add(1)
}

// unlink takes a dead run out of its bucket.
func (x *Index) unlink(r ref) {
	d := &x.dir
	w := x.mem.at(r)
	h := hashKey(ref(w[hKey]>>32), uint32(w[hKey]), w[hFirst])
	l := d.lock(h)
	l.Lock()
	defer l.Unlock()
	next := atomic.LoadUint64(&w[hNext])
	b := *d.buckets.Load()
	head := &b[h&uint64(len(b)-1)]
	if head.Load() == r {
		head.Store(ref(next))
	} else {
		for p := head.Load(); p != 0; {
			pw := x.mem.at(p)
			n := ref(atomic.LoadUint64(&pw[hNext]))
			if n == r {
				atomic.StoreUint64(&pw[hNext], next)
				break
			}
			p = n
		}
	}
	d.count.Add(-1)
}

// fit gives the directory as many buckets as it needs.
func (x *Index) fit() {
	d := &x.dir
	n := len(*d.buckets.Load())
	if c := int(d.count.Load()); c <= n && (n <= minBuckets || 8*c >= n) {
		return
	}
	for i := range d.locks {
		d.locks[i].Lock()
	}
	old := *d.buckets.Load()
	count, size := int(d.count.Load()), minBuckets
	for size < 2*count {
		size *= 2
	}
	if size != len(old) {
		d.version.Add(1)
		b := make([]atomic.Uint32, size)
		for i := range old {
			for r := old[i].Load(); r != 0; {
				w := x.mem.at(r)
				next := ref(atomic.LoadUint64(&w[hNext]))
				head := &b[hashKey(ref(w[hKey]>>32), uint32(w[hKey]), w[hFirst])&uint64(size-1)]
				atomic.StoreUint64(&w[hNext], uint64(head.Load()))
				head.Store(r)
				r = next
			}
		}
		d.buckets.Store(&b)
		d.version.Add(1)
	}
	for i := range d.locks {
		d.locks[i].Unlock()
	}
}
