package trace

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// GeneratorName and GeneratorVersion are recorded in generated traces. The
// version rises when the same parameters give another trace.
const (
	GeneratorName    = "kvbench"
	GeneratorVersion = 1
)

// GenerateParams describes a synthetic workload of conversations.
//
// Sessions arrive as a Poisson process whose rate switches between calm and
// burst. Each begins with one of a few system prompts, and every turn's prompt
// is the one before it, its answer and a new message. After a turn the model may
// call tools: each call is a request of its own that extends the same prefix,
// and the session goes on when all have ended. Tool calls are sessions of one
// row: their timestamps hold if answers take OutputTokenMS a token, since the
// format has no dependency between sessions.
//
// The same parameters give the same trace on every machine: the generator draws
// whole numbers from PCG-DXSM and computes with operations that IEEE 754 rounds
// exactly, and its own logarithm and exponential.
type GenerateParams struct {
	Seed      uint64 `json:"seed"`
	BlockSize int    `json:"block_size"` // tokens of an id
	Requests  int    `json:"requests"`   // rows of the trace

	SessionsPerSecond float64 `json:"sessions_per_second"` // mean over calm and burst
	BurstFactor       float64 `json:"burst_factor"`        // rate in a burst divided by that in a calm, 1 or more
	BurstShare        float64 `json:"burst_share"`         // share of the time in bursts, from 0 to below 1
	BurstSeconds      float64 `json:"burst_seconds"`       // mean length of a burst

	SystemPrompts int     `json:"system_prompts"` // different ones
	SystemSkew    float64 `json:"system_skew"`    // prompt i is drawn with weight 1/i^skew
	SystemTokens  Length  `json:"system_tokens"`

	MeanTurns      float64 `json:"mean_turns"` // of a session, geometric
	MaxTurns       int     `json:"max_turns"`
	FirstTokens    Length  `json:"first_tokens"`   // first message of a session
	MessageTokens  Length  `json:"message_tokens"` // later ones
	OutputTokens   Length  `json:"output_tokens"`
	ThinkMS        Length  `json:"think_ms"`         // between an answer and the next message
	MaxInputTokens int     `json:"max_input_tokens"` // a session whose next prompt is longer ends

	ToolShare     float64 `json:"tool_share"`      // share of turns that call tools
	MaxToolCalls  int     `json:"max_tool_calls"`  // of one turn, from 1 up, each number as likely
	ToolTokens    Length  `json:"tool_tokens"`     // that a call adds to the prefix
	ToolMS        Length  `json:"tool_ms"`         // before the request of a call
	OutputTokenMS int     `json:"output_token_ms"` // time to generate one token, for timestamps of calls
}

// ConversationParams describes people who chat with an assistant.
func ConversationParams() GenerateParams {
	return GenerateParams{
		Seed: 1, BlockSize: DefaultBlockSize, Requests: 2000,
		SessionsPerSecond: 1.2, BurstFactor: 8, BurstShare: 0.12, BurstSeconds: 15,
		SystemPrompts: 12, SystemSkew: 1.2, SystemTokens: Length{Median: 900, Sigma: 0.7, Min: 64, Max: 6000},
		MeanTurns: 2.6, MaxTurns: 30,
		FirstTokens:   Length{Median: 2200, Sigma: 1.4, Min: 8, Max: 60000},
		MessageTokens: Length{Median: 700, Sigma: 1.4, Min: 4, Max: 30000},
		OutputTokens:  Length{Median: 300, Sigma: 0.7, Min: 1, Max: 2000},
		ThinkMS:       Length{Median: 15000, Sigma: 0.9, Min: 500, Max: 300000}, MaxInputTokens: 120000,
		ToolShare: 0, MaxToolCalls: 1, ToolTokens: Length{Median: 1, Min: 1, Max: 1}, ToolMS: Length{}, OutputTokenMS: 20,
	}
}

