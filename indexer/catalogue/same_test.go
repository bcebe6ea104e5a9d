package catalogue

import (
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/indextest"
	"github.com/kvbench/kvbench/indexer/reference"
)

// exact returns the indexes that answer.
func exact() []indexer.Factory {
	var fs []indexer.Factory
	for _, f := range All() {
		if !f.Null {
			fs = append(fs, f)
		}
	}
	return fs
}

// TestSameEnd gives all indexes the same events in different ways: in pieces and
// joined, by one and several event threads, in different orders between ranks, with
// ranks that start again. All must end as the reference does with the events as
// they were.
func TestSameEnd(t *testing.T) {
	for _, f := range exact() {
		t.Run(f.Name, func(t *testing.T) { indextest.Metamorphic(t, reference.Factory(), f) })
	}
}

// TestNoPublishedFault holds all indexes to the faults that published ones are known
// for.
func TestNoPublishedFault(t *testing.T) {
	for _, f := range exact() {
		t.Run(f.Name, func(t *testing.T) { indextest.Faults(t, f) })
	}
}
