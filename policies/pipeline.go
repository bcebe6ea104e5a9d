package policies

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kvbench/kvbench/indexer"
)

// Component is one part of a pipeline. It belongs to one pipeline.
type Component interface {
	// Inputs declares what the component reads. The answer never changes.
	Inputs() Inputs
}

// Filter drops candidates.
type Filter interface {
	Component
	// Keep sets keep[row] to false for each row to drop. All are true before.
	Keep(v *View, keep []bool)
}

// Scorer gives every candidate a cost; lower is better.
type Scorer interface {
	Component
	// Score sets costs[row] for every row, to a finite number.
	Score(v *View, costs []float64)
}

// Picker chooses among the candidates.
type Picker interface {
	Component
	// Pick returns a row. costs are the weighted sums by row, 0 without a scorer,
	// and the picker may overwrite them.
	Pick(v *View, costs []float64) int
}

// Chooser is a scorer and a picker in one that need not look at every candidate.
// What it chooses must be what the scan by scorers and picker would choose.
type Chooser interface {
	Component
	// Choose returns a row and its cost, or false if this selection must be
	// done by the scan.
	Choose(v *View) (row int, cost float64, ok bool)
}

// Committer is a component that remembers what was chosen.
type Committer interface {
	// Commit is told that the request goes to the rank in slot. It is called
	// once for each choice that the host acts on, before the next selection.
	Commit(r *Request, slot indexer.Slot)
}

// Named joins a component with the name that errors give it.
type Named[C Component] struct {
	Name      string
	Component C
}

// Weighted is a scorer and the weight of its costs, which is finite and not
// negative; costs of weight 0 have no effect.
type Weighted struct {
	Name   string
	Scorer Scorer
	Weight float64
}

// Recipe is what a pipeline is made of.
type Recipe struct {
	Filters []Named[Filter] // in the order in which they are asked
	Scorers []Weighted
	Picker  Named[Picker] // required
	// Chooser, if set, is asked before the scan wherever there are no filters.
	Chooser Chooser
}

// Inputs returns what the components declare, all together.
func (r *Recipe) Inputs() Inputs {
	var in Inputs
	for _, f := range r.Filters {
		in |= f.Component.Inputs()
	}
	for _, s := range r.Scorers {
		in |= s.Scorer.Inputs()
	}
	if r.Picker.Component != nil {
		in |= r.Picker.Component.Inputs()
	}
	if r.Chooser != nil {
		in |= r.Chooser.Inputs()
	}
	return in
}

// Errors of Select, found by errors.Is.
var (
	// ErrNoCandidates says that no rank is eligible, or none is left by the filters.
	ErrNoCandidates = errors.New("no rank can serve the request")
	// ErrOverloaded says that ranks would be eligible if they were not overloaded.
	ErrOverloaded = errors.New("every eligible rank is overloaded")
	// ErrPinned says that the pinned rank cannot serve the request.
	ErrPinned = errors.New("the pinned rank cannot serve the request")
)

// ErrResidentWithoutCache is an error of NewPipeline.
var ErrResidentWithoutCache = errors.New("RESIDENT_BLOCKS is read without CACHE: the counts come from the index, which only a policy that reads CACHE has; add a component that reads CACHE")

// ComponentError is an error of one component's making.
type ComponentError struct {
	Component string
	Problem   string
}

func (e *ComponentError) Error() string { return e.Component + " " + e.Problem }

// Choice is what a selection came to.
type Choice struct {
	Slot indexer.Slot
	// Cost is the chosen candidate's sum of costs.
	Cost float64
	// Candidates is the number of rows that the picker had.
	Candidates int
	// Overlap is the leading blocks that the chosen rank holds, 0 if the
	// pipeline does not read CACHE.
	Overlap uint32
}

// Pipeline is a policy that is ready to choose. It belongs to one goroutine.
type Pipeline struct {
	recipe Recipe
	inputs Inputs

	filterViews []View
	scorerViews []View
	pickerView  View
	chooserView View
	committers  []Committer

	now selection
	pcg rand.PCG

	all      []indexer.Slot // eligible without the request's own demands
	allSlots int
	allFrom  uint64 // State.Version that all was made for
	allMade  bool
	allDense bool
	epoch    uint64
	some     []indexer.Slot // of this request
	keep     []bool
	costs    []float64
	total    []float64
	overlap  []uint32 // a copy of scores that were too short
}

