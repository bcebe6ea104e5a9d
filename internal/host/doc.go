// Package host is the machine as a measurement sees it: CPUs and pinning, the
// clock, what threads and the process used, facts for provenance, and whether all
// that is fit to measure on (Check, Compare, Report.Suggest). It knows
// Linux only and nothing of what is measured.
package host