// AgenticParams describes agents that work through tool calls.
func AgenticParams() GenerateParams {
	return GenerateParams{
		Seed: 2, BlockSize: DefaultBlockSize, Requests: 2000,
		SessionsPerSecond: 0.6, BurstFactor: 10, BurstShare: 0.1, BurstSeconds: 12,
		SystemPrompts: 5, SystemSkew: 1, SystemTokens: Length{Median: 3500, Sigma: 0.4, Min: 512, Max: 16000},
		MeanTurns: 3, MaxTurns: 60,
		FirstTokens:   Length{Median: 4000, Sigma: 1.2, Min: 8, Max: 40000},
		MessageTokens: Length{Median: 1600, Sigma: 1.3, Min: 4, Max: 30000},
		OutputTokens:  Length{Median: 160, Sigma: 0.9, Min: 1, Max: 4000},
		ThinkMS:       Length{Median: 800, Sigma: 1.2, Min: 20, Max: 120000}, MaxInputTokens: 120000,
		ToolShare: 0.3, MaxToolCalls: 3, ToolTokens: Length{Median: 4500, Sigma: 1.2, Min: 16, Max: 30000},
		ToolMS: Length{Median: 400, Sigma: 1, Min: 5, Max: 30000}, OutputTokenMS: 20,
	}
}

// Length is a lognormal distribution of whole numbers, cut to a range: Median x
// exp(Sigma x z), where z is a sum of twelve uniform draws, close to a standard
// normal one and within 6 of 0. A Sigma of 0 always gives the median.
type Length struct {
	Median int     `json:"median"`
	Sigma  float64 `json:"sigma"`
	Min    int     `json:"min"`
	Max    int     `json:"max"`
}

// String returns "median,sigma,min,max".
func (l *Length) String() string {
	return fmt.Sprintf("%d,%v,%d,%d", l.Median, l.Sigma, l.Min, l.Max)
}

// Set reads what String writes.
func (l *Length) Set(s string) error {
	bad := fmt.Errorf("%q is no distribution of lengths; give median,sigma,min,max, as in 300,0.8,1,2000", s)
	parts := strings.Split(s, ",")
	if len(parts) != 4 {
		return bad
	}
	var out Length
	var errs [4]error
	out.Median, errs[0] = strconv.Atoi(parts[0])
	out.Sigma, errs[1] = strconv.ParseFloat(parts[1], 64)
	out.Min, errs[2] = strconv.Atoi(parts[2])
	out.Max, errs[3] = strconv.Atoi(parts[3])
	if errors.Join(errs[:]...) != nil {
		return bad
	}
	*l = out
	return nil
}

// Type names the form of the flag for help texts.
func (l *Length) Type() string { return "median,sigma,min,max" }

// GenerateFlag is one parameter as a flag of a command.
type GenerateFlag struct {
	Name  string // the JSON name with dashes
	Usage string
	Value any // *uint64, *int, *float64 or *Length
}

// Flags returns all parameters, pointing into p. Errors of Validate and Generate
// call them by these names.
func (p *GenerateParams) Flags() []GenerateFlag {
	return []GenerateFlag{
		{"seed", "seed of all draws", &p.Seed},
		{"block-size", "tokens that a hash id stands for", &p.BlockSize},
		{"requests", "rows of the trace", &p.Requests},
		{"sessions-per-second", "mean rate at which sessions start", &p.SessionsPerSecond},
		{"burst-factor", "rate in a burst divided by the rate outside", &p.BurstFactor},
		{"burst-share", "share of the time that is in bursts, from 0 to below 1", &p.BurstShare},
		{"burst-seconds", "mean length of a burst", &p.BurstSeconds},
		{"system-prompts", "number of different system prompts", &p.SystemPrompts},
		{"system-skew", "system prompt i is drawn with weight 1/i^skew", &p.SystemSkew},
		{"system-tokens", "length of system prompts", &p.SystemTokens},
		{"mean-turns", "mean number of turns of a session", &p.MeanTurns},
		{"max-turns", "most turns of a session", &p.MaxTurns},
		{"first-tokens", "length of a session's first message", &p.FirstTokens},
		{"message-tokens", "length of later messages", &p.MessageTokens},
		{"output-tokens", "length of answers", &p.OutputTokens},
		{"think-ms", "ms between an answer and the next message", &p.ThinkMS},
		{"max-input-tokens", "a session ends before its prompt is longer than this", &p.MaxInputTokens},
		{"tool-share", "share of turns that call tools, from 0 to 1", &p.ToolShare},
		{"max-tool-calls", "most tool calls of one turn", &p.MaxToolCalls},
		{"tool-tokens", "tokens that a tool call adds to the prefix", &p.ToolTokens},
		{"tool-ms", "ms from a turn's end to the request of its tool call", &p.ToolMS},
		{"output-token-ms", "ms to generate a token, which sets when tool calls arrive", &p.OutputTokenMS},
	}
}

