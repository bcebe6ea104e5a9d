// Package invariants says whether a structure should check itself as it works.
// Checks are compiled in under the build tag invariants and by the race
// detector, and cost nothing otherwise: Enabled is a constant.
//
// It holds no checks of its own; each structure has its Check and its
// assertions beside the code that they are about.
package invariants
