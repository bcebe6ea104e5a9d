// Package catalogue lists the indexes that come with kvbench.
package catalogue

import (
	"fmt"
	"strings"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/crtc"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/indexer/noop"
	"github.com/kvbench/kvbench/indexer/positional"
	"github.com/kvbench/kvbench/indexer/radix"
	"github.com/kvbench/kvbench/indexer/reference"
	"github.com/kvbench/kvbench/indexer/runs"
	"github.com/kvbench/kvbench/internal/nearest"
)

// All returns every index, the recommended one first.
func All() []indexer.Factory {
	return []indexer.Factory{
		runs.Factory(),
		flat.Factory(),
		crtc.Factory(),
		positional.Factory(), positional.BinaryFactory(),
		radix.Factory(), reference.Factory(), noop.Factory(),
	}
}

// Find returns the index of that name. The error lists the names there are.
func Find(factories []indexer.Factory, name string) (indexer.Factory, error) {
	names := make([]string, len(factories))
	for i, f := range factories {
		if f.Name == name {
			return f, nil
		}
		names[i] = f.Name
	}
	err := fmt.Errorf("no index is named %q; there are %s", name, strings.Join(names, ", "))
	if near, ok := nearest.Name(name, names); ok {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return indexer.Factory{}, err
}
