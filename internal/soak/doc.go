// Package soak runs an index for long on a pool of event threads, with ranks that
// come and go, content that churns and readers that ask meanwhile, and compares it
// with the reference index all the time.
//
// The work goes in rounds. In a round, producers push the round's events, register
// and unregister ranks, while readers ask; then everything is flushed, and effects
// of every event, counts of every rank and a sample of answers are compared, the
// index checks its own invariants, and its memory is taken. At the end all ranks go,
// and the memory must have come back.
//
// The operations depend on the seed and the options alone. Which event of one rank
// meets which of another, and which query meets which event, is left to chance.
//
// After a difference it ends and names the operation; it does not look for a smaller
// history that shows the same.
//
// It measures no speed; that is what package micro and the replay are for.
package soak