// stream is the second half of every seed.
const stream = 0x6b7662656e6368

// NewPipeline checks the recipe and makes a pipeline of it. seed decides every
// random choice.
func NewPipeline(r Recipe, seed uint64) (*Pipeline, error) {
	if r.Picker.Component == nil {
		return nil, errors.New("a policy needs a picker")
	}
	p := &Pipeline{recipe: r}
	p.Reseed(seed)
	p.now.rand = rand.New(&p.pcg)
	add := func(kind, name string, c Component) (View, error) {
		if name == "" {
			return View{}, fmt.Errorf("a %s has no name", kind)
		}
		in := c.Inputs()
		if err := in.check(); err != nil {
			return View{}, fmt.Errorf("%s %s: %w", kind, name, err)
		}
		p.inputs |= in
		if m, ok := c.(Committer); ok {
			p.committers = append(p.committers, m)
		}
		return View{name: kind + " " + name, declared: in, shared: &p.now}, nil
	}
	for _, f := range r.Filters {
		v, err := add("filter", f.Name, f.Component)
		if err != nil {
			return nil, err
		}
		p.filterViews = append(p.filterViews, v)
	}
	for _, s := range r.Scorers {
		if !(s.Weight >= 0) || math.IsInf(s.Weight, 0) {
			return nil, fmt.Errorf("scorer %s: weight %v; it must be finite and not negative", s.Name, s.Weight)
		}
		v, err := add("scorer", s.Name, s.Scorer)
		if err != nil {
			return nil, err
		}
		p.scorerViews = append(p.scorerViews, v)
	}
	var err error
	if p.pickerView, err = add("picker", r.Picker.Name, r.Picker.Component); err != nil {
		return nil, err
	}
	if r.Chooser != nil {
		if p.chooserView, err = add("chooser", r.Picker.Name, r.Chooser); err != nil {
			return nil, err
		}
	}
	if p.inputs.Has(ExperimentalResidentBlocks) && !p.inputs.Has(Cache) {
		return nil, ErrResidentWithoutCache
	}
	return p, nil
}

// Reseed puts the random stream where a new pipeline with this seed has it, so
// that selections made to warm it up leave no trace.
func (p *Pipeline) Reseed(seed uint64) { p.pcg.Seed(seed, stream) }

// Inputs returns what the components declare, all together: what the host must
// put into State.
func (p *Pipeline) Inputs() Inputs { return p.inputs }

// Commit tells the components that the host acts on a choice.
func (p *Pipeline) Commit(r *Request, slot indexer.Slot) {
	for _, c := range p.committers {
		c.Commit(r, slot)
	}
}

// Select chooses a rank. It has no effect but on the pipeline's random stream:
// the host acts on the choice and then calls Commit. The error is a
// *ComponentError if a component broke a rule.
func (p *Pipeline) Select(r *Request, s *State) (choice Choice, err error) {
	defer func() {
		if e := recover(); e != nil {
			broken, ok := e.(*ComponentError)
			if !ok {
				panic(e)
			}
			choice, err = Choice{}, broken
		}
	}()
	if r.BlockSize <= 0 || r.PromptTokens < 0 {
		return Choice{}, fmt.Errorf("request %d: prompt of %d tokens in blocks of %d", r.ID, r.PromptTokens, r.BlockSize)
	}
	if err := p.gather(r, s); err != nil {
		return Choice{}, err
	}
	for i := range p.filterViews {
		if err := p.filter(i); err != nil {
			return Choice{}, err
		}
	}
	n := len(p.now.rows)
	row, cost := -1, 0.0
	if p.recipe.Chooser != nil && len(p.filterViews) == 0 {
		var ok bool
		if row, cost, ok = p.recipe.Chooser.Choose(&p.chooserView); ok && (row < 0 || row >= n) {
			return Choice{}, &ComponentError{p.chooserView.name, fmt.Sprintf("chose row %d of %d", row, n)}
		} else if !ok {
			row = -1
		}
	}
	if row < 0 {
		total, err := p.score(n)
		if err != nil {
			return Choice{}, err
		}
		// Pickers may overwrite the costs; the one of the row chosen is wanted.
		row = p.recipe.Picker.Component.Pick(&p.pickerView, total)
		if row < 0 || row >= n {
			return Choice{}, &ComponentError{p.pickerView.name, fmt.Sprintf("picked row %d of %d", row, n)}
		}
		cost = total[row]
	}
	choice = Choice{Slot: p.now.rows[row], Cost: cost, Candidates: n}
	if p.inputs.Has(Cache) {
		choice.Overlap = p.now.cache.Overlap[choice.Slot]
	}
	return choice, nil
}

