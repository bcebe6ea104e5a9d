// Package terminal shows a person how far long work is. It writes to standard
// error and only if that is a terminal.
package terminal

import (
	"io"
	"os"
	"sync"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress is a bar for one step after another. The zero value and nil show
// nothing. Its methods may be called from any goroutine.
type Progress struct {
	w io.Writer

	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	total int64
	name  string
}

// NewProgress returns a bar on f if f is a terminal and quiet is false, else one
// that shows nothing.
func NewProgress(f *os.File, quiet bool) *Progress {
	if quiet || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &Progress{w: f}
}

// Step ends the current step and begins another, of total units; with a total
// of 0 its length is unknown. Beginning the current step again changes nothing.
func (p *Progress) Step(name string, total int64) {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil && p.name == name && p.total == total {
		return
	}
	p.finish()
	if total == 0 {
		total = -1
	}
	p.name, p.total = name, total
	p.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetDescription(name),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100_000_000),
		progressbar.OptionSpinnerType(14),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(total > 0),
	)
}

// Advance sets the units that are done. Late calls that go back are ignored.
func (p *Progress) Advance(done int64) {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil && done > p.bar.State().CurrentNum {
		// A bar that cannot be drawn is not worth an error.
		_ = p.bar.Set64(done)
	}
}

// Done removes the bar.
func (p *Progress) Done() {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
}

func (p *Progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
		p.bar = nil
	}
}
