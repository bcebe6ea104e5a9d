package rounds

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/fileid"
)

// MergedNote is the name of the note with Merged that a merged experiment has.
const MergedNote = "merged"

// Merged says which rounds of a merged experiment were which before.
type Merged struct {
	Folder   string   `json:"folder"` // base name
	Created  string   `json:"created"`
	SHA256   string   `json:"manifest_sha256"`
	Warmup   int      `json:"warmup_rounds"` // of it, numbered from First - …; they enter nothing
	First    int      `json:"first"`         // its first measured round here
	Last     int      `json:"last"`          // its last
	Warnings []string `json:"warnings"`      // what is not as in the first experiment, though it may be
}

// MergeError says why experiments are not one.
type MergeError struct {
	Dir    string // that does not fit the first
	First  string
	Reason string
}

func (e *MergeError) Error() string {
	return fmt.Sprintf("%s cannot be merged with %s: %s", e.Dir, e.First, e.Reason)
}

// mayDiffer are the parts of manifests in which merged experiments may differ: what
// numbers and shows rounds, and with mention where things lay.
var mayDiffer = []struct {
	field   string
	mention bool
}{
	{"rounds", false}, {"warmup_rounds", false}, {"seed", false}, {"ratios", false}, {"metrics", false}, {"base", false},
	{"work.corpus", false}, {"work.source", true}, {"working_directory", true}, {"environment", true},
	{"rules.gap_ns", true}, {"rules.quiet_limit_ns", true}, {"rules.trial_timeout_ns", true}, {"order", true},
}

// Merge writes the trials of experiments to a folder that must not exist yet, as
// one experiment that has the rounds of the first, then those of the second, and so
// on, each in the order in which it ran. Every experiment must be done, on the same
// machine, with the same variants, programs, flags, corpus and rules; a [*MergeError]
// says what is not. A note under [MergedNote] says where each round comes from, and
// other notes are kept with "merged." before their names. The experiments stay as
// they are.
func Merge(dir string, from []*Experiment) ([]Merged, error) {
	if len(from) < 2 {
		return nil, errors.New("to merge, name two experiments or more")
	}
	from = slices.Clone(from)
	slices.SortStableFunc(from, func(a, b *Experiment) int { return strings.Compare(a.Manifest.Created, b.Manifest.Created) })
	first := from[0]
	m := *first.Manifest
	m.Created, m.Tool = time.Now().UTC().Format(time.RFC3339), toolNow()
	m.Work.Corpus = first.corpusPath()
	m.Rounds, m.Warmup, m.Sequence = 0, 0, nil
	var origin []Merged
	var warm, rest []entry
	for i, e := range from {
		warnings, err := first.mergeable(e)
		if err != nil {
			return nil, err
		}
		for _, other := range from[:i] {
			if other.shares(e) {
				return nil, &MergeError{e.Dir, other.Dir, "they have a trial in common, so one is a copy of the other or was merged before"}
			}
		}
		sum, err := fileid.Hash(e.path(manifestName))
		if err != nil {
			return nil, err
		}
		origin = append(origin, Merged{
			Folder: filepath.Base(e.Dir), Created: e.Manifest.Created, SHA256: sum, Warmup: e.Manifest.Warmup,
			First: m.Rounds + 1, Last: m.Rounds + len(e.rows), Warnings: warnings,
		})
		entries, err := e.entries()
		if err != nil {
			return nil, err
		}
		for _, x := range entries {
			switch {
			case x.Trial != nil && x.Trial.Round < 1:
				warm = append(warm, x) // renumbered below
			case x.Trial != nil:
				t := *x.Trial
				t.Round += m.Rounds
				x.Trial = &t
				rest = append(rest, x)
			case x.Note != nil:
				x.Note = &note{Name: MergedNote + "." + x.Note.Name, Value: x.Note.Value}
				rest = append(rest, x)
			case x.Extension == nil: // the sequence has its rounds
				rest = append(rest, x)
			}
		}
		m.Rounds += len(e.rows)
		m.Warmup += e.Manifest.Warmup
		m.Sequence = append(m.Sequence, e.rows...)
	}
	if m.Rounds > maxRounds {
		return nil, fmt.Errorf("together they have %d rounds; at most %d are possible", m.Rounds, maxRounds)
	}
	for i := range warm {
		t := *warm[i].Trial
		t.Round = 1 - m.Warmup + i/len(m.Variants)
		warm[i].Trial = &t
	}
	value, err := json.Marshal(origin)
	if err != nil {
		return nil, err
	}
	entries := append(warm, rest...)
	entries = append(entries, entry{Time: m.Created, Note: &note{Name: MergedNote, Value: value}})
	return origin, writeExperiment(dir, &m, entries)
}

