// Package crtc is a concurrent compressed radix tree: the structure that was
// published as the fastest index of its kind, rebuilt from its description so
// that other indexes can be compared with it in one process, and made exact.
//
// # Layout
//
// A node is a stretch of blocks that nothing branches off, its edge. Children
// hang at its end, found by the first local hash of theirs. The first blocks
// of all prompts hang below 256 roots, so that they do not share one lock.
//
//	          root (one of 256)
//	            │ a
//	┌───────────┴───────────┐
//	│ edge a b c d          │   full:    bitset of the slots that hold all of it,
//	│                       │            256 in the node, then sorted chunks of 256
//	│                       │   partial: slot, cutoff (leading blocks held) and,
//	└──┬─────────────────┬──┘            if it holds blocks behind a hole, a bitmap
//	   │ e               │ x
//	┌──┴────────┐     ┌──┴──┐
//	│ edge e f  │     │ x y │
//	└───────────┘     └─────┘
//
// Edges lie in slabs of 4,096 words, and the word in which a block lies is its
// position. A position is the name of a place for as long as the place is needed:
// a split makes two nodes of one without moving a word, and a join undoes it. A
// word of a second array beside the first says which node a position belongs to
// now. So the lookup map of a rank, private to its event thread, is
//
//	sequence hash ─► position ─► owner ─► node, position - start = offset
//
// and no split, by whichever thread, leaves an entry of it stale.
//
// An edge has at most 512 blocks, which bounds what a split must relabel and
// what a bitmap must have. Space is given out in units of 4 words, and what is
// cut off the end of an edge is free at once.
//
// # Operations
//
// Stored first puts all names of the event into the rank's lookup map, without
// positions, which finds repeats. If some were there already, a walk up from the
// last of them compares hashes and positions; a mismatch is a conflict and the
// new names are taken out again. Only then the shared tree is changed: from the
// last known block on, edges are compared with the event, the rank is added to
// their holders, a node is split where the event leaves it, and what is not there
// becomes the end of a leaf or a child.
//
// Removed takes the names out and gives up positions in stretches of
// neighbours, each with one lock. Then the node is tidied: the end of a leaf that
// nobody holds is cut off; a leaf that nobody holds goes, and with it all nodes
// above that only led there; a node with one child is joined with it if their
// words lie side by side, as they do after a split, and at most 8 ranks hold the
// first and not all of the second. A node with more than 32 partial holders is
// split where half of them end, for they are searched one by one.
//
// Find goes down from the root, at each node keeps those ranks that hold all of
// it, and gives the others their score.
//
// # Locks
//
// Every node has a word that many may hold for reading or one for writing. Locks
// are taken downwards only, and a child is locked before its parent is let go, so
// a walk never sees a node that has left the tree. A writer that wants to go up,
// to unlink a node, lets it go, locks the node above and looks again. Heaps of
// nodes and words have a lock each, under which no other is taken.
//
// A node that left the tree keeps its lock. Who waited for it finds, under the
// lock, that the node does not have the position that was looked for.
//
// # Why answers are true
//
// What a node says of a rank is true when it is read, but an event may change
// several nodes. So every slot has a version, odd while an event of the slot is
// being applied. A query reads the versions of the holders of the first node
// while it has that node locked, so that what the node said of a rank was still
// true when its version was read; then it goes down, and at the end looks at
// the versions again. A rank whose version was even and is the same had no event
// in between: all that was read of it was true at one moment. The others are
// walked again one by one, and after some failures with the version held, which
// makes the writer wait. A rank that the first node does not have has score 0,
// which one look decides.
//
// A writer takes the version before it takes any lock, and a reader that holds a
// version lets go of every node before it waits, so neither waits in a circle.
//
// Positions are safe to use without a lock by the thread whose rank holds the
// place, or a place below it: an ancestor of a held place stays, with its word.
// Which node it belongs to may change until that is locked, so it is asked again
// then. Where a place is not held, what is above a node is asked for only while
// the node is locked.
//
// # As published, and not
//
// As published: compressed edges, a bitset of full holders by dense slot (256 in
// place, then chunks), cutoffs of partial holders beside it, few children in place
// and then a hash table, lookup maps that belong to the event thread, a lock for
// each node, growth of leaves in place, holders that drop out of a query at each
// hop, no hash of prefixes anywhere.
//
// Otherwise, because it has to be exact:
//   - a cutoff alone forgets the blocks behind a hole; here a bitmap keeps
//     them, and they count and score again when the hole is filled;
//   - the count of a rank is the size of its lookup map, stored minus removed,
//     whatever the shape of the tree; the published one forgets the rest of an
//     edge with a removal in the middle;
//   - names belong to ranks, not to edges: one sequence hash may name different
//     places on different ranks, several may name one place, and a second place
//     is refused;
//   - versions make an answer one of a prefix of a rank's events.
//
// Otherwise, because it is better so, without being another design:
//   - nodes are unlinked at once and joined again; the published tree splits
//     without ever merging, and sweeps now and then;
//   - positions with owners instead of entries that go stale at a split and are
//     repaired by searching the descendants, and instead of an index from sequence
//     hashes to offsets for each edge above 16 blocks: offsets are known here;
//   - 12-byte entries of lookup maps without a shared reference;
//   - 256 roots instead of one;
//   - no epochs: there is nothing that is read without a lock. The published tree
//     reads child tables of up to 4 children that way, and has a second lock for
//     the shape of a node. Here a hop costs a reader two atomic additions;
//   - nothing is allocated in steady state: slabs, free lists, scratch.
//
// # Limits
//
// Growing a table of very many children happens under the lock of their node. A
// rank that is cleared has its positions sorted. How many places of a rank can be
// reached from the root is not known without a search.
//
// A query writes to the lock word of each node on its way, so many query threads
// on one prompt slow each other down. A block costs a probe in the rank's lookup
// map, which is a cache miss: that, and not the tree, is most of an event's time.
// A chain that grows by single blocks becomes nodes of a few dozen blocks. The
// tables are on the Go heap and cannot have huge pages. There is room for
// 2^32 positions.
package crtc
