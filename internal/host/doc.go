// Package host is the machine as a measurement sees it: CPUs and pinning, the
// clock, what threads and the process used, and facts for provenance. It knows
// Linux only and nothing of what is measured.
package host
