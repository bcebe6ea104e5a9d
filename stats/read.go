package stats

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// LineError is a text that is not a number that can be used.
type LineError struct {
	Line int    // from 1
	Text string // the text, shortened
	Why  string
}

func (e *LineError) Error() string {
	return fmt.Sprintf("line %d: %q is %s; give finite numbers, separated by spaces or line ends", e.Line, e.Text, e.Why)
}

// ReadNumbers reads numbers separated by white space; what follows a # on a line is
// left out, as is a byte-order mark at the beginning. A [LineError] names the line
// and the text that is no finite number.
func ReadNumbers(r io.Reader) ([]float64, error) {
	var values []float64
	br := bufio.NewReader(r)
	for line := 1; ; line++ {
		text, err := br.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if line == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		text, _, _ = strings.Cut(text, "#")
		for field := range strings.FieldsSeq(text) {
			v, perr := strconv.ParseFloat(field, 64)
			switch {
			case errors.Is(perr, strconv.ErrRange):
				return nil, &LineError{line, short(field), "too large for a number"}
			case perr != nil && strings.Contains(field, ","):
				return nil, &LineError{line, short(field), "not a number (a decimal point is a '.')"}
			case perr != nil:
				return nil, &LineError{line, short(field), "not a number"}
			case math.IsNaN(v) || math.IsInf(v, 0):
				return nil, &LineError{line, short(field), "not a finite number"}
			}
			values = append(values, v)
		}
		if err != nil {
			return values, nil
		}
	}
}

func short(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
