package command

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kvbench/kvbench/internal/atomicfile"
)

// outputFile is a file that a command will write, if it has a path.
type outputFile struct {
	flag string // with its dashes
	path string
}

// checkOutputs finds out before any work whether files can be written, and refuses
// what --overwrite would lose: two outputs in one place, and an output in the place
// of an input.
func checkOutputs(overwrite bool, inputs []string, outputs ...outputFile) error {
	for i, o := range outputs {
		if o.path == "" {
			continue
		}
		for _, in := range inputs {
			if _, err := os.Stat(in); err == nil && samePlace(in, o.path) {
				return fmt.Errorf("%s: %s is what is read, and would be lost; choose another name", o.flag, o.path)
			}
		}
		for _, other := range outputs[:i] {
			if other.path != "" && samePlace(other.path, o.path) {
				return fmt.Errorf("%s and %s are both %s; give each a file of its own", other.flag, o.flag, o.path)
			}
		}
		if err := atomicfile.CheckWritable(o.path, overwrite); err != nil {
			return fmt.Errorf("%s: %w", o.flag, err)
		}
	}
	return nil
}

// samePlace says whether two names lead to one file, or would if it existed.
func samePlace(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB)
	}
	if (errA == nil) != (errB == nil) || filepath.Base(a) != filepath.Base(b) {
		return false
	}
	infoA, errA = os.Stat(filepath.Dir(a))
	infoB, errB = os.Stat(filepath.Dir(b))
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
