package policies

// RequestsBelow keeps the ranks with fewer than Max requests; a rank of unknown
// load counts as the fullest known. If there is none, all are kept, or with
// Strict none, which fails the selection.
type RequestsBelow struct {
	Max    int
	Strict bool
}

// Inputs implements Component.
func (RequestsBelow) Inputs() Inputs { return Load }

// Keep implements Filter.
func (f RequestsBelow) Keep(v *View, keep []bool) {
	l := v.Load()
	_, worst := worstKnown(v)
	kept := false
	for row, slot := range v.Rows() {
		n := worst
		if l.Known[slot] {
			n = int64(l.Requests[slot])
		}
		keep[row] = n < int64(f.Max)
		kept = kept || keep[row]
	}
	if !kept && !f.Strict {
		keepAll(keep)
	}
}

func keepAll(keep []bool) {
	for row := range keep {
		keep[row] = true
	}
}

// NearLeastLoad keeps the ranks whose load exceeds the least by at most Slack. A
// rank of unknown load counts as the most loaded one known.
type NearLeastLoad struct {
	slack int64
	loads loads
}

// NewNearLeastLoad makes one.
func NewNearLeastLoad(slack int, by Measure) *NearLeastLoad {
	return &NearLeastLoad{int64(slack), loads{by: by}}
}

// Inputs implements Component.
func (*NearLeastLoad) Inputs() Inputs { return Load }

// Keep implements Filter.
func (f *NearLeastLoad) Keep(v *View, keep []bool) {
	l, least, _ := f.loads.read(v)
	for row, x := range l {
		keep[row] = x-least <= f.slack
	}
}

// PrefixAtLeast keeps the ranks that hold at least the share Min of the prompt's
// tokens, or all if no rank does.
type PrefixAtLeast struct {
	Min float64
}

// Inputs implements Component.
func (PrefixAtLeast) Inputs() Inputs { return Cache }

// Keep implements Filter.
func (f PrefixAtLeast) Keep(v *View, keep []bool) {
	r, c := v.Request(), v.Cache()
	kept := false
	for row, slot := range v.Rows() {
		keep[row] = float64(c.CachedTokens(r, c.Overlap[slot])) >= f.Min*float64(r.PromptTokens)
		kept = kept || keep[row]
	}
	if !kept {
		keepAll(keep)
	}
}

// PreferredTags keeps the ranks that have all the tags which the request prefers,
// or all ranks if none has.
type PreferredTags struct{}

// Inputs implements Component.
func (PreferredTags) Inputs() Inputs { return Tags }

// Keep implements Filter.
func (PreferredTags) Keep(v *View, keep []bool) {
	tags, want := v.Tags(), v.Request().PreferredTags
	kept := false
	for row, slot := range v.Rows() {
		keep[row] = tags[slot]&want == want
		kept = kept || keep[row]
	}
	if !kept {
		keepAll(keep)
	}
}

// FirstTokenWithin keeps the ranks whose estimated time to the first token is at
// most Limit milliseconds. If there is none the request is refused.
type FirstTokenWithin struct {
	estimate FirstToken
	limit    float64
	costs    []float64
}

// NewFirstTokenWithin makes one.
func NewFirstTokenWithin(estimate FirstToken, limit float64) *FirstTokenWithin {
	return &FirstTokenWithin{estimate: estimate, limit: limit}
}

// Inputs implements Component.
func (f *FirstTokenWithin) Inputs() Inputs { return f.estimate.Inputs() }

// Keep implements Filter.
func (f *FirstTokenWithin) Keep(v *View, keep []bool) {
	if cap(f.costs) < len(keep) {
		f.costs = make([]float64, len(keep))
	}
	costs := f.costs[:len(keep)]
	f.estimate.Score(v, costs)
	for row, c := range costs {
		keep[row] = c <= f.limit
	}
}
