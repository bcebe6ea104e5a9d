package indexer

// MemoryPart is the memory of one part of an index.
type MemoryPart struct {
	Name  string
	Bytes int64
}

// MemoryReporter is an Index that says how much memory it has. Memory is called
// while no Writer is in a call.
type MemoryReporter interface {
	Memory() []MemoryPart
}
