// Package coverage studies how often the intervals of package stats cover: it
// simulates experiments whose true ratio is known, with noise of many forms, and
// counts. Run is seeded: the same study gives the same table on any number of
// CPUs. It simulates ratios, not machines; what a design stands for is said in
// Designs, and README.md in this folder shows a recorded table.
package coverage
