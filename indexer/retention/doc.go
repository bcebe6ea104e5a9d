// Package retention guesses which blocks a rank holds where the engines send no
// KV events: a router then knows only what it decided itself. Each decision
// stores the prompt for the chosen rank, and what was stored goes again
//
//   - after a time (TTL), counted from the last decision that had the block, or
//   - when a rank of known capacity is full (LRU), the longest unused first, but
//     never what a running request holds.
//
// Both are state machines of one rank without I/O and without a clock: the caller
// gives the time, in ns from any origin, with each call, and what changes comes
// out as indexer.Events, so that any index can be fed with them. The package
// does not choose ranks and knows no engine; how far its guess is from the truth
// is measured by whoever knows both.
//
// # Names
//
// A stored block needs a sequence hash. There is no engine to give it one, so the
// package chains one from the local hashes, the same on every rank, which is what
// lets an index share what ranks have in common:
//
//	name(0) = mix(seed, local(0)),  name(i) = mix(name(i-1), local(i))
//
// The names have nothing to do with those in a trace or of an engine, and events
// of both must not be mixed on one rank. mix is a bijection of its second
// argument, so siblings never share a name; two of n different places share one
// with a probability of about n²/2^65, one in 3·10^7 for a million places. Each
// block is compared by its parent and local hash too, so such a pair is noticed:
// the later one is not stored, nor what follows it, and Stats.Collisions counts
// it. The events of a rank are therefore free of conflicts whatever happens.
//
// # What the events promise
//
// With a block a rank always holds the whole prefix of it, before and after each
// event and in the order of the hashes within one. So no event is orphaned, none
// stores a block twice or removes an unknown one, and an index that applies the
// events scores exactly what the machine says.
//
// A time before one already seen counts as that one: time does not go back.
//
// Memory follows the highest number of blocks held at once and is reused, never
// given back; nothing is allocated once that number has been reached. A machine
// is for one goroutine at a time.
package retention
