// Package runs is an index that stores what ranks have in common once, and what
// a rank has of it as one number. It answers queries and applies events; it
// chooses no ranks and makes no events. This page says how it is laid out, how
// writers and readers get along, and why answers are right.
//
// # Shared: runs
//
// A run is a sequence of local hashes that hangs at a place: an offset in its
// parent run. It is never split or edited, only its end moves. A sequence that
// differs inside a run hangs there as a child, and what a reader saw of a run
// stays true.
//
//	root ── run A: a b c d e f          slot 3: cutoff 6
//	              │                     slot 7: cutoff 2
//	              └─ (A,2) run B: x y   slot 7: cutoff 2
//
// A rank that holds the first n blocks of a run has the cutoff n there. Above,
// slot 3 holds a b c d e f and slot 7 holds a b x y. Eviction of a tail and its
// return are one store each, however long the tail. Behind a hole the cutoff
// says nothing: if slot 3 loses c, its cutoff becomes 2 and only its private part
// still knows of d e f; when c comes back, one store makes it 6 again. Children
// keep their cutoffs meanwhile. A query counts them only for ranks that reached
// their offset, so nobody has to walk them.
//
//	header (run.go)                        content: blocks of the run
//	┌─────────┬───────┬──────┬─────┐       ┌───┬───┬───┬───┬───┬───┬──────┐
//	│ content │ first │ next │ key │   ┌──►│ a │ b │ c │ d │ e │ f │ room │
//	├──┬──────┼───────┼──────┼─────┤   │   └───┴───┴───┴───┴───┴───┴──────┘
//	│ refs    │ more  │ slot+1│cutoff… │  more ──► block of holders ──► …
//	└──┴──────┴───────┴──────┴─────┘
//
// The directory (directory.go) finds a run by its key, which is parent run,
// offset and first local hash. The key is exact: no hash of a path is ever
// compared, so no two prompts can be mistaken for each other. Headers, contents
// and holders are pieces of chunks without pointers (arena.go).
//
// # Private: names
//
// Only a rank's event thread knows which sequence hash names which place. Names
// lie in granules of eight along their run, so that neighbours in a prompt are
// neighbours in memory:
//
//	segment of run A                index: cells of 4 bytes
//	   │ head            tail       ┌─────┬─────┬───┬─────┬───
//	   ▼                  ▼         │tag│p│tag│p│ 0 │tag│p│…
//	[a b c d e f g h] ⇄ [i j · · · · · ·]   └─────┴──┬──┴───┴─────┴───
//	 granule 1, live 11111111   granule 5, live 11000000        p = granule*8 + lane
//
// A granule says which segment and which eight offsets it is, and which of its
// lanes are live. The index is a hash table from name to position: a cell has the
// position and, in the bits that are left over, a part of the name's hash. Cells
// are never deleted. A name that goes clears its lane's live bit; the cell stays
// and is recognised, since the lane is not live or has another name by now. When
// too many cells are used the index is made anew from the granules.
//
// Removals do not use the index as a rule. Engines evict prompts from the end,
// so the next victim is first looked for beside the last one, backwards in its
// granule. Names that are stored are looked up one by one all the same, because a
// name must not get a second place; the index lines of the next 64 names are
// touched before, so that these waits for memory overlap.
//
// Two names of one place are rare (two names of an engine collide in content).
// The second one, an alias, lies in a table of its own.
//
// # Protocol
//
// Everything that a reader may reach is written before the atomic store that
// makes it reachable, and is not changed afterwards. What was unlinked is used
// again two epochs later (epoch.go): readers and writers note the epoch while
// they are in a call, and it moves on only when all have the present one. A
// reader so never finds another run in the place of an old one. A reference for
// each segment and each child keeps a run, and its number, in use. A run whose
// references are gone is dead and is not revived; a new one with the same key
// takes its place.
//
// A writer applies an event to its private part first and then publishes all
// cutoffs that changed as one commit:
//
//	writer                              reader
//	count odd                           n = counts of all event threads
//	log the slot                        walk: all ranks at once
//	store cutoffs                       counts again: which slots are logged
//	count even                            between n and now?
//	drop runs without references        walk these on their own until one
//	                                      walk had no commit of the slot beside it
//
// # Why it is right
//
// One rank, no commit during the walk: all words that were read of it were true
// together at any moment of the walk, so the answer was true then.
//
// One rank with a commit meanwhile: the log names it, and its own walk is
// repeated until no commit of the slot ran beside it. An event that cuts one run
// and fills another is never seen by halves.
//
// A rank without the first block of the query: one word said so, at a moment
// during the walk.
//
// Nobody starves: a reader that is unlucky too often closes the event threads'
// gates; writers wait before their next commit until it has walked once. The log
// has 64 entries a thread, and a reader that fell behind by more starts over.
//
// No lost child: appending to a run and hanging a child at it exclude each other
// by the run's lock and look again under it. So no child ever begins with the
// block with which its parent goes on, and a sequence of blocks has one way
// through the runs.
//
// # Dead tails
//
// The end of a run that nobody holds any more is cut off when it is half of the
// run or more (trim.go). How far the ranks' places reach is known without asking
// them: a rank with all its places before its cutoff reaches to the cutoff, ranks
// with others are counted in the run's references, and a count other than 0
// forbids the cut. Children are known by the largest offset at which one hung.
//
//	1  set limit T       a b c d e f|g h i j   readers see all, writers to T
//	2  two epochs later  a b c d e f           new content, if nothing reaches behind T
//
// Why two steps: a writer that compared blocks behind T before the limit came may
// be about to publish a cutoff there. Two epochs later its event is over and its
// cutoff can be seen. A writer that comes later and needs a block behind T must
// take the run's lock and then lifts the limit, so that nothing is cut. A cut
// stays due until its own writer has seen to it, and only then another can be
// planned: a limit is never taken for an older one that was lifted. The second
// step closes the gates, so that no commit is half done while it looks.
//
// Why readers are right: a rank without a commit during the walk has one cutoff,
// c, all the time, and a cut leaves at least c blocks. All contents that the run
// has during the walk agree in these, whatever grew behind them since. If the
// query leaves the run at c, it goes on in a child that the rank holds, and while
// the rank does, no content goes on at c as that child begins.
//
// Conflicts: all names of an event are looked up before anything of it is
// published. An event that would give a name a second place is taken back name by
// name, and no reader can have seen a part of it.
//
// Check (check.go) counts all of this anew: references, holders, cutoffs against
// live lanes, every name through the index, every run through the directory.
//
// # Limits
//
// A run has at most 4,096 blocks; a longer sequence goes on in a child. A rank
// has at most 2^31 positions, and all runs together 32 GiB. A rank that joins a
// run passes its full blocks of holders, one for 30 ranks; a query of one rank
// reads them. A dead tail stays while
// a rank holds places behind a hole in the run, while a child hung as deep and
// other children are left, and if the run has fewer than 64 blocks.
// Huge pages are refused, since all memory is the collector's.
package runs