// limits are the ranges of the parameters that are plain numbers.
var limits = map[string]struct{ min, max float64 }{
	"block-size": {1, maxLength}, "requests": {1, 1e8}, "sessions-per-second": {1e-6, 1e6},
	"burst-factor": {1, 1e6}, "burst-share": {0, 0.999}, "burst-seconds": {1e-3, 1e6},
	"system-prompts": {1, 1e6}, "system-skew": {0, 10}, "mean-turns": {1, 1e3}, "max-turns": {1, 1e4},
	"max-input-tokens": {1, maxLength}, "tool-share": {0, 1}, "max-tool-calls": {1, 1e4}, "output-token-ms": {0, 1e6},
}

// Validate returns an error that names every flag that is out of its range.
func (p *GenerateParams) Validate() error {
	var errs []error
	for _, f := range p.Flags() {
		var v float64
		switch x := f.Value.(type) {
		case *Length:
			if l := *x; l.Min < 0 || l.Median < l.Min || l.Max < l.Median || l.Max > maxLength || !(l.Sigma >= 0 && l.Sigma <= 10) {
				errs = append(errs, fmt.Errorf("--%s is %s; give 0 <= min <= median <= max <= %d and a sigma from 0 to 10", f.Name, x, maxLength))
			}
			continue
		case *int:
			v = float64(*x)
		case *float64:
			v = *x
		case *uint64:
			continue
		}
		if l := limits[f.Name]; !(v >= l.min && v <= l.max) {
			errs = append(errs, fmt.Errorf("--%s is %v; give %v to %v", f.Name, v, l.min, l.max))
		}
	}
	if p.SystemTokens.Max > p.MaxInputTokens-max(p.FirstTokens.Min, 1) {
		errs = append(errs, fmt.Errorf("--max-input-tokens is %d, which has no room for --system-tokens up to %d and a first message; raise it",
			p.MaxInputTokens, p.SystemTokens.Max))
	}
	// The generator draws every burst, so they must not be far more than sessions.
	if p.BurstShare > 0 && p.SessionsPerSecond*p.BurstSeconds/p.BurstShare < 1e-3 {
		errs = append(errs, fmt.Errorf("--burst-seconds is %v, so that more than 1000 bursts pass between two sessions; raise it or --sessions-per-second",
			p.BurstSeconds))
	}
	return errors.Join(errs...)
}

type generatorRecord struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	GenerateParams
}

// Record returns the parameters as they stand in generated traces: see
// Writer.SetGenerator.
func (p *GenerateParams) Record() json.RawMessage {
	// Numbers cannot fail to marshal once they are finite, which Validate sees to.
	b, _ := json.Marshal(generatorRecord{GeneratorName, GeneratorVersion, *p})
	return b
}

// ParseGenerateParams reads what Record wrote. A trace of another generator or
// version is an error, as the parameters would not give it again.
func ParseGenerateParams(record json.RawMessage) (GenerateParams, error) {
	var r generatorRecord
	if err := json.Unmarshal(record, &r); err != nil {
		return GenerateParams{}, fmt.Errorf("_generator: %w", err)
	}
	if r.Name != GeneratorName || r.Version != GeneratorVersion {
		return GenerateParams{}, fmt.Errorf("_generator: the trace was made by %s version %d, this is %s version %d",
			excerpt(r.Name), r.Version, GeneratorName, GeneratorVersion)
	}
	return r.GenerateParams, r.Validate()
}

// Generate makes a trace. Its rows are in the order in which they would arrive
// if answers took OutputTokenMS a token; ids are numbered as they appear.
func Generate(p GenerateParams) (*Trace, error) { return generate(p, maxGeneratedIDs) }

