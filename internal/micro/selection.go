package micro

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/experimental/residency"
	"github.com/kvbench/kvbench/policies/experimental/residentblocks"
)

// SelectionOptions say what DefaultSelection measures.
type SelectionOptions struct {
	// Cases are names of SelectionCases; empty: all.
	Cases  []string
	Rounds int // measured rounds, at least 1; one more is discarded
	Seed   uint64
	Progress

	most int // bounds the selections of a metric, for tests; 0: no bound
}

var selectionCandidates = []int{8, 64, 256, 1024, 4096, 10_000}

// SelectionCases returns the names of the cases that DefaultSelection knows: the
// numbers of candidates.
func SelectionCases() []string {
	var names []string
	for _, n := range selectionCandidates {
		names = append(names, strconv.Itoa(n))
	}
	return names
}

// SelectionBase is the variant that ratios of DefaultSelection are to.
const SelectionBase = "scan"

// selectionVariant is a way to choose by the default cost, or by that and what the
// placement would evict.
type selectionVariant struct {
	name        string
	temperature float64
	scan        bool
	evictions   bool
}

var selectionVariants = []selectionVariant{
	{SelectionBase, 0, true, false},
	{"sublinear", 0, false, false},
	{"scan, temperature 0.7", 0.7, true, false},
	{"kv-resident, scan", 0, true, true},
	{"kv-resident, chooser", 0, false, true},
}

const (
	selectionPrompt    = 2048 // tokens
	selectionBlock     = 16
	selectionMatched   = 64 // ranks that hold a part of the prompt, or half of them
	selectionSharing   = 8  // of the matched ones that are active with it, or half of them
	selectionAllocated = 100
	selectionCapacity  = 16_384 // blocks of a rank
)

// CheckSelectionOptions returns what is wrong with the options.
func CheckSelectionOptions(o *SelectionOptions) error {
	if o.Rounds < 1 {
		return fmt.Errorf("%d rounds; there must be at least 1", o.Rounds)
	}
	for _, name := range o.Cases {
		if !slices.Contains(SelectionCases(), name) {
			return fmt.Errorf("no case is named %q; there are %s", name, strings.Join(SelectionCases(), ", "))
		}
	}
	return nil
}

// DefaultSelection measures how long the default KV cost takes to choose a rank:
// with temperature 0 by a scan and by policies.KVChooser, which must choose the
// same, and with temperature 0.7; and by scan and chooser with what the placement
// would evict added to the cost. It takes one CPU.
func DefaultSelection(ctx context.Context, o *SelectionOptions) (*Report, error) {
	if err := CheckSelectionOptions(o); err != nil {
		return nil, err
	}
	r := &Report{Schema: Schema, Benchmark: "default_selection", Rounds: o.Rounds}
	for _, n := range selectionCandidates {
		name := strconv.Itoa(n)
		if len(o.Cases) > 0 && !slices.Contains(o.Cases, name) {
			continue
		}
		if err := r.runSelection(ctx, o, name, n); err != nil {
			return nil, fmt.Errorf("case %s: %w", name, err)
		}
	}
	return r, nil
}

func (r *Report) runSelection(ctx context.Context, o *SelectionOptions, name string, candidates int) error {
	var selectors []*selector
	var variants []string
	for _, v := range selectionVariants {
		s, err := newSelector(candidates, v, o.Seed)
		if err != nil {
			return err
		}
		if o.most > 0 {
			s.count = min(s.count, o.most)
		}
		selectors, variants = append(selectors, s), append(variants, v.name)
	}
	s := selectors[0]
	r.Work = append(r.Work, Work{name, fmt.Sprintf("a prompt of %d tokens in blocks of %d and %d candidates, of which %d hold a part of it and %d are active with it; %d selections a round",
		selectionPrompt, selectionBlock, candidates, len(s.cache.touched), s.sharing, s.count)})
	sums := map[string]uint64{} // of the slots that the scan chose, by metric
	return r.run(ctx, &o.Progress, name, variants, func(i int) ([]metric, error) {
		metrics, chosen, err := selectors[i].measure()
		if err != nil {
			return nil, err
		}
		// Streams of the same seed: the variants of one cost and temperature 0 choose
		// the same.
		if v := selectionVariants[i]; v.temperature == 0 {
			for k, m := range metrics {
				round := fmt.Sprint(m.name, v.evictions, selectors[i].rounds)
				if other, known := sums[round]; known && other != chosen[k] {
					return nil, fmt.Errorf("%s: it chose other ranks than another variant", m.name)
				}
				sums[round] = chosen[k]
			}
		}
		return metrics, nil
	})
}

