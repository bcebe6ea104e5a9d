package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/trace"
)

// Fitted is what Fit finds.
type Fitted struct {
	Params trace.GenerateParams `json:"params"`
	// Notes say how what a trace does not record was told, one sentence each.
	Notes []string `json:"notes"`

	guessed bool // no session has two turns, and some requests continue others all the same
}

// Compare says how alike the trace that was fitted and a generated one are. Where
// the original does not name sessions, their turns and delays are left out.
func (f *Fitted) Compare(original, generated *trace.Trace) (Comparison, error) {
	var sides [2]*Collector
	for i, t := range []*trace.Trace{original, generated} {
		var err error
		if sides[i], err = collect(t, Options{Compare: true}); err != nil {
			return Comparison{}, err
		}
	}
	c, err := Compare(sides[0], sides[1])
	if err == nil && f.guessed {
		c.Metrics = slices.DeleteFunc(c.Metrics, func(m Metric) bool { return m.Name == "turns" || m.Name == "delay" })
	}
	return c, err
}

// WriteText writes what was fitted, as flags of the generator.
func (f *Fitted) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, flag := range f.Params.Flags() {
		value := ""
		switch v := flag.Value.(type) {
		case *trace.Length:
			value = v.String()
		case *uint64:
			value = fmt.Sprint(*v)
		case *int:
			value = fmt.Sprint(*v)
		case *float64:
			value = fmt.Sprint(*v)
		}
		fmt.Fprintf(tw, "--%s\t%s\n", flag.Name, value)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var b text.Builder
	for _, n := range f.Notes {
		b.Wrap("note: ", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Fit finds parameters of the generator for a trace like t. The seed is 1. It holds
// some 40 bytes for each request and each distinct block.
//
// A request continues another one if it is a later turn of its session, or else if
// its prompt is longer than the prompt and answer of the other one, begins with
// all full blocks of that prompt, and the last of them was new then. Those told so
// are tool calls if any session of the trace has two turns; else, of several that
// continue the same one, all but the last to arrive. What all others begin with and share with each other is their system
// prompt, up to the block. Lengths are fitted by the least Wasserstein distance, and
// bursts by a hidden Markov model of two rates: see fitBursts.
func Fit(t *trace.Trace) (Fitted, error) {
	if t.Len() < 2 {
		return Fitted{}, errors.New("a trace of fewer than two requests has nothing to fit; give a longer one")
	}
	f := fitter{t: t}
	if err := f.link(); err != nil {
		return Fitted{}, err
	}
	f.systemPrompts()
	return f.fit()
}

type fitter struct {
	t       *trace.Trace
	at      []float64 // arrivals in ms, if requests take no time
	tree    *tree
	parent  []int32  // row that a row continues, -1 if none
	tool    []bool   // the row is a tool call
	calls   []int32  // tool calls of a row
	end     []uint32 // node of the last full block of a root row
	roots   []int    // rows that continue none
	groups  []int    // how many roots begin with each system prompt, descending
	system  counts   // roots by tokens of their system prompt
	first   counts   // roots by tokens after it
	guessed int      // continuations told by their prefix
}

// link finds out which row continues which.
func (f *fitter) link() error {
	t, n := f.t, f.t.Len()
	f.at = f.arrivals()
	f.tree = newTree()
	f.parent, f.tool, f.calls, f.end = make([]int32, n), make([]bool, n), make([]int32, n), make([]uint32, n)
	ends := map[uint32]int32{} // by the node of the last full block of a row
	last := make([]int32, n)   // the last row that continues a row, by its prefix
	for i := range last {
		last[i] = -1
	}
	before := make(map[int]int32) // the last row of a session
	var path []uint32
	for i := range n {
		q := t.Request(i)
		var known int
		var err error
		if path, known, err = f.tree.walk(q.HashIDs, path[:0]); err != nil {
			return err
		}
		full := min(q.InputLength/t.BlockSize, len(path))
		f.parent[i] = -1
		if p, ok := before[t.SessionOf(i)]; ok {
			f.parent[i] = p
		} else {
			for k := min(known, full); k > 0; k-- {
				p, ok := ends[path[k-1]]
				if !ok {
					continue
				}
				if from := t.Request(int(p)); q.InputLength > from.InputLength+from.OutputLength {
					f.parent[i] = p
					f.guessed++
					if l := last[p]; l >= 0 {
						f.tool[l] = true
					}
					last[p] = int32(i)
				}
				break
			}
		}
		before[t.SessionOf(i)] = int32(i)
		if full > known {
			ends[path[full-1]] = int32(i)
		}
		if full > 0 {
			f.end[i] = path[full-1]
		}
	}
	// Where sessions say which turn is the next, all that is told by prefix is a call.
	if t.Sessions() < n {
		for i, p := range f.parent {
			f.tool[i] = p >= 0 && t.SessionOf(i) != t.SessionOf(int(p))
		}
	}
	for i := range n {
		if f.parent[i] < 0 {
			f.roots = append(f.roots, i)
		} else if f.tool[i] {
			f.calls[f.parent[i]]++
		}
	}
	return nil
}

// arrivals returns when each row arrives in ms, if a token of an answer takes
// tokenMS where the row does not say.
func (f *fitter) arrivals() []float64 {
	at := make([]float64, f.t.Len())
	for s := range f.t.Sessions() {
		ended := 0.0
		for _, i := range f.t.Turns(s) {
			q := f.t.Request(int(i))
			if at[i] = q.Timestamp; math.IsNaN(at[i]) {
				at[i] = ended + q.Delay
			}
			ended = at[i] + float64(q.OutputLength*tokenMS)
		}
	}
	return at
}

// tokenMS is the parameter OutputTokenMS, which no trace records.
const tokenMS = 20

// systemPrompts finds what roots share with each other.
func (f *fitter) systemPrompts() {
	visits := make([]uint32, len(f.tree.nodes)) // roots that have a node
	for _, i := range f.roots {
		for node := f.end[i]; node != 0; node = f.tree.nodes[node].parent {
			visits[node]++
		}
	}
	depth := make([]int, len(f.tree.nodes))
	for n := 1; n < len(depth); n++ {
		depth[n] = depth[f.tree.nodes[n].parent] + 1
	}
	f.system, f.first = counts{}, counts{}
	begin := map[uint32]int{}
	for _, i := range f.roots {
		node := f.end[i]
		for node != 0 && visits[node] < 2 {
			node = f.tree.nodes[node].parent
		}
		// The prompt ends somewhere in the next block.
		tokens := 0
		if node == 0 {
			f.groups = append(f.groups, 1) // shares nothing
		} else {
			begin[node]++
			tokens = depth[node]*f.t.BlockSize + f.t.BlockSize/2
		}
		input := f.t.Request(i).InputLength
		tokens = min(tokens, max(0, input-1))
		f.system[uint64(tokens)]++
		f.first[uint64(max(1, input-tokens))]++
	}
	for _, n := range begin {
		f.groups = append(f.groups, n)
	}
	slices.SortFunc(f.groups, func(a, b int) int { return cmp.Compare(b, a) })
}

func (f *fitter) fit() (Fitted, error) {
	t, n := f.t, f.t.Len()
	p := trace.ConversationParams()
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	p.Seed, p.BlockSize, p.Requests, p.OutputTokenMS = 1, t.BlockSize, n, tokenMS

	message, output, think, toolTokens, toolMS := counts{}, counts{}, counts{}, counts{}, counts{}
	turns := make([]int, n) // of the chain up to a row
	turnRows, calling, calls := 0, 0, 0
	for i := range n {
		q := t.Request(i)
		output[uint64(q.OutputLength)]++
		p.MaxInputTokens = max(p.MaxInputTokens*min(i, 1), q.InputLength)
		turns[i] = 1
		if !f.tool[i] {
			turnRows++
		}
		if f.calls[i] > 0 {
			calling++
			calls += int(f.calls[i])
		}
		if f.parent[i] < 0 {
			continue
		}
		from := t.Request(int(f.parent[i]))
		added := uint64(max(1, q.InputLength-from.InputLength-from.OutputLength))
		wait := q.Delay
		if t.SessionOf(i) != t.SessionOf(int(f.parent[i])) {
			wait = f.at[i] - f.at[f.parent[i]] - float64(from.OutputLength*p.OutputTokenMS)
		}
		ms := uint64(max(0, math.Round(wait)))
		if f.tool[i] {
			toolTokens[added]++
			toolMS[ms]++
			continue
		}
		turns[i] += turns[f.parent[i]]
		message[added]++
		if f.calls[f.parent[i]] == 0 {
			think[ms]++
		}
	}

	starts := newTimes()
	for _, i := range f.roots {
		starts.add(f.at[i])
	}
	starts.sort()
	_, span := starts.span()
	if span > 0 {
		p.SessionsPerSecond = float64(len(f.roots)) / (span / 1000)
	} else {
		p.SessionsPerSecond = 1e6
		note("all sessions start at once; they are generated at %v a second", p.SessionsPerSecond)
	}
	if d := starts.distinct(); len(f.roots) > 2*d {
		note("%d sessions start at %d distinct times; generated ones start at times of their own", len(f.roots), d)
	}
	p.SessionsPerSecond = math.Round(1e6*p.SessionsPerSecond) / 1e6
	p.SessionsPerSecond = clamp(p.SessionsPerSecond, 1e-6, 1e6)
	b := fitBursts(starts)
	p.BurstFactor, p.BurstShare, p.BurstSeconds = b.factor, b.share, b.seconds
	if b.share == 0 {
		note("the starts of sessions show no bursts")
	}
	if p.BurstShare > 0 {
		// The generator refuses bursts that pass by between sessions.
		p.BurstSeconds = max(p.BurstSeconds, 1.001e-3*p.BurstShare/p.SessionsPerSecond)
	}

	p.SystemPrompts = min(len(f.groups), 1e6)
	p.SystemSkew = zipf(f.groups)
	p.SystemTokens, p.FirstTokens = f.system.length(), f.first.length()
	p.MeanTurns = clamp(math.Round(1e4*float64(turnRows)/float64(len(f.roots)))/1e4, 1, 1e3)
	p.MaxTurns = clamp(slices.Max(turns), 1, 1e4)
	p.OutputTokens = output.length()
	nothing := trace.Length{Median: 1, Min: 1, Max: 1}
	p.MessageTokens, p.ThinkMS, p.ToolTokens, p.ToolMS = nothing, trace.Length{}, nothing, trace.Length{}
	if len(message) > 0 {
		p.MessageTokens = message.length()
	} else {
		note("no request continues another one, so that there is no length of later messages")
	}
	if len(think) > 0 {
		p.ThinkMS = think.length()
	}
	if calling > 0 {
		p.ToolShare = math.Round(1e4*float64(calling)/float64(turnRows)) / 1e4
		p.ToolTokens, p.ToolMS = toolTokens.length(), toolMS.length()
		// Numbers from 1 to the most are as likely.
		p.MaxToolCalls = clamp(int(math.Round(2*float64(calls)/float64(calling)-1)), 1, 1e4)
	}
	if f.guessed > 0 {
		note("%d requests continue another one as far as their prefixes tell, since no session says so; an answer is taken to last %d ms a token", f.guessed, tokenMS)
	}
	// The generator wants room for a message after every system prompt.
	p.MaxInputTokens = max(p.MaxInputTokens, p.SystemTokens.Max+max(p.FirstTokens.Min, 1))
	if err := p.Validate(); err != nil {
		return Fitted{}, fmt.Errorf("no parameters of the generator fit the trace: %w", err)
	}
	if n <= mostCalibrated {
		if err := calibrateTurns(&p, float64(n)/float64(len(f.roots))); err != nil {
			return Fitted{}, err
		}
	}
	if notes == nil {
		notes = []string{}
	}
	return Fitted{p, notes, f.guessed > 0 && t.Sessions() == n}, nil
}

// mostCalibrated is the number of requests up to which turns are calibrated: a
// trace of more is so long that few of its sessions are cut.
const mostCalibrated = 100_000

// calibrateTurns changes the mean number of turns until the generated trace has as
// many rows for each session. Sessions that are still going on when a trace ends,
// and those that end as their prompts become too long, have fewer turns than they
// would have, in the trace as in what is generated.
func calibrateTurns(p *trace.GenerateParams, rows float64) error {
	if p.MeanTurns <= 1 {
		return nil
	}
	for range 4 {
		t, err := trace.Generate(*p)
		if err != nil {
			return err
		}
		sessions := 0
		for s := range t.Sessions() {
			// Tool calls are rows without a session.
			if t.Request(int(t.Turns(s)[0])).Session != "" {
				sessions++
			}
		}
		got := float64(t.Len()) / float64(sessions)
		if got <= 1 || math.Abs(got/rows-1) < 0.005 {
			return nil
		}
		// At most twice as many at once, as what is drawn is not the mean.
		factor := clamp((rows-1)/(got-1), 0.5, 2)
		p.MeanTurns = clamp(math.Round(1e4*(1+(p.MeanTurns-1)*factor))/1e4, 1, 1e3)
	}
	return nil
}

func clamp[T cmp.Ordered](v, least, most T) T { return min(max(v, least), most) }

// length fits the distribution that the generator draws lengths from: that with the
// least Wasserstein distance among those with the same range.
func (c counts) length() trace.Length {
	s := c.sample(1)
	l := trace.Length{Min: int(s.quantile(0)), Max: int(s.quantile(100))}
	// Both distributions as their values at so many equally likely places.
	const points = 256
	var normal, values [points]float64
	sum, at := 0.0, 0
	for i := range normal {
		u := (float64(i) + 0.5) / points
		normal[i] = math.Sqrt2 * math.Erfinv(2*u-1)
		for sum+s.numbers[at] < u*s.n {
			sum += s.numbers[at]
			at++
		}
		values[i] = s.values[at]
	}
	least := math.Inf(1)
	try := func(sigma float64) {
		var factors [points]float64
		for i, z := range normal {
			factors[i] = math.Exp(sigma * z)
		}
		distance := func(median float64) float64 {
			d := 0.0
			for i, x := range factors {
				d += math.Abs(clamp(median*x, float64(l.Min), float64(l.Max)) - values[i])
			}
			return d
		}
		// By ratio, as it is a scale.
		low, high := math.Log(max(float64(l.Min), 1)), math.Log(max(float64(l.Max), 1))
		for range 25 {
			a, b := low+(high-low)/3, high-(high-low)/3
			if distance(math.Exp(a)) <= distance(math.Exp(b)) {
				high = b
			} else {
				low = a
			}
		}
		median := clamp(math.Round(math.Exp((low+high)/2)), float64(l.Min), float64(l.Max))
		if d := distance(median); d < least {
			least, l.Median, l.Sigma = d, int(median), sigma
		}
	}
	for step := range 21 {
		try(float64(step) / 5)
	}
	for _, off := range []float64{0.1, 0.05} {
		best := l.Sigma
		try(math.Round(100*max(0, best-off)) / 100)
		try(math.Round(100*(best+off)) / 100)
	}
	return l
}

// zipf returns the skew s from 0 to 10 under which counts of things drawn with
// weights 1/i^s are the most likely. groups are the counts, descending.
func zipf(groups []int) float64 {
	if len(groups) < 2 {
		return 0
	}
	n, logs := 0.0, 0.0
	for i, c := range groups {
		n += float64(c)
		logs += float64(c) * math.Log(float64(i+1))
	}
	// The likelihood is greatest where the mean logarithm of a rank is that of the
	// distribution, which falls as s grows.
	mean := func(s float64) float64 {
		sum, weights := 0.0, 0.0
		for i := range groups {
			l := math.Log(float64(i + 1))
			w := math.Exp(-s * l)
			weights += w
			sum += w * l
		}
		return sum / weights
	}
	low, high := 0.0, 10.0
	for range 40 {
		if s := (low + high) / 2; mean(s) > logs/n {
			low = s
		} else {
			high = s
		}
	}
	return math.Round(1e4*(low+high)/2) / 1e4
}
