package command

import (
	"log/slog"

	"github.com/kvbench/kvbench/internal/terminal"
)

// steps shows how far long work is: as a bar if standard error is a terminal, as
// log lines with --verbose.
type steps struct {
	bar  *terminal.Progress
	log  *slog.Logger
	last string
}

func (a *app) progress() *steps {
	return &steps{bar: terminal.NewProgress(a.stderr, a.quiet || a.verbose), log: a.log()}
}

// Step implements trial.Progress. Steps begin one after the other.
func (s *steps) Step(name string, total int64) {
	if name != s.last {
		s.last = name
		s.log.Info("step", "name", name)
	}
	s.bar.Step(name, total)
}

// Advance implements trial.Progress.
func (s *steps) Advance(done int64) { s.bar.Advance(done) }

// Done ends the last step.
func (s *steps) Done() { s.bar.Done() }

// of returns what is told how far a step is, of so many units in all, 0 if that is
// not known.
func (s *steps) of(name string) func(done, total int64) {
	return func(done, total int64) {
		s.Step(name, total)
		s.Advance(done)
	}
}
