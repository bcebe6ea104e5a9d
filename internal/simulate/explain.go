package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/mocker/engine"
	"github.com/kvbench/kvbench/mocker/fleet"
	"github.com/kvbench/kvbench/policies"
)

// Explanation is one decision of every policy on the same request, each in the
// state that its own decisions before have made.
type Explanation struct {
	Schema       string     `json:"schema"`
	Trace        TraceInfo  `json:"trace"`
	Options      Options    `json:"options"`
	Row          int        `json:"trace_row"`
	Line         int        `json:"line"`
	Session      int        `json:"session"`
	PromptTokens int        `json:"prompt_tokens"`
	Blocks       int        `json:"blocks"` // full blocks of the prompt
	Decisions    []Decision `json:"decisions"`
	Warnings     []string   `json:"warnings"`
}

// ExplanationV1 is the schema of an Explanation.
const ExplanationV1 = "kvbench.explanation/v1"

// Decision is that of one policy.
type Decision struct {
	Policy  string `json:"policy"`
	Full    string `json:"full"` // with every parameter; empty for the oracle
	Inputs  string `json:"inputs"`
	AtNanos int64  `json:"at_ns"` // virtual time
	Router  int    `json:"router"`
	// Scorers are those whose costs the candidates have, with their weights; the
	// least sum is best. Without one the picker decides by the inputs alone.
	Scorers    []Scorer    `json:"scorers"`
	Picker     string      `json:"picker"`
	Candidates []Candidate `json:"candidates"` // every rank
	Rank       int         `json:"rank"`       // chosen; -1: none
	Failure    string      `json:"failure,omitempty"`
	// SessionRank is where the request's session was served last, -1 if that is not
	// known or not read.
	SessionRank int `json:"session_rank"`

	// What came of it.
	Refused    string `json:"refused,omitempty"` // by the rank, and why
	HitTokens  int    `json:"hit_tokens"`
	Expected   int    `json:"expected_hit_tokens"` // -1: the policy does not look
	QueueNanos int64  `json:"queue_ns"`
	TTFTNanos  int64  `json:"ttft_ns"`
	E2ENanos   int64  `json:"e2e_ns"`
}

// Scorer is one term of the sum.
type Scorer struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
}

// Candidate is one rank at a decision: what the router knows, what the policy
// makes of it, and how it really is. What the policy does not read is null.
type Candidate struct {
	Rank          int       `json:"rank"`
	Overlap       *uint32   `json:"overlap_blocks"`
	PrefillTokens *int64    `json:"prefill_tokens"`
	DecodeBlocks  *int64    `json:"decode_blocks"`
	Requests      *int32    `json:"requests"`
	SharedBlocks  *uint32   `json:"shared_blocks"`
	Capacity      *uint32   `json:"capacity_blocks"`
	Resident      *uint64   `json:"resident_blocks"`
	DroppedBy     string    `json:"dropped_by,omitempty"` // filter
	Costs         []float64 `json:"costs"`                // by scorer, without weight
	Total         *float64  `json:"total"`

	TrueOverlap  int   `json:"true_overlap_blocks"` // in the engine's cache now
	TrueBacklog  int64 `json:"true_backlog_tokens"` // of prompts, yet to be computed
	TrueRequests int   `json:"true_requests"`       // waiting or running
	TrueResident int   `json:"true_resident_blocks"`
	Pool         int   `json:"pool_blocks"`
}

// errExplained ends a run in which the request is done.
var errExplained = errors.New("explained")

// Explain plays the trace, with the first speed-up and the first seed, until the
// request in a row of it, from 0, is done, for every policy.
func Explain(ctx context.Context, cfg Config, row int) (*Explanation, error) {
	cfg.Knee, cfg.Requests, cfg.Detail, cfg.DecisionTime = nil, nil, false, false
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if row < 0 || row >= cfg.Trace.Len() {
		return nil, fmt.Errorf("the trace has no request %d; its rows are 0 to %d", row, cfg.Trace.Len()-1)
	}
	cfg.SpeedUps, cfg.Seeds = cfg.SpeedUps[:1], cfg.Seeds[:1]
	t, err := cfg.Trace.SpeedUp(cfg.SpeedUps[0])
	if err != nil {
		return nil, err
	}
	res := newResult(&cfg)
	in := t.Request(row)
	prompt := min(in.InputLength, len(in.HashIDs)*t.BlockSize)
	out := &Explanation{
		Schema: ExplanationV1, Trace: res.Trace, Options: res.Options, Row: row, Line: in.Line, Session: t.SessionOf(row),
		PromptTokens: prompt, Blocks: prompt / cfg.Engine.BlockSize, Warnings: res.Warnings,
	}
	for _, p := range cfg.each() {
		e := &explainer{row: row}
		j := &job{trace: t, policy: p, speedUp: cfg.SpeedUps[0], seed: cfg.Seeds[0], explain: e}
		if err := j.do(ctx, &cfg); err != nil && !errors.Is(err, errExplained) {
			return nil, err
		}
		if p != nil {
			e.decision.Full, e.decision.Inputs = p.Full, p.Inputs().String()
		}
		e.decision.Policy = nameOf(p)
		out.Decisions = append(out.Decisions, e.decision)
	}
	return out, nil
}