// matched is the answer of an index.
type matched struct {
	scores  []uint32
	touched []indexer.Slot
}

func (m *matched) Scores() []uint32        { return m.scores }
func (m *matched) Touched() []indexer.Slot { return m.touched }

// selector is one variant of one case, with a router's state of its own.
type selector struct {
	pipeline *policies.Pipeline
	state    policies.State
	load     *policies.ActiveLoad
	cache    matched
	request  policies.Request
	sharing  int
	nextID   uint64 // of requests that come and go
	oldest   uint64
	rounds   int
	count    int // selections that a metric is of
}

// recipe is the policy.
func (v *selectionVariant) recipe() (policies.Recipe, error) {
	p := policies.DefaultKVParams()
	r, err := policies.KVRecipe(p, v.temperature, policies.ScaleMinMax)
	if err != nil {
		return r, err
	}
	if v.evictions {
		evictions := func() *residency.Evictions { return residency.NewEvictions(false, math.Inf(1)) }
		r.Scorers = append(r.Scorers, policies.Weighted{Name: "evictions", Scorer: evictions(), Weight: 1})
		if r.Chooser, err = policies.NewKVSurchargeChooser(p, evictions(), 1); err != nil {
			return r, err
		}
	}
	if v.scan {
		r.Chooser = nil
	} else if r.Chooser == nil {
		return r, errors.New("the policy has no chooser")
	}
	return r, nil
}

// newSelector makes the state: every rank has four requests of 1 to 4096 tokens,
// one of which waits for its first token, and every other rank a cache that is full
// but for less than 64 blocks. The others have room.
func newSelector(candidates int, v selectionVariant, seed uint64) (*selector, error) {
	recipe, err := v.recipe()
	if err != nil {
		return nil, err
	}
	s := &selector{load: policies.NewActiveLoad(candidates, 5*candidates), count: min(max(4_000_000/candidates, 1000), 20_000)}
	if s.pipeline, err = policies.NewPipeline(recipe, seed); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, uint64(candidates)))
	for slot := range candidates {
		for i := range 4 {
			s.nextID++
			r := policies.Request{ID: s.nextID, PromptTokens: 1 + rng.IntN(4096), BlockSize: selectionBlock}
			if err := s.load.Dispatch(&r, indexer.Slot(slot), 0); err != nil {
				return nil, err
			}
			if i > 0 {
				s.load.FirstToken(r.ID)
			}
		}
	}
	s.request = policies.Request{PromptTokens: selectionPrompt, BlockSize: selectionBlock}
	for i := range selectionPrompt / selectionBlock {
		s.request.Locals = append(s.request.Locals, indexer.LocalHash(i))
	}
	s.cache.scores = make([]uint32, candidates)
	holders := rng.Perm(candidates)[:min(selectionMatched, candidates/2)]
	for _, slot := range holders {
		s.cache.scores[slot] = uint32(1 + rng.IntN(len(s.request.Locals)))
		s.cache.touched = append(s.cache.touched, indexer.Slot(slot))
	}
	for _, slot := range holders[:min(selectionSharing, len(holders)/2)] {
		s.nextID++
		n := int(s.cache.scores[slot])
		r := policies.Request{ID: s.nextID, PromptTokens: n * selectionBlock, BlockSize: selectionBlock, Locals: s.request.Locals[:n]}
		if err := s.load.Dispatch(&r, indexer.Slot(slot), r.PromptTokens); err != nil {
			return nil, err
		}
		s.load.FirstToken(r.ID)
		s.sharing++
	}
	s.oldest = s.nextID + 1
	s.state = policies.State{Slots: candidates, Load: s.load, Cache: &s.cache}
	if v.evictions {
		threads := make([]int, candidates)
		for slot := range threads {
			threads[slot] = slot % residentThreads
		}
		counters := indexer.NewResidentCounters(threads, indexer.Packed)
		s.state.ResidentBlocks = residentblocks.NewFeed(counters, nil, slog.New(slog.DiscardHandler)).Reader()
		for slot := range threads {
			s.state.CapacityBlocks = append(s.state.CapacityBlocks, selectionCapacity)
			resident := selectionCapacity / 2
			if slot%2 == 0 {
				resident = selectionCapacity - rng.IntN(64)
			}
			counters.Store(indexer.Slot(slot), uint32(resident))
		}
	}
	return s, nil
}

