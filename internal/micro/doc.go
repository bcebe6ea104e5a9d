// Package micro holds the microbenchmarks: one component alone, in one process,
// on work that stays the same.
//
// Every variant of a benchmark is measured once a round, in an order that turns
// from round to round, so that a machine that becomes slower meanwhile harms
// all alike; the first round is discarded. What is compared is the ratio within
// a round. The figures say what a component can do on a warm machine, which is
// not what it does in a router: that is what package replay measures.
package micro