// explainer watches a run for one decision.
type explainer struct {
	row      int
	cfg      *Config
	engines  []rankEngine
	notes    *notes
	stop     context.CancelCauseFunc
	decision Decision
}

func (e *explainer) begin(cfg *Config, n *notes, engines []rankEngine, stop context.CancelCauseFunc) {
	e.cfg, e.engines, e.notes, e.stop = cfg, engines, n, stop
	n.row, n.explain = uint64(e.row), e.explain
}

// explain is called before the decision; r is nil for the oracle.
func (e *explainer) explain(now int64, a *fleet.Arrival, r *router) error {
	d := &e.decision
	d.AtNanos, d.Rank, d.SessionRank, d.Scorers = now, fleet.NoRank, -1, []Scorer{}
	d.Candidates = make([]Candidate, e.cfg.Workers)
	n := a.Chain.Prompt()
	for i := range d.Candidates {
		c := &d.Candidates[i]
		c.Rank, c.Pool = i, e.cfg.Engine.blocks(i)
		c.TrueOverlap = e.engines[i].Cached(a.Chain, n) / e.cfg.Engine.BlockSize
		c.TrueBacklog, c.TrueRequests = e.engines[i].Backlog()
		c.TrueResident = e.engines[i].Counts().Resident
		c.Costs = []float64{}
		if r == nil {
			total := float64(c.TrueBacklog) + float64(n-c.TrueOverlap*e.cfg.Engine.BlockSize)
			c.Costs, c.Total = append(c.Costs, total), &total
		}
	}
	if r == nil {
		d.Inputs, d.Picker = "the true state of the ranks", "least"
		d.Scorers = append(d.Scorers, Scorer{Name: "tokens to compute", Weight: 1})
		return nil
	}
	x, err := r.pipeline.Explain(&r.request, &r.state)
	if err != nil {
		d.Failure = err.Error()
	}
	d.Picker = x.Picker
	for _, t := range x.Terms {
		d.Scorers = append(d.Scorers, Scorer{t.Name, t.Weight})
	}
	if x.Session != nil && x.Session.Known {
		d.SessionRank = int(x.Session.Target)
	}
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if x.Cache != nil {
			c.Overlap = &x.Cache[i]
		}
		if l := x.Load; l != nil {
			c.PrefillTokens, c.DecodeBlocks, c.Requests, c.SharedBlocks = &l.PrefillTokens[i], &l.DecodeBlocks[i], &l.Requests[i], &l.SharedBlocks[i]
		}
		if r.inputs.Has(policies.Capacity) {
			capacity := r.state.CapacityBlocks[i]
			c.Capacity = &capacity
		}
		if r.resident != nil {
			if count, ok := r.resident.Residents().Count(indexer.Slot(i)); ok {
				c.Resident = &count
			}
		}
	}
	for _, drop := range x.Dropped {
		d.Candidates[drop.Slot].DroppedBy = drop.Filter
	}
	for row, slot := range x.Rows {
		c := &d.Candidates[slot]
		for _, t := range x.Terms {
			c.Costs = append(c.Costs, t.Costs[row])
		}
		if x.Total != nil {
			c.Total = &x.Total[row]
		}
	}
	return nil
}

// Gap implements fleet.Observer.
func (*explainer) Gap(*fleet.Outcome, int64) {}

// Sample implements fleet.Observer.
func (*explainer) Sample(int64, []engine.Counts) {}

// Outcome implements fleet.Observer.
func (e *explainer) Outcome(o *fleet.Outcome) {
	if o.Row != e.row {
		return
	}
	d := &e.decision
	d.Rank, d.Router, d.Expected = o.Rank, o.Router, int(e.notes.live.of(uint64(o.Row)).expected)
	switch {
	case o.Rank == fleet.NoRank:
	case o.Refused != engine.Accepted:
		d.Refused = o.Refused.String()
	default:
		d.HitTokens, d.QueueNanos, d.TTFTNanos, d.E2ENanos = o.Cached, o.Admitted-o.Arrival, o.First-o.Arrival, o.Last-o.Arrival
	}
	e.stop(errExplained)
}

