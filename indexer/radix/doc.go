// Package radix is the index that most routers start with: a radix tree of Go
// maps and pointers that one event thread changes. It is the readable baseline
// of the faster ones.
//
//	root ─ 17 ─► node ─ 4 ─► node ─ 9 ─► node      a child for each local hash
//	              │           │           │
//	            {a,b,c}     {a,b}        {a}        the ranks that hold the block
//
//	of each rank: sequence hash ─► node
//
// A node is a place: the path of local hashes that leads to it. It has the ranks
// that hold its block, each with the number of sequence hashes that the rank has
// for it. A query goes down by its local hashes and keeps the ranks that each node
// on the way has. A rank that lacks one drops out there, so holes need no care.
// Sequence hashes are only compared: nothing has to know how the engine makes
// them.
//
// A node goes when it has neither ranks nor children. One that a rank has lost
// stays as long as blocks hang below it, whosever they are: the way to them.
//
// # Concurrency
//
// One lock is around the tree, for writing while an event is applied, for
// reading while a query is answered. So an answer is true at one moment, for all
// ranks at once. An event waits for the queries that are under way, and those that
// come later wait for it.
//
// # Memory
//
// A Go map never shrinks, and under removals and insertions it may double at a
// time that cannot be foreseen. So a table is a map that is made again with half
// or twice the room when its content calls for it. That also makes known how
// large it is. Nodes without use are kept for the next ones, as many as an eighth
// of those in use. With both, events and queries do not allocate as long as the
// amount of content stays about the same, but for a map that Go now and then doubles
// all the same.
//
// # Limits
//
// A place costs a node with two maps, about 370 bytes, and each rank that holds it
// another 30 to 60. The collector has to follow all their pointers. A query costs a
// map look-up for each rank at each block. How many places of a rank can be reached
// from the root is not known without a walk.
package radix
