package indexer

import "fmt"

// MemoryPart is the memory of one part of an index.
type MemoryPart struct {
	Name  string
	Bytes int64
	// HugeBytes is how much of it the system has put on huge pages.
	HugeBytes int64
}

// MemoryReporter is an Index that says how much memory it has. Memory is called
// while no Writer is in a call.
type MemoryReporter interface {
	Memory() []MemoryPart
}

// Shape is how an index has laid out what it holds.
type Shape struct {
	// Unit is what the index is made of: node, run or place.
	Unit string
	// Units is the number of them.
	Units int64
	// Blocks is the number of distinct places in them, held by a rank or not.
	Blocks int64
	// MaxDepth is the largest number of units on one way from the root, 0 if
	// the index does not know which unit follows which.
	MaxDepth int
	// Holders is the number of pairs of a unit and a rank that holds a block
	// of it, MaxHolders the largest number of such ranks of one unit.
	Holders    int64
	MaxHolders int
}

// ShapeReporter is an Index that describes its shape. Shape is called while no
// Writer is in a call, and may take as long as a walk over everything.
type ShapeReporter interface {
	Shape() Shape
}

// NoHugePages is the error of an index that keeps its data where huge pages
// cannot be asked for.
func NoHugePages(index string) error {
	return fmt.Errorf("%s: huge pages were asked for; this index keeps its data on the Go heap and cannot have them", index)
}
