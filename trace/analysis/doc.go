// Package analysis describes traces in one pass: arrivals, lengths, sessions, the
// tree of prefixes that prompts share, and how many blocks an LRU cache of any
// size would have hit. It compares two traces by the distances of these
// distributions, and finds parameters with which the generator of package trace
// makes a trace like a given one.
//
// It does not read formats, which package trace does, and knows nothing of
// engines: its cache holds blocks of the trace, one cache for all requests, and
// requests take no time. What engines do to a trace is for the simulation to say.
package analysis
