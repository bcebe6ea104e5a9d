package simulate

import (
	"fmt"
	"strings"
	"time"
)

// ParseSLO reads limits such as "ttft=2s,tpot=50ms,e2e=30s". Nothing is no limit.
func ParseSLO(text string) (SLO, error) {
	var s SLO
	if text == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		to := map[string]*time.Duration{"ttft": &s.TTFT, "tpot": &s.TPOT, "e2e": &s.E2E}[name]
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
