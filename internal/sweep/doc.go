// Package sweep runs a replay at several points of one axis, each trial in a
// process of its own, and says how its figures change along the axis.
//
// The axis is the window, which is the load (the shorter, the more), or something
// that makes the work grow: ranks, block size, copies of the trace, threads. On
// the window axis the result has the knee, the highest load that was kept up
// with; FindKeepUp looks for it by bisection.
//
// The work is prepared once for each point that needs work of its own; windows
// share one corpus, whose deadlines are scaled. Trials run point by point upwards
// in odd repeats and downwards in even ones, so that a machine that slowly changes
// does not favour one end. A journal is synced after each trial, and an
// interrupted sweep goes on where it stopped.
//
// A sweep shows how figures change; whether one variant is slower than another is
// a question for rounds. The package measures nothing itself: it starts
// "kvbench replay" and reads its records.
package sweep