// mergeable says whether another experiment measured the same thing, and what
// differs all the same.
func (e *Experiment) mergeable(other *Experiment) (warnings []string, err error) {
	if other.torn > 0 {
		return nil, &MergeError{other.Dir, e.Dir, "its journal ends within a line; go on with it by kvbench rounds --resume"}
	}
	if !other.Done() {
		done, left := other.Counts()
		return nil, &MergeError{other.Dir, e.Dir, fmt.Sprintf("it is not done (%d trials are there, %d are not); finish it by kvbench rounds --resume --out %s", done, left, other.Dir)}
	}
	a, b := *e.Manifest, *other.Manifest
	if x, y := a.names(), b.names(); !slices.Equal(x, y) {
		return nil, &MergeError{other.Dir, e.Dir, fmt.Sprintf("its variants are %s, and %s there", strings.Join(y, ", "), strings.Join(x, ", "))}
	}
	// A program or file is what it is, wherever it lies.
	a.Variants, b.Variants = slices.Clone(a.Variants), slices.Clone(b.Variants)
	for _, m := range []*Manifest{&a, &b} {
		for i := range m.Variants {
			v := &m.Variants[i]
			v.Path = ""
			v.Files = slices.Clone(v.Files)
			for f := range v.Files {
				v.Files[f].Path = ""
			}
			if v.Kind == Binary {
				v.Program = ""
			}
		}
	}
	differences, err := diff(&a, &b)
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, d := range differences {
		text := fmt.Sprintf("%s is %s, and %s there", d.Field, d.Is, d.Was)
		i := slices.IndexFunc(mayDiffer, func(may struct {
			field   string
			mention bool
		}) bool {
			return d.Field == may.field || strings.HasPrefix(d.Field, may.field+"[") || strings.HasPrefix(d.Field, may.field+".")
		})
		switch {
		case i < 0:
			wrong = append(wrong, text)
		case mayDiffer[i].mention:
			warnings = append(warnings, text)
		}
	}
	if len(wrong) > 0 {
		return nil, &MergeError{other.Dir, e.Dir, strings.Join(wrong, "; ")}
	}
	return warnings, nil
}

// shares says whether two experiments have a trial in common.
func (e *Experiment) shares(other *Experiment) bool {
	type key struct {
		start, variant string
		wall           int64
	}
	seen := map[key]bool{}
	for _, t := range e.Trials {
		seen[key{t.Start, t.Variant, t.WallNS}] = true
	}
	return slices.ContainsFunc(other.Trials, func(t Trial) bool { return seen[key{t.Start, t.Variant, t.WallNS}] })
}

// entries reads the journal once more.
func (e *Experiment) entries() ([]entry, error) {
	path, b, err := unpackJournal(e.Dir)
	if err != nil {
		return nil, err
	}
	entries, _, err := decodeJournal(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return entries, nil
}

// writeExperiment writes the folder of an experiment, or nothing.
func writeExperiment(dir string, m *Manifest, entries []entry) (err error) {
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	var journal []byte
	for _, x := range entries {
		line, err := encodeEntry(x)
		if err != nil {
			return err
		}
		journal = append(journal, line...)
	}
	e := &Experiment{Dir: dir, Manifest: m}
	if err := e.load(journal); err != nil {
		return fmt.Errorf("merged journal: %w", err)
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return fmt.Errorf("%w; name a new folder", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir)) // this call made it
		}
	}()
	if err := writeFile(e.path(journalName), journal); err != nil {
		return err
	}
	return writeFile(e.path(manifestName), append(manifest, '\n'))
}