// measure returns the metrics of a round and, for each, a sum of the slots chosen.
func (s *selector) measure() (metrics []metric, chosen []uint64, err error) {
	s.rounds++
	add := func(name, unit string, value float64, sum uint64) {
		metrics, chosen = append(metrics, metric{name, unit, false, value}), append(chosen, sum)
	}
	// The selections that find what the measured ones will.
	if _, err := s.selections(2); err != nil {
		return nil, nil, err
	}
	var sum uint64
	allocated, err := leastAllocated(func() (err error) {
		sum, err = s.selections(selectionAllocated)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	n := s.count
	start := time.Now()
	many, err := s.selections(n)
	took := time.Since(start)
	if err != nil {
		return nil, nil, err
	}
	per := float64(took.Nanoseconds()) / float64(n)
	add("selection", "ns", per, many)
	add("selection, a candidate", "ns", per/float64(s.state.Slots), many)

	start = time.Now()
	many, err = s.served(n)
	took = time.Since(start)
	if err != nil {
		return nil, nil, err
	}
	add("selection, dispatch and end of a request", "ns", float64(took.Nanoseconds())/float64(n), many)
	add("allocations", fmt.Sprintf("per %d selections", selectionAllocated), float64(allocated), sum)
	return metrics, chosen, nil
}

// leastAllocated returns how many objects f allocates. The count is that of the whole
// process, in which others may allocate now and then, the runtime itself 7 for every
// thread that it starts: the least of three calls is that of f.
func leastAllocated(f func() error) (uint64, error) {
	least := uint64(math.MaxUint64)
	for range 3 {
		before := mallocs()
		if err := f(); err != nil {
			return 0, err
		}
		least = min(least, mallocs()-before)
	}
	return least, nil
}

// selections selects n times, while nothing changes.
func (s *selector) selections(n int) (sum uint64, err error) {
	for range n {
		c, err := s.pipeline.Select(&s.request, &s.state)
		if err != nil {
			return 0, err
		}
		sum = sum*31 + uint64(c.Slot)
	}
	return sum, nil
}

// served selects n times, each time dispatches a request of as many tokens to the
// rank chosen, and lets the oldest of as many as there are ranks end.
func (s *selector) served(n int) (sum uint64, err error) {
	booked := policies.Request{PromptTokens: selectionPrompt, BlockSize: selectionBlock}
	for range n {
		c, err := s.pipeline.Select(&s.request, &s.state)
		if err != nil {
			return 0, err
		}
		sum = sum*31 + uint64(c.Slot)
		s.nextID++
		booked.ID = s.nextID
		if err := s.load.Dispatch(&booked, c.Slot, int(c.Overlap)*selectionBlock); err != nil {
			return 0, err
		}
		if s.nextID-s.oldest >= uint64(s.state.Slots) {
			s.load.Finish(s.oldest)
			s.oldest++
		}
	}
	return sum, nil
}
