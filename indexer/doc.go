// Package indexer holds what all indexes of resident KV-cache blocks share: the
// KV events of the workers, the Index contract, the pool of event threads that
// applies events in each rank's order, and the resident-block counters.
//
// The indexes themselves are in the folders below, one each. The package does
// not choose workers for requests, and it makes no events: package mocker does.
package indexer
