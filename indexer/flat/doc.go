// Package flat is the simple index that event threads can share: a hash table
// from places to sets of ranks.
//
// A place is a path of local hashes from the root. The index names it by a
// 64-bit hash that it chains itself, so it needs nothing from the engine:
//
//	place(0) = mix(seed, local(0)),  place(i) = mix(place(i-1), local(i))
//
// mix is a bijection of its second argument, so siblings never share a name.
// Two of n places share one with a probability of about n²/2^65: one in
// 10^5 for 19 million places. Such a pair would be taken for one.
//
//	shared:                                 private to the event thread of a rank:
//	  place ─ hash ─► shard                   sequence hash ─► place
//	    shard: place ─► set of slots          (what Stored and Removed go by)
//
// A query walks its places from the root and keeps the ranks that are in every
// set so far, 64 slots at a time, so holes need no care: a rank without block k
// drops out at k.
//
// # Concurrency
//
// Each shard has a spin lock, held for one lookup or one change. That alone
// would let a query see half of an event, since an event changes many places
// and a query reads many, at different times. So every slot has a version, odd
// while an event of the slot is being applied. A query notes the versions of the
// ranks that hold its first block, walks all of them, and looks at the versions
// again. A rank whose version was even and is the same had no event in between:
// all that was read of it was true at one moment. The others are walked again
// one by one, and after some failures with the version held, which makes the
// writer wait. A rank without the first block has score 0, which one look decides.
//
// A writer waits for one change or look-up of a shard, or for one walk. A reader
// waits for an event of the rank to end; with a writer that does nothing but
// change that one rank it may miss the moment between two events some times, but
// there is one after each.
//
// # Limits
//
// A rank's names say nothing of what is above a place, so how many places can be
// reached from the root is not known without a search.
//
// # Huge pages
//
// If they are asked for, tables of 4 KB and more come from memory outside the Go heap
// (internal/hugepages), which is given back by Close. A shard's tables are changed and
// read under its lock and a rank's by its event thread alone, so that a table can be
// freed as soon as it was copied to a larger or smaller one.
package flat
