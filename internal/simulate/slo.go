package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits returns the names of the limits of an SLO.
func Limits() []string { return []string{"ttft", "tpot", "e2e"} }

// limit returns the limit of that name, nil if there is none.
func (s *SLO) limit(name string) *time.Duration {
	switch slices.Index(Limits(), name) {
	case 0:
		return &s.TTFT
	case 1:
		return &s.TPOT
	case 2:
		return &s.E2E
	}
	return nil
}

// ParseSLO reads limits such as "ttft=2s,tpot=50ms,e2e=30s". Nothing is no limit.
func ParseSLO(text string) (SLO, error) {
	var s SLO
	if text == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		to := s.limit(name)
		switch {
		case !ok || to == nil:
			return SLO{}, fmt.Errorf("%q; it must be ttft=, tpot= or e2e= with a duration", part)
		case *to != 0:
			return SLO{}, fmt.Errorf("%s is given twice", name)
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return SLO{}, fmt.Errorf("%s=%q; it must be a duration above 0, such as 50ms", name, value)
		}
		*to = d
	}
	return s, nil
}
