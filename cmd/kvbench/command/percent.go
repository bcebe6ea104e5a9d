package command

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// percent is a flag with a share, written as in 2% or 0.02.
type percent float64

// String implements pflag.Value.
func (p *percent) String() string {
	if *p == 0 {
		return "0%"
	}
	return strconv.FormatFloat(100*float64(*p), 'g', -1, 64) + "%"
}

// Set implements pflag.Value.
func (p *percent) Set(s string) error {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(number, 64)
	if isPercent {
		v /= 100
	}
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a share; write it like 2%% or 0.02", s)
	case math.IsNaN(v) || v < 0 || v > 1:
		return fmt.Errorf("%q is not between 0%% and 100%%; 1 is 100%%", s)
	}
	*p = percent(v)
	return nil
}

// Type implements pflag.Value.
func (*percent) Type() string { return "share" }