func generate(p GenerateParams, limit uint64) (*Trace, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	g := generator{content: content{blockSize: p.BlockSize}, p: p, limit: limit, draw: draw{rand.NewPCG(p.Seed, 0x67656e6572617465)}}
	g.systemPrompts()
	arrivals := g.arrivals()
	// Sessions start in order of time, so the first rows of all are known once
	// as many have arrived before the next session. The trace is cut there,
	// while others are still going on.
	var pending times
	for session, arrived := 1, 0; arrived < p.Requests; session++ {
		at := arrivals()
		for len(pending) > 0 && pending[0] < at {
			heap.Pop(&pending)
			arrived++
		}
		before := len(g.rows)
		g.session(fmt.Sprintf("s%d", session), at)
		if g.full() {
			return nil, fmt.Errorf("trace: %d rows for the %d asked for have more than %d ids with those of answers, which are held in memory; lower --requests or the lengths, or raise --block-size",
				len(g.rows), p.Requests, limit)
		}
		for _, r := range g.rows[before:] {
			heap.Push(&pending, r.at)
		}
	}
	slices.SortStableFunc(g.rows, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return g.trace(g.rows[:p.Requests])
}

type generator struct {
	content
	p       GenerateParams
	draw    draw
	prompts []prefix
	weights []float64 // of prompts, summed up
	rows    []arrival
	held    uint64 // ids of rows
	limit   uint64 // of those and the different ones
}

// maxGeneratedIDs is how many ids a trace that is made in memory may have, those of
// its prompts and different ones together: 8 GiB.
const maxGeneratedIDs = 1 << 30

// full says that the trace is too large to be held.
func (g *generator) full() bool { return g.held+g.nextID > g.limit }

// add adds a row.
func (g *generator) add(at int64, req Request) {
	g.rows = append(g.rows, arrival{at, req})
	g.held += uint64(len(req.HashIDs))
}

// arrival is a row with its expected time in ms.
type arrival struct {
	at  int64
	req Request
}

// times is a heap of times in ms.
type times []int64

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i] < t[j] }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *times) Push(x any)        { *t = append(*t, x.(int64)) }
func (t *times) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

func (g *generator) systemPrompts() {
	sum := 0.0
	for i := range g.p.SystemPrompts {
		g.prompts = append(g.prompts, g.extend(prefix{}, g.draw.length(g.p.SystemTokens)))
		sum += 1 / exp(float64(g.p.SystemSkew*log(float64(i+1))))
		g.weights = append(g.weights, sum)
	}
}

func (g *generator) systemPrompt() prefix {
	u := float64(g.draw.uniform() * g.weights[len(g.weights)-1])
	i, _ := slices.BinarySearch(g.weights, u)
	return g.prompts[min(i, len(g.prompts)-1)]
}

// arrivals returns a function that gives the start of one session after another
// in ms.
func (g *generator) arrivals() func() int64 {
	p := &g.p
	calm := p.SessionsPerSecond / (1 - p.BurstShare + float64(p.BurstShare*p.BurstFactor))
	now, burst := 0.0, false
	// The state ends at until. It begins with a calm, and without bursts never ends.
	until := math.Inf(1)
	length := func() float64 {
		mean := p.BurstSeconds
		if !burst {
			mean = float64(p.BurstSeconds*(1-p.BurstShare)) / p.BurstShare
		}
		return float64(mean * g.draw.exponential())
	}
	if p.BurstShare > 0 {
		until = length()
	}
	first := true
	return func() int64 {
		if first {
			first = false
			return 0
		}
		for {
			rate := calm
			if burst {
				rate = float64(calm * p.BurstFactor)
			}
			if gap := g.draw.exponential() / rate; now+gap <= until {
				now += gap
				return int64(float64(now * 1000))
			}
			// The process has no memory, so it starts anew in the next state.
			now, burst = until, !burst
			until = now + length()
		}
	}
}

