// Package replay runs one trial: it plays a prepared corpus against an index on
// dedicated threads, at the corpus's own deadlines, and says what happened.
//
// # Threads
//
// Every thread of the timed run is a goroutine locked to an OS thread, on a CPU
// of its own where the machine has enough of them:
//
//   - one query issuer publishes queries to lanes at their deadlines;
//   - event issuers, each with a contiguous group of ranks, wait until the
//     queries of a deadline are published and then hand its events to the pool;
//   - query threads run the lookups of their lanes in order or, with a policy, are
//     routers that also choose a rank for each query (partition.go);
//   - event threads (package indexer) apply the events of their ranks in order;
//   - at most one reader sums all resident-block counters.
//
// # What is timed
//
// The window starts at a common barrier and ends when the last query and the
// last event are done. Inside it kvbench allocates nothing, locks nothing in
// the issuing and recording paths and logs nothing; garbage collection is off.
// Each thread writes what it did to a buffer of its own, sized beforehand; the
// buffers are joined, checked and summarised after the end.
//
// # Serial trials
//
// A serial trial has one thread in the place of issuers and query threads. It does
// the operations in the order of the corpus at no deadline, so that decisions can
// be repeated (serial.go).
//
// The package neither makes the corpus (package prepare) nor writes results to
// files (package results).
package replay
