package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/stats"
)

// Schedule is a plan of when one looks.
type Schedule string

// The schedules.
const (
	Fixed      Schedule = "fixed"
	Sequential Schedule = "sequential"
	Anytime    Schedule = "anytime"
)

// SequentialRounds are the looks of the sequential schedule.
var sequentialRounds = []int{10, 20, 30, 40}

// sequentialLevel is the level of each of four looks that keep 95% together:
// Pocock's boundary c(4, 0.05) = 2.361.
const sequentialLevel = 0.9818

// DefaultLevel is the level of a fixed look and of the anytime sequence.
const DefaultLevel = 0.95

// SequentialRounds returns the numbers of rounds at which the sequential schedule
// looks.
func SequentialRounds() []int { return slices.Clone(sequentialRounds) }

// Look is one look at an experiment. It is what the experiment remembers.
type Look struct {
	Schedule Schedule `json:"schedule"`
	Rounds   int      `json:"rounds"`
	Level    float64  `json:"level"` // of this look's interval
	// Rule is what was asked: metrics, ratios, directions and margins. A look by
	// another rule is another look.
	Rule    string  `json:"rule"`
	Verdict Verdict `json:"verdict,omitempty"`
}

func (l *Look) method() (method, error) {
	switch l.Schedule {
	case Fixed, Sequential:
		return stats.Interpolated, nil
	case Anytime:
		return stats.Anytime, nil
	}
	return nil, fmt.Errorf("unknown schedule %q", l.Schedule)
}

// RuleOf describes what rows are asked for, without what was measured of them.
func RuleOf(rows []Row) string {
	parts := make([]string, len(rows))
	for i := range rows {
		r := &rows[i]
		parts[i] = fmt.Sprintf("%s %s by %g", r.Name(), r.Better, r.Margin)
		if r.FailBeyond != 0 {
			parts[i] += fmt.Sprintf(" beyond %g", r.FailBeyond)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// ErrSpent says that the chance of a wrong verdict which the schedule allows has
// been used up by earlier looks.
var ErrSpent = errors.New("this experiment has been looked at already")

// ParseLooks reads what an experiment remembers.
func ParseLooks(notes []json.RawMessage) ([]Look, error) {
	looks := make([]Look, len(notes))
	for i, n := range notes {
		if err := json.Unmarshal(n, &looks[i]); err != nil {
			return nil, fmt.Errorf("look %d in the journal: %w", i+1, err)
		}
		if _, err := looks[i].method(); err != nil {
			return nil, fmt.Errorf("look %d in the journal: %w", i+1, err)
		}
	}
	return looks, nil
}

// Plan returns the look that may be taken now at an experiment with so many
// rounds done and planned, after the looks before. It wraps ErrSpent if the
// schedule does not allow one, and says what does.
func Plan(s Schedule, level float64, rounds, planned int, rule string, before []Look) (Look, error) {
	look := Look{Schedule: s, Rounds: rounds, Level: level, Rule: rule}
	switch s {
	case Fixed:
		if rounds < planned {
			return look, fmt.Errorf("%d of %d planned rounds are done; a fixed gate looks once, at the end: finish the experiment, or use --anytime, which may look at any time", rounds, planned)
		}
	case Sequential:
		look.Level = sequentialLevel
		if !slices.Contains(sequentialRounds, rounds) {
			return look, fmt.Errorf("%d rounds are done; the sequential schedule looks at %s", rounds, joinInts(sequentialRounds))
		}
	case Anytime:
	default:
		return look, fmt.Errorf("unknown schedule %q; there are fixed, sequential and anytime", s)
	}
	for _, b := range before {
		if b.Schedule == look.Schedule && b.Rounds == look.Rounds && b.Level == look.Level && b.Rule == look.Rule {
			continue // the same look again
		}
		switch {
		case s == Anytime && b.Schedule != Sequential && level != b.Level:
			return look, fmt.Errorf("%w by the %s schedule at a level of %g%%; choosing the level after looking is choosing the verdict; use the same (--confidence)", ErrSpent, b.Schedule, 100*b.Level)
		case s == Anytime && b.Schedule == Sequential && level != DefaultLevel:
			return look, fmt.Errorf("%w by the sequential schedule, whose looks together keep %g%%; use the same (--confidence)", ErrSpent, 100*DefaultLevel)
		case s == Anytime:
			// It allows for looks of its own; what another schedule has said
			// before stays said, and is not taken back: the report lists it.
		case b.Schedule != s:
			return look, fmt.Errorf("%w by the %s schedule at %d rounds; another look is only allowed with --anytime (--append)", ErrSpent, b.Schedule, b.Rounds)
		case b.Rule != rule:
			return look, fmt.Errorf("%w by another rule (%s); changing the rule after looking is choosing the verdict; use --anytime (--append)", ErrSpent, b.Rule)
		case b.Level != look.Level:
			return look, fmt.Errorf("%w at a level of %g; use the same level, or --anytime (--append)", ErrSpent, b.Level)
		case s == Fixed:
			return look, fmt.Errorf("%w, at %d rounds, and said %s; a fixed gate looks once; use --anytime (--append) for more rounds", ErrSpent, b.Rounds, b.Verdict)
		case b.Rounds > rounds:
			return look, fmt.Errorf("%w at %d rounds, which is later", ErrSpent, b.Rounds)
		case b.Verdict == Pass || b.Verdict == Fail:
			return look, fmt.Errorf("%w, at %d rounds, and said %s; the schedule ends with a verdict", ErrSpent, b.Rounds, b.Verdict)
		}
	}
	return look, nil
}

// Text says in words what a look was and what it said.
func (l Look) Text() string {
	return fmt.Sprintf("%s, at %d rounds and %g%%: %s (%s)", l.Schedule, l.Rounds, 100*l.Level, l.Verdict, l.Rule)
}

func joinInts(n []int) string {
	s := make([]string, len(n))
	for i, v := range n {
		s[i] = fmt.Sprint(v)
	}
	return strings.Join(s, ", ")
}
