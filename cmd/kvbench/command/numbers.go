package command

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// decimal is a flag for a whole number that refuses 010, which pflag takes for 8.
type decimal struct{ pflag.Value }

func (d decimal) Set(text string) error {
	digits := strings.TrimLeft(text, "+-")
	if len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		return errors.New("it begins with 0, as octal numbers do; write it without, or with 0o if it is one")
	}
	return d.Value.Set(text)
}

// decimals makes all flags for whole numbers of a command and of those below it
// refuse what might be octal.
func decimals(cmd *cobra.Command) {
	each := func(f *pflag.Flag) {
		if _, done := f.Value.(decimal); done {
			return
		}
		switch f.Value.Type() {
		case "int", "int64", "uint", "uint64":
			f.Value = decimal{f.Value}
		}
	}
	cmd.Flags().VisitAll(each)
	cmd.PersistentFlags().VisitAll(each)
	for _, c := range cmd.Commands() {
		decimals(c)
	}
}
