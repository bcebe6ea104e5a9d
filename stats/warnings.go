package stats

// Warning is something that an interval cannot see, with its figure.
type Warning struct {
	Name WarningName `json:"name"`
	// Figure is what was found, and Limit what it was compared with; the text
	// says what both are.
	Figure float64 `json:"figure"`
	Limit  float64 `json:"limit"`
	Text   string  `json:"text"` // a sentence for people, with the figure
}

// WarningName is stable: reports and tests refer to it.
type WarningName string

// The warnings.
const (
	WarnFewPairs        WarningName = "few-pairs"               // figure: pairs
	WarnLevel           WarningName = "true-level"              // figure: true level of the bootstrap interval
	WarnSlotEffect      WarningName = "slot-effect"             // figure: relative effect of running second
	WarnAutocorrelation WarningName = "autocorrelation"         // figure: lag-1 autocorrelation
	WarnRuns            WarningName = "runs-test"               // figure: p-value
	WarnTwoModes        WarningName = "two-modes"               // figure: gap over the spread within the modes
	WarnUnequalNoise    WarningName = "unequal-noise"           // figure: ratio of the spreads
	WarnTies            WarningName = "ties"                    // figure: share of the values that equal another
	WarnUnbalanced      WarningName = "unbalanced-rounds"       // figure: difference of the counts
	WarnMissingness     WarningName = "informative-missingness" // figure: p-value, or share dropped
	WarnDropped         WarningName = "dropped-pairs"           // figure: share dropped
	WarnChained         WarningName = "chained-ratios"          // figure: product of the medians over the direct median
)

// Warnings returns what the pairs themselves say against an interval of them,
// each kind at most once.
func Warnings(p Pairs, level float64) []Warning {
	return nil
}
