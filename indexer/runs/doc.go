// Package runs is an index that stores what ranks have in common once, and what
// a rank has of it as one number.
//
// # Layout
//
// A run is a sequence of local hashes that hangs at a place: an offset in its
// parent run. It is never split or edited, only appended to. A sequence that
// differs inside a run hangs there as a child.
//
//	root ── run A: a b c d e f          slot 3: cutoff 6
//	              │                     slot 7: cutoff 2
//	              └─ (A,2) run B: x y   slot 7: cutoff 2
//
// A rank that holds the first n blocks of a run has the cutoff n in one of the
// run's holder slots. What it holds behind a hole stays in its private segment
// of the run until the hole is filled, which is one store, as is an eviction of
// a run's tail. Children keep their own cutoffs; a query counts them only for
// ranks that reached their offset. The directory finds a run by (parent, offset,
// first local hash), which is exact: no hash of a path is ever compared.
//
// Private to a rank are its names (sequence hash to segment and offset) and, by
// offset of a segment, how many names a place has. All names are looked up when
// they are stored, so conflicts are found at once and taken back unpublished.
//
// Headers, contents and holders are pieces of pointer-free chunks (arena.go).
//
// # Protocol
//
// Everything that a reader may reach is written before the atomic store that
// makes it reachable. What was unlinked is used again two epochs later
// (epoch.go), so a reader never sees another run in the place of an old one. A
// reference for each segment and each child keeps a run, and its number, in use;
// a run whose references are gone is dead and is not revived.
//
// A writer publishes an event's cutoffs as one commit: it makes its thread's
// count odd, logs the slot, stores, makes the count even. A reader notes the
// counts, walks, and looks at the counts again. Ranks that are not in the log
// between had no commit meanwhile, so that all that was read of them was true at
// one moment. The others are walked again on their own. A rank without the first
// block needs no second look: one word said so. A reader that is unlucky too often
// closes a gate, and writers wait before their next commit until it has walked
// once. So readers neither wait for each other nor take locks as a rule, and
// always end.
//
// Appending to a run and hanging a child at it exclude each other by a lock and
// look again under it, so that no child continues its parent as the parent itself
// does. Runs are at most 4,096 blocks long; a longer sequence goes on in a child.
//
// # Limits
//
// Names are a dense table with 16-byte cells: one or two random lines of memory
// for each block, which is what bounds the speed of events, and most of the
// memory. A rank that joins a run passes the full blocks of holders, one for 126
// ranks. The dead tail of a run stays as long as somebody holds its head. Huge
// pages are refused, since all memory is the collector's.
package runs