// session adds the rows of one session that starts at at.
func (g *generator) session(name string, at int64) {
	p := &g.p
	context := g.systemPrompt()
	message := max(1, g.draw.length(p.FirstTokens))
	// The first prompt always fits, so that a session has a row.
	message = min(message, p.MaxInputTokens-context.tokens(p.BlockSize))
	delay := math.NaN()
	for turn := 0; ; turn++ {
		context = g.extend(context, message)
		output := g.draw.length(p.OutputTokens)
		req := Request{Session: name, Timestamp: math.NaN(), Delay: delay,
			InputLength: context.tokens(p.BlockSize), OutputLength: output, HashIDs: g.prompt(context)}
		if turn == 0 {
			req.Timestamp = float64(at)
		}
		g.add(at, req)
		at += int64(output) * int64(p.OutputTokenMS)
		context = g.extend(context, output)

		var wait int64
		if g.draw.uniform() < p.ToolShare {
			wait = g.toolCalls(context, at)
		} else {
			wait = int64(g.draw.length(p.ThinkMS))
		}
		at += wait
		delay = float64(wait)
		message = max(1, g.draw.length(p.MessageTokens))
		over := context.tokens(p.BlockSize)+message > p.MaxInputTokens
		if g.draw.uniform() < 1/p.MeanTurns || turn+1 >= p.MaxTurns || over || g.full() {
			return
		}
	}
}

// toolCalls adds the requests that fan out from context after at, and returns
// the ms until the last has ended.
func (g *generator) toolCalls(context prefix, at int64) int64 {
	p := &g.p
	end := int64(0)
	for range 1 + g.draw.intN(p.MaxToolCalls) {
		start := int64(g.draw.length(p.ToolMS))
		call := max(1, g.draw.length(p.ToolTokens))
		output := g.draw.length(p.OutputTokens)
		end = max(end, start+int64(output)*int64(p.OutputTokenMS))
		if context.tokens(p.BlockSize)+call > p.MaxInputTokens {
			continue
		}
		branch := g.extend(context, call)
		g.add(at+start, Request{Timestamp: float64(at + start), Delay: math.NaN(),
			InputLength: branch.tokens(p.BlockSize), OutputLength: output, HashIDs: g.prompt(branch)})
		if g.full() {
			break
		}
	}
	return end
}

// trace numbers the ids as they appear and builds the trace.
func (g *generator) trace(rows []arrival) (*Trace, error) {
	b := builder{blockSize: g.p.BlockSize}
	number := make([]uint64, g.nextID) // 0: not seen, else number + 1
	next := uint64(0)
	var ids []uint64
	for i := range rows {
		ids = ids[:0]
		for _, id := range rows[i].req.HashIDs {
			if number[id] == 0 {
				next++
				number[id] = next
			}
			ids = append(ids, number[id]-1)
		}
		rows[i].req.HashIDs = ids
		if field, err := b.add(&rows[i].req); err != nil {
			return nil, fmt.Errorf("trace: generated row %d: %s: %w", i, field, err)
		}
	}
	return b.trace(), nil
}

// draw draws from a PCG. Products that something is added to are converted, so
// that no compiler makes one rounding of the two.
type draw struct{ pcg *rand.PCG }

// uniform returns a number in [0, 1).
func (d draw) uniform() float64 { return float64(d.pcg.Uint64()>>11) / (1 << 53) }

// exponential returns a number with the mean 1.
func (d draw) exponential() float64 { return -log(1 - d.uniform()) }

// intN returns a whole number in [0, n).
func (d draw) intN(n int) int { return int(float64(d.uniform() * float64(n))) }

func (d draw) length(l Length) int {
	if l.Sigma == 0 {
		return l.Median
	}
	z := -6.0
	for range 12 {
		z += d.uniform()
	}
	x := float64(float64(l.Median) * exp(float64(l.Sigma*z)))
	return int(min(max(math.Floor(x+0.5), float64(l.Min)), float64(l.Max)))
}

// exp and log are here because those of the standard library are written in
// assembly for some machines and differ there in the last bit.

func exp(x float64) float64 {
	k := math.Floor(float64(x*math.Log2E) + 0.5)
	r := x - float64(k*math.Ln2)
	sum := 1.0
	for i := 20; i > 0; i-- {
		sum = 1 + float64(r*sum)/float64(i)
	}
	return math.Ldexp(sum, int(k))
}

func log(x float64) float64 {
	f, e := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f, e = 2*f, e-1
	}
	s := (f - 1) / (f + 1)
	s2 := float64(s * s)
	sum := 0.0
	for i := 24; i >= 0; i-- {
		sum = 1/float64(2*i+1) + float64(s2*sum)
	}
	return float64(2*float64(s*sum)) + float64(float64(e)*math.Ln2)
}
