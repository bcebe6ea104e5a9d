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
// Only a rank's event thread knows which sequence hash names which place
// (rank.go). What a rank has of a run is a segment, and the names of a segment lie
// beside each other, in the order of the run, in a piece of the writer's arena. A
// lane without a name is 0; behind the last name a segment has no lanes.
//
//	segment: run A, cutoff 6            lanes: names of the places
//	  names ───────────────────────────►┌────┬────┬────┬────┬────┬────┬──────┐
//	  up: where the run's parent is     │ n0 │ n1 │ n2 │ n3 │ n4 │ n5 │ room │
//	                                    └────┴────┴────┴────┴────┴────┴──────┘
//
// Two questions are asked about names, and neither has an exact table: that would
// be a visit to memory that is in no cache for each name that comes and for each
// that goes.
//
//	Is this name new?   A name must not get a second place. The filter (filter.go)
//	                    has a tag of 16 bits for each name, and says "no" or
//	                    "perhaps"; it says "perhaps" wrongly once in 10,000 times.
//	Where is it?        Engines evict prompts from the end: the next victim is
//	                    looked for before the last one, then around it. Parents and
//	                    first victims are ends of what was stored: the last few
//	                    ends are listed, and older ones have a hint (hints.go).
//
// If neither helps, all lanes are searched, which is exact. Searches need credit,
// which names bring that are stored; without it all names get a hint, once. So an
// engine that evicts in no order costs a hint for each name, and no more.
//
// A name that goes stays in the filter at first: taking it out would be a visit as
// well, and most names never come back. The filter is made anew from the lanes when
// it is full of such tags. If they do come back, the filter errs and a search
// follows; when that happens twice in a row, names are taken out as they go for a
// while (rank.erred).
//
// The words of the filter for up to 64 names of an event are loaded before the first
// of them is looked at, so that these waits for memory overlap.
//
// Two names of one place are rare (two names of an engine collide in content).
// The second one, an alias, lies in a table of its own. So does the name 0.
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
// Conflicts: all names of an event are looked at before anything of it is
// published. An event that would give a name a second place is taken back name by
// name, and no reader can have seen a part of it. A name has one lane at most, and
// the filter has all names that have one; so a name that it has not is new, and one
// that is found, however it was found, is in the only place that it has.
//
// Check (check.go) counts all of this anew: references, holders, cutoffs against
// lanes, every name through the filter, every run through the directory.
//
// # Limits
//
// A run has at most 4,096 blocks; a longer sequence goes on in a child. A rank
// has at most 2^27 segments; all runs together, and the names of one event thread,
// have at most 32 GiB. A rank that joins a run passes its full blocks of holders,
// one for 30 ranks; a query of one rank reads them. A dead tail stays while a rank
// holds places behind a hole in the run, while a child hung as deep and other
// children are left, and if the run has fewer than 64 blocks.
//
// How many places of a rank can be reached from the root is not counted. Holes within
// a run are known, but whether a cutoff fell below the offset of a run that hangs there,
// and that the rank still has, would have to be looked for with every removal.
//
// If huge pages are asked for, chunks come from memory outside the Go heap
// (internal/hugepages), which is most of what runs and names need; chunks without use
// go back a region at a time, the rest with Close. Filters, hints, segments and the
// directory stay on the heap.
package runs
