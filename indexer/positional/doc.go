// Package positional is the index that looks at a few positions of a prompt
// instead of all: a table from blocks to the ranks that hold them, and a search
// that jumps.
//
// The indexes of this family that are in use find a block by its position and its
// local hash, and compare numbers of ranks: if as many have block 7 as have block
// 0, they take it that these are the same ranks and that they have all in between.
// That is wrong as soon as a rank lost a block in the middle, as two prompts differ
// at block 3 and agree at block 7, or as one rank comes and another goes. This one
// looks at as few positions and is exact.
//
// # Layout
//
// A place is a path of local hashes from the root. The index names it by a 64-bit
// hash that it chains itself, so it needs to know nothing of the engine's hashes:
//
//	place(0) = mix(root, local(0)),  place(i) = mix(place(i-1), local(i))
//
// The name stands for the position, the local hash and all that comes before: what
// is found under it is about this prompt and no other. mix is a bijection of its
// second argument, so siblings never share a name. Two of n places share one with
// a probability of about n²/2^65, one in 10^5 for 19 million places. Such a pair
// would be taken for one. Names cost a query some ns a block, no look into memory.
//
//	shared:
//	  place ─► shard: place ─► words of 64 slots   the ranks that hold the place
//	  place ─► filter: number of holes             of all places with the same 16 bits,
//	                                               and again with the same 11
//
//	private to the event thread of a rank:
//	  sequence hash ─► place
//	  place ─► parent, names, children             what the rank has to do with it
//
// # Holes
//
// A rank has a hole at a place that it does not hold while it holds a place right
// below. For each place that it holds or has a hole at, a rank counts its names
// (sequence hashes) and its children, the places right below that it holds:
//
//	names > 0                  the rank holds the place
//	names = 0, children > 0    the rank has a hole there
//	names = 0, children = 0    the rank has nothing to do with it, there is no cell
//
// When a place loses its last name or gets its first one, its parent's children
// change by one. Both may make or end a hole, which the filter then counts. All
// this is a constant number of steps a block, whatever hangs below.
//
// # Search
//
// Write q(i) for the place of the query's first i+1 blocks.
//
// Lemma. If a rank holds q(p), and has a hole at none of q(a), …, q(p-1), then it
// holds q(a), …, q(p). Proof: else let j be the highest of a … p-1 such that the
// rank does not hold q(j). It holds q(j+1), which is right below. So it has a hole
// at q(j), against the assumption.
//
// So between two places where nobody has a hole, holding is monotone: of any two
// positions, who holds the deeper one holds the other. The search keeps the set of
// ranks that are known to hold the first d blocks, at first all with d = 0. It goes
// on from d, at most a step further, and stops early at a place whose counter in
// the filter is not 0. There, at p, it looks into the table. Nobody has a hole at
// d … p-1. So the ranks found at p hold all up to p and go on with d = p+1. For the
// others holding is monotone in d … p-1, and halving finds where each one ends.
//
//	d       p                  p'   a hole's counter is not 0
//	├───────┼───────┼──┼───────┼    places that are looked at
//	        └ ranks that are missing here end in between: halve
//
// A counter that is not 0 for another place or another rank costs a look that was
// not needed, and nothing else. Without a limit of the step the search looks at the
// last block first, or the next hole, and then halves: that is binary search.
//
// # Concurrency
//
// Each shard has a spin lock, held for one look or one change. A query reads many
// places at different times, so every slot has a version, odd while an event of the
// slot is being applied. A query notes the versions of the ranks that hold its first
// block, searches for all of them at once, and looks at the versions again. A rank
// whose version was even and is the same had no event in between: it held the same
// places and had the same holes all the time, each of its holes was counted all the
// time, and the argument above, which is about one rank at a time, holds for it.
// What other ranks did meanwhile can only have added or spared looks. The ranks
// with an event are searched for again one by one, and after some failures with the
// version held, which makes the writer wait. A rank without the first block has
// score 0, which one look decides: an event adds blocks or takes some away, never
// both, so what is missing in the middle is missing before or after.
//
// # Limits
//
// The filter has 65,536 counters. If many more holes than that are spread over many
// prompts, most places have to be looked at, as without jumps; so has a place that
// many prompts share and that one rank has lost. A set is a chain of words: where
// 10,000 ranks hold a place, a change or a look goes through up to 157 of them. The
// two tables of a rank cost about 70 bytes a block.
package positional
