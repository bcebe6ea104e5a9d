package policies

import (
	"slices"

	"github.com/kvbench/kvbench/indexer"
)

// Explanation is how a selection comes to its choice.
type Explanation struct {
	// Rows are the candidates that are left by the filters, ascending.
	Rows []indexer.Slot
	// Dropped are the candidates that a filter dropped, in the order of the filters.
	Dropped []Drop
	// Terms are what the scorers say, in their order. Without one the picker alone
	// decides.
	Terms []Term
	// Total are the weighted sums of the costs by row; nil without a scorer.
	Total []float64
	// Picker is the name of the picker.
	Picker string
	// Choice is what Select would return now.
	Choice Choice

	// The inputs that the pipeline declares, as its components see them; those by
	// slot are copies. Nil where they are not declared.
	Cache   []uint32 // leading blocks held, by slot
	Load    *LoadColumns
	Session *SessionInput
}

// Drop is a candidate that a filter dropped.
type Drop struct {
	Slot   indexer.Slot
	Filter string
}

// Term is what one scorer says.
type Term struct {
	Name   string
	Weight float64
	Costs  []float64 // by row, without the weight
}

// Explain says what Select would do, and has no effect: a selection after it is
// the one that was explained. It allocates and looks at every candidate. If the
// selection fails, what was found until then is returned with the error.
func (p *Pipeline) Explain(r *Request, s *State) (*Explanation, error) {
	stream := p.pcg
	defer func() { p.pcg = stream }()
	e := &Explanation{Picker: p.recipe.Picker.Name}
	err := p.explain(e, r, s)
	p.pcg = stream
	if err != nil {
		// Select has the error in the form that it has everywhere.
		_, err = p.Select(r, s)
		return e, err
	}
	e.Choice, err = p.Select(r, s)
	return e, err
}

// explain fills in everything but the choice.
func (p *Pipeline) explain(e *Explanation, r *Request, s *State) (err error) {
	defer func() {
		if x := recover(); x != nil {
			broken, ok := x.(*ComponentError)
			if !ok {
				panic(x)
			}
			err = broken
		}
	}()
	if err := p.gather(r, s); err != nil {
		return err
	}
	if p.inputs.Has(Cache) {
		e.Cache = slices.Clone(p.now.cache.Overlap)
	}
	if p.inputs.Has(Load) {
		l := p.now.load
		e.Load = &LoadColumns{
			Known: slices.Clone(l.Known), PrefillTokens: slices.Clone(l.PrefillTokens), DecodeBlocks: slices.Clone(l.DecodeBlocks),
			Requests: slices.Clone(l.Requests), SharedBlocks: slices.Clone(l.SharedBlocks), Sharing: slices.Clone(l.Sharing),
		}
	}
	if p.inputs.Has(Session) {
		s := p.now.session
		e.Session = &s
	}
	for i := range p.filterViews {
		before := slices.Clone(p.now.rows)
		err := p.filter(i)
		after := p.now.rows
		if err != nil {
			after = nil // it drops all that there are
		}
		for _, slot := range before {
			if !slices.Contains(after, slot) {
				e.Dropped = append(e.Dropped, Drop{slot, p.recipe.Filters[i].Name})
			}
		}
		if err != nil {
			return err
		}
	}
	e.Rows = slices.Clone(p.now.rows)
	for i := range p.recipe.Scorers {
		w := &p.recipe.Scorers[i]
		costs := make([]float64, len(e.Rows))
		w.Scorer.Score(&p.scorerViews[i], costs)
		e.Terms = append(e.Terms, Term{Name: w.Name, Weight: w.Weight, Costs: costs})
	}
	if len(e.Terms) > 0 {
		total, err := p.score(len(e.Rows))
		if err != nil {
			return err
		}
		e.Total = slices.Clone(total)
	}
	return nil
}
