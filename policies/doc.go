// Package policies chooses a rank for a request.
//
// # How a choice is made
//
// A Pipeline has components: filters drop candidates, scorers give every
// candidate that is left a cost, and a picker chooses a row by the weighted sum of
// the costs. Before them the host says who is eligible at all (Request and
// State). Each component declares the inputs that it reads and can read nothing
// else; an input that no component declares is not computed by the host.
//
// A candidate is a row, and everything known of it stands in columns: slices by
// slot, the dense number that the index gives a rank. Nothing is copied for a
// selection, and a warm selection allocates nothing.
//
// # What belongs where
//
// This package has the inputs, the pipeline and its components, and the state
// that inputs are made from: ActiveLoad and Sessions. Package catalogue below it
// names the ready policies and reads their parameters. The resident-block counts
// are an experimental input: package experimental/residentblocks.
//
// The package knows the index only by the value types of package indexer and by
// the interfaces declared here. It neither looks prompts up nor keeps time: the
// host passes both in, so that tests and simulations own the clock.
//
// A Pipeline, an ActiveLoad and a Sessions belong to one goroutine, that of a
// routing partition; partitions share nothing.
package policies
