package positional

import (
	"fmt"
	"sync/atomic"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/idle"
	"github.com/kvbench/kvbench/internal/invariants"
)

// DefaultStep is how far Factory's index jumps, in blocks.
const DefaultStep = 8

// Factory builds the index that searches by jumps of DefaultStep blocks.
func Factory() indexer.Factory {
	return indexer.Factory{
		Name:    "positional",
		Summary: "table of prefixes that a query looks into every 8 blocks; shared by all event threads",
		New:     func(cfg indexer.Config) (indexer.Index, error) { return New(cfg, DefaultStep) },
	}
}

// BinaryFactory builds the index that searches by halving.
func BinaryFactory() indexer.Factory {
	return indexer.Factory{
		Name:    "positional-binary",
		Summary: "positional that looks at the last block first and then halves",
		New:     func(cfg indexer.Config) (indexer.Index, error) { return New(cfg, 0) },
	}
}

const tableSeed = 0xd1b54a32d192ed03

// mix returns a well spread 64-bit value. For a fixed a it is a bijection of b.
// The constants are those of the finaliser of SplitMix64 (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", 2014).
func mix(a, b uint64) uint64 {
	z := (a+0x9e3779b97f4a7c15)*0xff51afd7ed558ccd + b
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// root is the place above all first blocks.
const root = 0

// next returns the place of a block below a place. It is never root: the one local
// hash that would give it shares a place with another.
func next(place uint64, local indexer.LocalHash) uint64 {
	return max(1, mix(place, uint64(local)))
}

// Index is the shared part. See the package comment.
type Index struct {
	step   int // 0: as far as the query is long
	shards [numShards]shard
	holes  filter
	// versions has, by slot, the version that the slot got when it was first
	// attached. It lies with those of the other slots of that event thread, since
	// threads that write to one line slow each other down.
	versions [indexer.MaxRanks]atomic.Pointer[version]
	writers  []*Writer
}

// version is even while no event of the slot is being applied.
type version = atomic.Uint32

type versionLine [idle.CacheLine / 4]version

// filter counts holes, pairs of a place and a rank, by a few bits of the place. It
// says of a place that nobody has a hole there, or that somebody may. Each hole is
// counted twice: with few holes the coarse counters, which stay in the nearest cache,
// say nearly always what there is to say.
type filter struct {
	coarse [1 << 11]atomic.Uint32
	fine   [1 << 16]atomic.Uint32
}

// index returns the counter of a place among n, a power of two. Its bits are neither
// those of the shard nor those of a table's home.
func (*filter) index(place uint64, n int) int { return int(place>>32) & (n - 1) }

// none reports that nobody has a hole at place.
func (f *filter) none(place uint64) bool {
	return f.coarse[f.index(place, len(f.coarse))].Load() == 0 || f.fine[f.index(place, len(f.fine))].Load() == 0
}

func (f *filter) add(place uint64) {
	f.coarse[f.index(place, len(f.coarse))].Add(1)
	f.fine[f.index(place, len(f.fine))].Add(1)
}

func (f *filter) remove(place uint64) {
	f.coarse[f.index(place, len(f.coarse))].Add(^uint32(0))
	f.fine[f.index(place, len(f.fine))].Add(^uint32(0))
}

// New returns an empty index whose queries look at every step-th block. With step
// 0 they look at the last block first and then halve.
func New(cfg indexer.Config, step int) (*Index, error) {
	if cfg.Threads < 1 {
		return nil, fmt.Errorf("positional: %d event threads; there must be at least 1", cfg.Threads)
	}
	if step < 0 {
		return nil, fmt.Errorf("positional: a step of %d blocks; it must be at least 1, or 0 for halving", step)
	}
	if cfg.HugePages {
		return nil, indexer.NoHugePages("positional")
	}
	return &Index{step: step, writers: make([]*Writer, cfg.Threads)}, nil
}

func (x *Index) shard(place uint64) *shard { return &x.shards[place>>(64-shardBits)] }

// acquire makes a version odd, waiting while it is, and returns its even value.
func acquire(v *version) uint32 {
	for round := 0; ; round++ {
		if now := v.Load(); now%2 == 0 && v.CompareAndSwap(now, now+1) {
			return now
		}
		wait(round)
	}
}

// Writer implements indexer.Index.
func (x *Index) Writer(i int) indexer.Writer {
	w := &Writer{x: x}
	x.writers[i] = w
	return w
}

// Reader implements indexer.Index.
func (x *Index) Reader() indexer.Reader { return &Reader{x: x} }

// Close implements indexer.Index. The collector has all the memory.
func (x *Index) Close() error {
	if invariants.Enabled {
		return x.Check()
	}
	return nil
}
