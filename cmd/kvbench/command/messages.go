package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kvbench/kvbench/internal/text"
)

// standardOutput is standard output. It keeps the first error, so that what could not be
// written is an error of the command even where nobody looked.
type standardOutput struct {
	w   io.Writer
	err error
}

// Write writes to standard output, and nothing more once that has failed.
func (o *standardOutput) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		o.err = fmt.Errorf("standard output cannot be written: %w", err)
	}
	return n, o.err
}

// forHelp is where help and completions go. Whoever writes them reports an error
// and then takes it for done; here it is reported once, at the end.
type forHelp struct{ w io.Writer }

func (h forHelp) Write(p []byte) (int, error) {
	_, _ = h.w.Write(p)
	return len(p), nil
}

// tell writes a message for people on standard error, after first. No line is wider
// than a terminal, and nothing in it is obeyed by one.
func (a *app) tell(first, message string) {
	var b text.Builder
	b.Wrap(first, message)
	_, _ = io.WriteString(a.stderr, b.String()) // there is nowhere else to say so
}

// warn says what is odd and was accepted.
func (a *app) warn(message string) { a.tell("kvbench: warning: ", message) }

// noteTrace tells what was inferred about a trace.
func (a *app) noteTrace(note string) {
	if !a.quiet {
		a.tell("kvbench: trace: ", note)
	}
}

// complain writes an error on standard error. Its lines stay whole, so that they can
// be searched for and copied.
func (a *app) complain(err error) {
	var b text.Builder
	for line := range strings.SplitSeq("kvbench: "+err.Error(), "\n") {
		b.Line(strings.ReplaceAll(line, "\t", " "))
	}
	_, _ = io.WriteString(a.stderr, b.String())
}
