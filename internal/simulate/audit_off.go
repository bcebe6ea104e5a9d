//go:build !invariants

package simulate

// audited says whether every run is audited: under the tag invariants, and not by
// the race detector alone, as a run is on one goroutine.
const audited = false
