package command

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// excluded is the annotation of a flag with those that it cannot stand beside.
const excluded = "kvbench_excluded"

// exclusive makes flags exclude each other: completion leaves the others out once
// one is there, and checkExclusive says so in words of ours.
func exclusive(cmd *cobra.Command, flag string, others ...string) {
	for _, other := range others {
		cmd.MarkFlagsMutuallyExclusive(flag, other)
	}
	f := cmd.Flags().Lookup(flag)
	_ = cmd.Flags().SetAnnotation(flag, excluded, append(f.Annotations[excluded], others...))
}

// checkExclusive returns an error about the first two flags that are both set and
// exclude each other.
func (a *app) checkExclusive(fl *pflag.FlagSet) error {
	var err error
	fl.Visit(func(f *pflag.Flag) {
		for _, other := range f.Annotations[excluded] {
			if err == nil && fl.Changed(other) {
				err = fmt.Errorf("%s and %s exclude each other; leave one out", a.whence(f.Name), a.whence(other))
			}
		}
	})
	return err
}

// whence returns the name of a flag, and what set it where the command line did not.
func (a *app) whence(flag string) string {
	text := "--" + flag
	for _, x := range slices.Backward(a.applied) {
		if x.Flag == flag {
			return text + " (set by " + x.Origin + ")"
		}
	}
	return text
}
