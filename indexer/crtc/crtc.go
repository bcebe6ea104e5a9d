package crtc

import (
	"fmt"
	"sync/atomic"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/invariants"
)

// Factory builds the index.
func Factory() indexer.Factory {
	return indexer.Factory{
		Name:    "crtc",
		Summary: "concurrent compressed radix tree: the published state of the art, rebuilt and made exact",
		New:     func(cfg indexer.Config) (indexer.Index, error) { return New(cfg) },
	}
}

// numRoots spreads the locks of the first blocks.
const (
	rootBits = 8
	numRoots = 1 << rootBits
)

// rootOf returns which root leads to paths that begin with a local hash.
func rootOf(local uint64) int {
	return int((local ^ local>>32) * 0x9e3779b97f4a7c15 >> (64 - rootBits))
}

// Index is the shared part. See the package comment.
type Index struct {
	roots  [numRoots]node
	chunks directory[chunk]
	slabs  directory[slab]
	// versions has, by slot, the version that the slot got when it was first
	// attached.
	versions [indexer.MaxRanks]atomic.Pointer[version]
	writers  []*Writer
}

// New returns an empty index.
func New(cfg indexer.Config) (*Index, error) {
	if cfg.Threads < 1 {
		return nil, fmt.Errorf("crtc: %d event threads; there must be at least 1", cfg.Threads)
	}
	if cfg.HugePages {
		return nil, indexer.NoHugePages("crtc")
	}
	return &Index{writers: make([]*Writer, cfg.Threads)}, nil
}

// Writer implements indexer.Index.
func (x *Index) Writer(i int) indexer.Writer {
	w := &Writer{x: x}
	w.nodes.x, w.words.x = x, x
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
