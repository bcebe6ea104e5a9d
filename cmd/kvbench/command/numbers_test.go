package command

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestDecimal(t *testing.T) {
	for text, want := range map[string]int{"10": 10, "0": 0, "-3": -3, "0o10": 8, "0x10": 16, "1_000": 1000} {
		var n int
		if err := number(&n).Set("n", text); err != nil || n != want {
			t.Errorf("%q is %d, %v; want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"010", "-007", "00", "08"} {
		n := 5
		if err := number(&n).Set("n", text); err == nil || !strings.Contains(err.Error(), "begins with 0") || n != 5 {
			t.Errorf("%q is %d, %v", text, n, err)
		}
	}
}

// number returns a flag for a whole number as the commands have it.
func number(n *int) *pflag.FlagSet {
	cmd := &cobra.Command{Use: "x"}
	cmd.Flags().IntVar(n, "n", *n, "")
	decimals(cmd)
	decimals(cmd) // twice is once
	return cmd.Flags()
}