// filter asks filter i and drops what it does not keep.
func (p *Pipeline) filter(i int) error {
	rows := p.now.rows
	if cap(p.keep) < len(rows) {
		p.keep = make([]bool, len(rows))
	}
	keep := p.keep[:len(rows)]
	for row := range keep {
		keep[row] = true
	}
	p.recipe.Filters[i].Component.Keep(&p.filterViews[i], keep)
	// In place if the rows are this request's own already: what is written lies
	// before what is yet to be read.
	kept := p.ownRows(len(rows))
	for row, slot := range rows {
		if keep[row] {
			kept = append(kept, slot)
		}
	}
	if len(kept) == len(rows) {
		return nil
	}
	if len(kept) == 0 {
		return fmt.Errorf("%w: %s drops the last %d", ErrNoCandidates, p.filterViews[i].name, len(rows))
	}
	p.some = kept
	p.now.rows, p.now.dense, p.now.epoch = kept, false, 0
	return nil
}

// score returns the weighted sums of the costs of n rows.
func (p *Pipeline) score(n int) ([]float64, error) {
	if cap(p.total) < n {
		p.total = make([]float64, n)
		p.costs = make([]float64, n)
	}
	total := p.total[:n]
	for i := range p.recipe.Scorers {
		w := &p.recipe.Scorers[i]
		// The costs of the first scorer are the sums if its weight is 1.
		costs := p.costs[:n]
		if i == 0 && w.Weight == 1 {
			costs = total
		}
		fillNaN(costs)
		w.Scorer.Score(&p.scorerViews[i], costs)
		var finite bool
		switch {
		case i > 0:
			finite = addWeighted(total, costs, w.Weight)
		case w.Weight == 1:
			finite = allFinite(total)
		default:
			clear(total)
			finite = addWeighted(total, costs, w.Weight)
		}
		if !finite {
			if err := p.notFinite(i, costs, total); err != nil {
				return nil, err
			}
		}
	}
	if len(p.recipe.Scorers) == 0 {
		clear(total)
	}
	return total, nil
}

// fillNaN sets all costs to NaN, most of them by copies, which are faster than a
// loop.
func fillNaN(costs []float64) {
	nan, done := math.NaN(), min(32, len(costs))
	for row := range costs[:done] {
		costs[row] = nan
	}
	for ; done < len(costs); done *= 2 {
		copy(costs[done:], costs[:done])
	}
}

// allFinite is true only if all numbers are finite. It may be false if their sum
// is not. Four sums do not wait for each other.
func allFinite(x []float64) bool {
	var a, b, c, d float64
	for len(x) >= 4 {
		a += x[0]
		b += x[1]
		c += x[2]
		d += x[3]
		x = x[4:]
	}
	for _, y := range x {
		a += y
	}
	a += b + c + d
	return a-a == 0
}

// addWeighted adds the weighted costs to the sums. It is true only if all that are
// sums now are finite, and may be false if the sum of these is not. The conversions
// keep compilers from fusing, so that a Chooser can come to the same sums.
func addWeighted(total, costs []float64, weight float64) bool {
	var a, b float64
	for len(total) >= 2 && len(costs) >= 2 {
		s, t := total[0]+float64(weight*costs[0]), total[1]+float64(weight*costs[1])
		total[0], total[1] = s, t
		a += s
		b += t
		total, costs = total[2:], costs[2:]
	}
	for row, c := range costs {
		total[row] += float64(weight * c)
		a += total[row]
	}
	a += b
	return a-a == 0
}

// notFinite says which cost of scorer i is not a finite number, nil if all are.
func (p *Pipeline) notFinite(i int, costs, total []float64) error {
	name := p.scorerViews[i].name
	for row, c := range costs {
		if math.IsNaN(c) || math.IsInf(c, 0) {
			return &ComponentError{name, fmt.Sprintf("gives slot %d the cost %v; every cost must be set and finite", p.now.rows[row], c)}
		}
	}
	for row, t := range total {
		if math.IsNaN(t) || math.IsInf(t, 0) {
			return &ComponentError{name, fmt.Sprintf("takes the sum of slot %d to %v", p.now.rows[row], t)}
		}
	}
	return nil
}
