// Package noop is the index that does nothing: it accepts every event and
// answers every query with no rank. Measuring it shows what the harness itself
// can do, which is the ceiling of every other figure.
package noop

import (
	"errors"

	"github.com/kvbench/kvbench/indexer"
)

// Factory builds the index.
func Factory() indexer.Factory {
	return indexer.Factory{
		Name:    "noop",
		Summary: "does nothing; shows the ceiling of the harness",
		Null:    true,
		New:     newIndex,
	}
}

func newIndex(cfg indexer.Config) (indexer.Index, error) {
	if cfg.HugePages {
		return nil, errors.New("noop: huge pages were asked for; this index keeps nothing to put on them")
	}
	return index{}, nil
}

type index struct{}

func (index) Writer(int) indexer.Writer { return handle{} }
func (index) Reader() indexer.Reader    { return handle{} }
func (index) Check() error              { return nil }
func (index) Close() error              { return nil }

type handle struct{}

func (handle) Attach(indexer.Slot)                 {}
func (handle) Apply(*indexer.Event) indexer.Effect { return indexer.Effect{} }
func (handle) Blocks(indexer.Slot) int             { return 0 }
func (handle) Detach(indexer.Slot)                 {}
func (handle) Park()                               {}
func (handle) Close()                              {}

func (handle) Find(_ []indexer.LocalHash, _ indexer.FindOptions, ans *indexer.Answer) { ans.Reset() }