// WriteText writes the explanation for people.
func (x *Explanation) WriteText(w io.Writer) error {
	var b text.Builder
	b.Wrap("", fmt.Sprintf("%s: row %d (line %d), session %d: a prompt of %d tokens, %d full blocks of %d",
		x.Trace.Name, x.Row, x.Line, x.Session, x.PromptTokens, x.Blocks, x.Options.BlockSize))
	b.Wrap("", "tokens: prefill, backlog (of prompts that the rank has yet to compute); blocks: overlap, decode, shared, capacity, resident, of (what the rank has room for); first what the router knew, then what was true")
	for _, warning := range x.Warnings {
		b.Wrap("warning: ", warning)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for i := range x.Decisions {
		if err := x.Decisions[i].writeText(w, x.PromptTokens); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decision) writeText(w io.Writer, prompt int) error {
	var b text.Builder
	b.Line("")
	name := d.Full
	if name == "" {
		name = d.Policy
	}
	b.Wrap("", fmt.Sprintf("%s: reads %s; at %s", breakable(name), d.Inputs, span(d.AtNanos)))
	// Columns that no rank has a value in are left out.
	columns := []struct {
		name string
		of   func(c *Candidate) string
	}{
		{"overlap", func(c *Candidate) string { return known(c.Overlap) }},
		{"prefill", func(c *Candidate) string { return known(c.PrefillTokens) }},
		{"decode", func(c *Candidate) string { return known(c.DecodeBlocks) }},
		{"requests", func(c *Candidate) string { return known(c.Requests) }},
		{"shared", func(c *Candidate) string { return known(c.SharedBlocks) }},
		{"capacity", func(c *Candidate) string { return known(c.Capacity) }},
		{"resident", func(c *Candidate) string { return known(c.Resident) }},
	}
	for i, s := range d.Scorers {
		columns = append(columns, struct {
			name string
			of   func(c *Candidate) string
		}{fmt.Sprintf("%s x %g", s.Name, s.Weight), func(c *Candidate) string {
			if i < len(c.Costs) {
				return fmt.Sprintf("%.6g", c.Costs[i])
			}
			return ""
		}})
	}
	columns = append(columns, struct {
		name string
		of   func(c *Candidate) string
	}{"cost", func(c *Candidate) string {
		if c.Total == nil {
			return c.DroppedBy
		}
		return fmt.Sprintf("%.6g", *c.Total)
	}})
	rank := func(c *Candidate) string {
		if c.Rank == d.Rank {
			return fmt.Sprintf("* %d", c.Rank)
		}
		return fmt.Sprintf("  %d", c.Rank)
	}
	knows, rows := []string{"  rank"}, make([][]string, len(d.Candidates))
	for i := range rows {
		rows[i] = []string{rank(&d.Candidates[i])}
	}
	for _, column := range columns {
		cells, any := make([]string, len(d.Candidates)), false
		for i := range d.Candidates {
			cells[i] = column.of(&d.Candidates[i])
			any = any || cells[i] != ""
		}
		if any {
			knows = append(knows, column.name)
			for i := range cells {
				rows[i] = append(rows[i], cells[i])
			}
		}
	}
	if len(knows) > 1 {
		var t text.Table
		t.Row(knows...)
		for _, row := range rows {
			t.Row(row...)
		}
		t.Write(&b)
		b.Line("")
	}
	var truth text.Table
	truth.Row("  rank", "true overlap", "backlog", "requests", "resident", "of")
	for i := range d.Candidates {
		c := &d.Candidates[i]
		truth.Row(rank(c), strconv.Itoa(c.TrueOverlap), strconv.FormatInt(c.TrueBacklog, 10), strconv.Itoa(c.TrueRequests),
			strconv.Itoa(c.TrueResident), strconv.Itoa(c.Pool))
	}
	truth.Write(&b)
	var says []string
	if d.SessionRank >= 0 {
		says = append(says, fmt.Sprintf("the session was served by rank %d", d.SessionRank))
	}
	switch {
	case d.Rank < 0 && d.Failure != "":
		says = append(says, "no rank: "+d.Failure)
	case d.Rank < 0:
		says = append(says, "no rank")
	case d.Refused != "":
		says = append(says, fmt.Sprintf("rank %d was picked by %s and refused: %s", d.Rank, d.Picker, d.Refused))
	default:
		expected := ""
		if d.Expected >= 0 {
			expected = fmt.Sprintf(", %d expected", d.Expected)
		}
		says = append(says, fmt.Sprintf("rank %d was picked by %s: %d of %d prompt tokens from the cache%s, queue %s, TTFT %s, E2E %s",
			d.Rank, d.Picker, d.HitTokens, prompt, expected, span(d.QueueNanos), span(d.TTFTNanos), span(d.E2ENanos)))
	}
	b.Wrap("=> ", strings.Join(says, "; "))
	_, err := io.WriteString(w, b.String())
	return err
}

// breakable lets the parameters of a policy stand on several lines.
func breakable(policy string) string { return strings.ReplaceAll(policy, ",", ", ") }

// known writes a number that may be missing.
func known[T any](x *T) string {
	if x == nil {
		return ""
	}
	return fmt.Sprint(*x)
}
