package policies

import (
	"fmt"
	"slices"

	"github.com/kvbench/kvbench/indexer"
)

// gather fills the selection: the rows that are eligible and the columns of the
// declared inputs.
func (p *Pipeline) gather(r *Request, s *State) error {
	now := &p.now
	now.request, now.state = r, s
	if err := p.checkState(s); err != nil {
		return err
	}
	if err := p.eligible(r, s); err != nil {
		return err
	}
	if p.inputs.Has(Cache) {
		now.cache = CacheColumns{}
		if s.Cache != nil {
			now.cache.Overlap, now.cache.Touched = s.Cache.Scores(), s.Cache.Touched()
		}
		if len(now.cache.Overlap) < s.Slots {
			p.overlap = slices.Grow(p.overlap[:0], s.Slots)[:s.Slots]
			clear(p.overlap[copy(p.overlap, now.cache.Overlap):])
			now.cache.Overlap = p.overlap
		}
	}
	if p.inputs.Has(Load) {
		s.Load.columns(r, &now.load)
	}
	if p.inputs.Has(Session) {
		now.session = s.Sessions.lookUp(r)
	}
	if p.inputs.Has(ExperimentalResidentBlocks) {
		s.ResidentBlocks.Begin()
	}
	return nil
}

// checkState returns an error if the host did not give what was declared.
func (p *Pipeline) checkState(s *State) error {
	column := func(in Inputs, length int) error {
		if p.inputs.Has(in) && length != s.Slots {
			return fmt.Errorf("%v has %d values for %d slots", in, length, s.Slots)
		}
		return nil
	}
	if err := column(Capacity, len(s.CapacityBlocks)); err != nil {
		return err
	}
	if err := column(Tags, len(s.RankTags)); err != nil {
		return err
	}
	if p.inputs.Has(Load) {
		if s.Load == nil {
			return fmt.Errorf("%v is declared and not given", Load)
		}
		if err := column(Load, s.Load.Slots()); err != nil {
			return err
		}
	}
	if p.inputs.Has(Session) && s.Sessions == nil {
		return fmt.Errorf("%v is declared and not given", Session)
	}
	if p.inputs.Has(ExperimentalResidentBlocks) && s.ResidentBlocks == nil {
		return fmt.Errorf("%v is declared and not given", ExperimentalResidentBlocks)
	}
	if s.Dead != nil && len(s.Dead) != s.Slots || s.Overloaded != nil && len(s.Overloaded) != s.Slots {
		return fmt.Errorf("eligibility has %d and %d values for %d slots", len(s.Dead), len(s.Overloaded), s.Slots)
	}
	return nil
}

// eligible sets the rows to the ranks that may serve the request.
func (p *Pipeline) eligible(r *Request, s *State) error {
	if !p.allMade || p.allFrom != s.Version || p.allSlots != s.Slots {
		p.all = slices.Grow(p.all[:0], s.Slots)
		for slot := range indexer.Slot(s.Slots) {
			if !s.dead(slot) && !s.overloaded(slot) {
				p.all = append(p.all, slot)
			}
		}
		p.allMade, p.allFrom, p.allSlots = true, s.Version, s.Slots
		p.allDense = len(p.all) == s.Slots
		p.epoch++
	}
	now := &p.now
	if r.HasPin {
		switch {
		case int(r.Pinned) >= s.Slots || s.dead(r.Pinned):
			return fmt.Errorf("%w: slot %d has no live rank", ErrPinned, r.Pinned)
		case r.Allowed != nil && !slices.Contains(r.Allowed, r.Pinned):
			return fmt.Errorf("%w: slot %d is not among those allowed", ErrPinned, r.Pinned)
		case !s.hasTags(r.Pinned, r.RequiredTags):
			return fmt.Errorf("%w: slot %d lacks a required tag", ErrPinned, r.Pinned)
		case s.overloaded(r.Pinned):
			return fmt.Errorf("%w: slot %d: %w", ErrPinned, r.Pinned, ErrOverloaded)
		}
		p.some = append(p.ownRows(1), r.Pinned)
		now.rows, now.dense, now.epoch = p.some, false, 0
		return nil
	}
	if r.Allowed == nil && r.RequiredTags == 0 {
		if len(p.all) == 0 {
			return s.nobody(nil, 0)
		}
		now.rows, now.dense, now.epoch = p.all, p.allDense, p.epoch
		return nil
	}
	some := p.ownRows(s.Slots)
	if r.Allowed == nil {
		for _, slot := range p.all {
			if s.hasTags(slot, r.RequiredTags) {
				some = append(some, slot)
			}
		}
	} else {
		for _, slot := range r.Allowed {
			if int(slot) < s.Slots && !s.dead(slot) && !s.overloaded(slot) && s.hasTags(slot, r.RequiredTags) {
				some = append(some, slot)
			}
		}
		slices.Sort(some)
		some = slices.Compact(some)
	}
	p.some = some
	if len(some) == 0 {
		return s.nobody(r.Allowed, r.RequiredTags)
	}
	now.rows, now.dense, now.epoch = some, false, 0
	return nil
}

// ownRows returns the empty list for rows of this request alone, with room for n.
func (p *Pipeline) ownRows(n int) []indexer.Slot {
	p.some = slices.Grow(p.some[:0], n)
	return p.some
}

func (s *State) dead(slot indexer.Slot) bool { return s.Dead != nil && s.Dead[slot] }

func (s *State) overloaded(slot indexer.Slot) bool {
	return s.Overloaded != nil && s.Overloaded[slot]
}

// hasTags says whether the rank has all the tags; without a column no rank has any.
func (s *State) hasTags(slot indexer.Slot, tags TagSet) bool {
	if tags == 0 {
		return true
	}
	return int(slot) < len(s.RankTags) && s.RankTags[slot]&tags == tags
}

// nobody says why there is no candidate.
func (s *State) nobody(allowed []indexer.Slot, tags TagSet) error {
	live, overloaded := 0, 0
	for slot := range indexer.Slot(s.Slots) {
		if s.dead(slot) || !s.hasTags(slot, tags) || allowed != nil && !slices.Contains(allowed, slot) {
			continue
		}
		live++
		if s.overloaded(slot) {
			overloaded++
		}
	}
	if live > 0 && live == overloaded {
		return fmt.Errorf("%w: %d of %d ranks", ErrOverloaded, overloaded, s.Slots)
	}
	return fmt.Errorf("%w: none of %d slots is live, allowed and has the required tags", ErrNoCandidates, s.Slots)
}
