//go:build invariants

package simulate

const audited = true
