package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/kvbench/kvbench/internal/buildinfo"
	"github.com/kvbench/kvbench/internal/fileid"
	"github.com/kvbench/kvbench/internal/host"
)

// SweepV1 is the schema name of Plan and Result.
const SweepV1 = "kvbench.sweep/v1"

// MaxRepeat bounds the trials of a point.
const MaxRepeat = 1000

// Plan says what a sweep does. Nothing of it changes while the sweep exists: a
// resumed sweep must have the same one.
type Plan struct {
	Schema string `json:"schema"` // SweepV1
	// Source is the trace, the saved corpus or the name of an embedded trace.
	Source       string `json:"source"`
	SourceSHA256 string `json:"source_sha256"` // of the file; "" for an embedded trace, which is part of the program
	Saved        bool   `json:"saved_corpus"`  // Source is a saved corpus
	BinarySHA256 string `json:"binary_sha256"` // of kvbench
	Machine      string `json:"machine"`       // fingerprint of the machine
	// Axis is the points to measure; empty with KeepUp.
	Axis   Axis    `json:"axis"`
	Repeat int     `json:"repeat"` // trials of each point
	KeepUp *KeepUp `json:"find_keepup,omitempty"`
	// Flags of 'corpus write' and of 'replay' that all points share.
	PrepareFlags []string `json:"prepare_flags"`
	ReplayFlags  []string `json:"replay_flags"`
	// WindowNS is the window of an axis that is none of windows; 0: that of the
	// saved corpus.
	WindowNS int64 `json:"window_ns"`
	// Files are those that the flags name, such as a policy.
	Files []fileid.File `json:"files,omitempty"`
}

func (p *Plan) check() error {
	if p.Schema != SweepV1 {
		return fmt.Errorf("schema is %q; this version of kvbench knows %q", p.Schema, SweepV1)
	}
	if p.KeepUp != nil {
		return p.KeepUp.check()
	}
	switch {
	case len(p.Axis.Values) == 0:
		return errors.New("sweep: no points")
	case p.Repeat < 1 || p.Repeat > MaxRepeat:
		return fmt.Errorf("--repeat is %d; it must lie from 1 to %d", p.Repeat, MaxRepeat)
	case p.Saved && p.Axis.Prepares():
		return fmt.Errorf("--over %s needs a trace: %s is a saved corpus, which was prepared with one value", p.Axis.Name, p.Source)
	}
	return nil
}

// axis is that of the points, the window for KeepUp.
func (p *Plan) axis() Axis {
	if p.KeepUp != nil {
		return Axis{Name: Window}
	}
	return p.Axis
}

func (p *Plan) label(value int64) string {
	axis := p.axis()
	return axis.label(value)
}

// longest is the longest window, for which the work is prepared.
func (p *Plan) longest() int64 {
	switch {
	case p.KeepUp != nil:
		return p.KeepUp.Longest
	case p.Axis.Name == Window:
		return p.Axis.Values[len(p.Axis.Values)-1]
	}
	return p.WindowNS
}

// trialKey names a trial of a sweep.
type trialKey struct {
	value int64
	run   int
}

// order returns all trials of the points, upwards in the first repeat, downwards
// in the second, and so on.
func (p *Plan) order() []trialKey {
	var out []trialKey
	n := len(p.Axis.Values)
	for run := 1; run <= p.Repeat; run++ {
		for i := range n {
			if run%2 == 0 {
				i = n - 1 - i
			}
			out = append(out, trialKey{p.Axis.Values[i], run})
		}
	}
	return out
}

// Trial is one trial as the journal has it.
type Trial struct {
	Value int64 `json:"value"` // of the axis; ns of a window
	Run   int   `json:"run"`   // number at that value, from 1
	// Record is the file of the result, below the sweep's folder; "": there is
	// none, and Failure says why.
	Record  string `json:"record"`
	Failure string `json:"failure"`
	Exit    int    `json:"exit"`  // exit code of the child
	Start   string `json:"start"` // RFC 3339, UTC
	TookNS  int64  `json:"took_ns"`
	// Machine is what happened to the machine meanwhile that should not.
	Machine []host.Change `json:"machine"`
	// Unlocked says why no lock kept other measurements away; "": one did.
	Unlocked string `json:"unlocked,omitempty"`
}

func (t *Trial) key() trialKey { return trialKey{t.Value, t.Run} }

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// Identify fills in which program, machine, source and files the plan is for.
func (p *Plan) Identify(ctx context.Context) error {
	r, err := host.Check(ctx, host.Options{NoProbe: true, Watch: -1})
	if err != nil {
		return err
	}
	p.Machine = r.Fingerprint
	if p.BinarySHA256, err = buildinfo.SHA256(); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	p.Files = nil
	for _, path := range fileid.Named(slices.Concat(p.PrepareFlags, p.ReplayFlags), dir) {
		sum, err := fileid.Hash(path)
		if err != nil {
			return err
		}
		p.Files = append(p.Files, fileid.File{Path: path, SHA256: sum})
	}
	f, err := os.Open(p.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an embedded trace, or a source that the first child refuses
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file; a sweep reads it several times", p.Source)
	}
	p.SourceSHA256, err = fileid.Hash(p.Source)
	return err
}

// watched are the files that must stay what they are while the sweep runs.
func (p *Plan) watched() []fileid.File {
	files := slices.Clone(p.Files)
	if p.SourceSHA256 != "" {
		files = append(files, fileid.File{Path: p.Source, SHA256: p.SourceSHA256})
	}
	return files
}
