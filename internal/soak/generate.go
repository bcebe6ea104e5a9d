package soak

import (
	"math/rand/v2"
	"slices"

	"github.com/kvbench/kvbench/indexer"
)

const (
	documents = 64     // documents in use at one time
	rankCap   = 3000   // blocks that a rank is let have before it loses the oldest
	hugeEvent = 10_000 // blocks of the largest documents
	maxHash   = 1<<64 - 1
	// nobody is a sequence hash that no document has.
	nobody = indexer.SequenceHash(1) << 62
	// alien is a local hash that no document has.
	alien = indexer.LocalHash(1)<<61 + 1
)

// document is a prompt: its blocks, and the engines' names of them.
type document struct {
	locals []indexer.LocalHash
	names  []indexer.SequenceHash
}

// batch is what one Stored event gave a rank.
type batch struct {
	doc   *document
	from  int
	names []indexer.SequenceHash
}

// engine is what the generator knows of a rank. It is not the truth: events that
// are rejected and names that are stored twice are in it.
type engine struct {
	present bool
	life    int
	batches []batch // oldest first
	blocks  int
}

// generator makes the operations of a soak.
type generator struct {
	rng      *rand.Rand
	engines  []engine
	docs     []*document
	made     uint64 // documents
	families [][]indexer.LocalHash
	round    int
}

func newGenerator(seed uint64, ranks int) *generator {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 0x736f616b)), engines: make([]engine, ranks)}
	for range 8 {
		g.families = append(g.families, nil)
	}
	for range documents {
		g.docs = append(g.docs, g.document())
	}
	return g
}

// mix is a step of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// one reports true once in n calls.
func (g *generator) one(n int) bool { return g.rng.IntN(n) == 0 }

func (g *generator) document() *document {
	g.made++
	f := g.rng.IntN(len(g.families))
	if g.families[f] == nil || g.one(40) {
		g.families[f] = g.locals(1 + g.rng.IntN(60))
	}
	own := 1 + g.rng.IntN(120)
	switch {
	case g.one(8):
		own = 1
	case g.one(200):
		own = 2000
	}
	return g.named(slices.Concat(g.families[f], g.locals(own)))
}

// named gives a path its names: equal beginnings have equal names.
func (g *generator) named(path []indexer.LocalHash) *document {
	d := &document{locals: path, names: make([]indexer.SequenceHash, len(path))}
	name := uint64(1)
	for i, l := range path {
		name = mix(name ^ mix(uint64(l)))
		d.names[i] = indexer.SequenceHash(name &^ (3 << 61))
	}
	// The two extreme names are in constant use.
	switch g.made % 6 {
	case 0:
		d.names[len(d.names)-1] = 0
	case 3:
		d.names[len(d.names)-1] = maxHash
	}
	return d
}

func (g *generator) locals(n int) []indexer.LocalHash {
	l := make([]indexer.LocalHash, n)
	same := g.one(10)
	for i := range l {
		switch {
		case same:
			l[i] = 7
		case g.one(50):
			l[i] = indexer.LocalHash(g.rng.IntN(3) - 1)
		default:
			l[i] = indexer.LocalHash(g.rng.Uint64() &^ (1 << 61))
		}
	}
	if same {
		l[0] = indexer.LocalHash(g.rng.Uint64() &^ (1 << 61))
	}
	return l
}

// quiet reports whether a rank has no operation in the coming round.
func (g *generator) quiet(rank int) bool {
	return len(g.engines) > 1 && (rank+g.round)%4 == 0
}

// next appends the operations of one round to ops.
func (g *generator) next(ops []op, n int) []op {
	for len(ops) < n {
		rank := g.rng.IntN(len(g.engines))
		if g.quiet(rank) {
			continue
		}
		o, ok := g.op(rank)
		if ok {
			ops = append(ops, o)
		}
	}
	g.round++
	return ops
}

func (g *generator) op(rank int) (op, bool) {
	e := &g.engines[rank]
	if !e.present {
		// It stays away for a while.
		if e.life > 0 && !g.one(20) {
			return op{}, false
		}
		e.present = true
		return op{do: register, rank: rank, life: e.life}, true
	}
	if g.one(700) {
		o := op{do: unregister, rank: rank, life: e.life}
		*e = engine{life: e.life + 1}
		return o, true
	}
	return op{do: apply, rank: rank, life: e.life, event: g.event(e)}, true
}

func (g *generator) event(e *engine) indexer.Event {
	if g.one(500) {
		e.batches, e.blocks = nil, 0
		return indexer.Event{Kind: indexer.Cleared}
	}
	if e.blocks > rankCap {
		return g.evict(e)
	}
	if g.one(3) {
		i := g.rng.IntN(len(g.docs))
		g.docs[i] = g.document()
	}
	// Some documents are asked for by many ranks.
	d := g.docs[min(g.rng.IntN(documents), g.rng.IntN(documents))]
	switch k := g.rng.IntN(100); {
	case k < 50:
		return g.store(e, d, 0, len(d.names))
	case k < 62: // a part, be its parent there or not
		from := g.rng.IntN(len(d.names))
		return g.store(e, d, from, from+1+g.rng.IntN(len(d.names)-from))
	case k < 70 && len(e.batches) > 0: // one block after what is there
		b := e.batches[g.rng.IntN(len(e.batches))]
		if end := b.from + len(b.names); end < len(b.doc.names) {
			return g.store(e, b.doc, end, end+1)
		}
		return g.store(e, b.doc, b.from, b.from+1)
	case k < 84 && len(e.batches) > 0:
		return g.hole(e)
	case k < 88:
		return g.alias(e, d)
	case k < 90:
		ev := stored(d, 0, len(d.names))
		ev.HasParent, ev.Parent = true, nobody
		return ev
	case k < 92:
		return g.conflict(e, d)
	case k < 94: // a name twice
		ev := stored(d, 0, len(d.names))
		again := g.rng.IntN(len(d.names))
		ev.Sequences = append(slices.Clone(ev.Sequences), d.names[again])
		ev.Locals = append(slices.Clone(ev.Locals), d.locals[again])
		return ev
	case k < 96:
		return indexer.Event{Kind: indexer.Removed, Sequences: []indexer.SequenceHash{nobody, d.names[0], nobody + 1, d.names[len(d.names)-1]}}
	case k < 97:
		return g.malformed(d)
	case k < 98:
		if g.one(2) {
			return indexer.Event{Kind: indexer.Removed}
		}
		return indexer.Event{Kind: indexer.Stored, HasParent: g.one(2), Parent: nobody}
	}
	if g.one(20) {
		big := g.named(g.locals(hugeEvent))
		return g.store(e, big, 0, hugeEvent)
	}
	// What a rank lost in the middle comes back.
	if len(e.batches) > 0 {
		b := e.batches[g.rng.IntN(len(e.batches))]
		return g.store(e, b.doc, b.from, b.from+len(b.names))
	}
	return g.store(e, d, 0, 1)
}

func stored(d *document, from, to int) indexer.Event {
	ev := indexer.Event{Kind: indexer.Stored, Sequences: d.names[from:to:to], Locals: d.locals[from:to:to]}
	if from > 0 {
		ev.HasParent, ev.Parent = true, d.names[from-1]
	}
	return ev
}

func (g *generator) store(e *engine, d *document, from, to int) indexer.Event {
	ev := stored(d, from, to)
	e.add(batch{doc: d, from: from, names: ev.Sequences})
	return ev
}

func (e *engine) add(b batch) {
	e.batches = append(e.batches, b)
	e.blocks += len(b.names)
}

// evict removes what one of the oldest events stored.
func (g *generator) evict(e *engine) indexer.Event {
	i := min(g.rng.IntN(4), len(e.batches)-1)
	names := slices.Clone(e.batches[i].names)
	e.batches = slices.Delete(e.batches, i, i+1)
	e.blocks -= len(names)
	switch g.rng.IntN(4) {
	case 0:
		slices.Reverse(names)
	case 1:
		g.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	case 2:
		names = append(names, nobody)
	}
	return indexer.Event{Kind: indexer.Removed, Sequences: names}
}

// hole removes a part of what an event stored.
func (g *generator) hole(e *engine) indexer.Event {
	b := e.batches[g.rng.IntN(len(e.batches))]
	names := b.names
	from := g.rng.IntN(len(names))
	to := from + 1 + g.rng.IntN(min(len(names)-from, 1+g.rng.IntN(8)))
	return indexer.Event{Kind: indexer.Removed, Sequences: names[from:to:to]}
}

// alias stores blocks under other names.
func (g *generator) alias(e *engine, d *document) indexer.Event {
	from := g.rng.IntN(len(d.names))
	ev := stored(d, from, len(d.names))
	ev.Sequences = slices.Clone(ev.Sequences)
	for i := range ev.Sequences {
		ev.Sequences[i] ^= 1 << 61
	}
	if from > 0 && g.one(2) {
		ev.Parent ^= 1 << 61
	}
	// Its continuation hangs below the names that the document has.
	e.add(batch{doc: d, from: from, names: ev.Sequences})
	return ev
}

// conflict stores blocks of which one has the name of another document's block.
func (g *generator) conflict(e *engine, d *document) indexer.Event {
	other := g.docs[g.rng.IntN(len(g.docs))]
	ev := stored(d, 0, len(d.names))
	ev.Sequences = slices.Clone(ev.Sequences)
	ev.Sequences[g.rng.IntN(len(ev.Sequences))] = other.names[g.rng.IntN(len(other.names))]
	// It is no conflict if the rank does not hold the other; then it counts.
	e.add(batch{doc: d, names: ev.Sequences})
	return ev
}

func (g *generator) malformed(d *document) indexer.Event {
	ev := stored(d, 0, len(d.names))
	switch g.rng.IntN(4) {
	case 0:
		ev.Locals = ev.Locals[1:]
	case 1:
		ev.Locals = append(slices.Clone(ev.Locals), 1)
	case 2:
		ev.Sequences = nil
	case 3:
		ev.Kind = indexer.EventKind(4 * g.rng.IntN(60))
	}
	return ev
}

// question is a query and the deepest answer that there may be.
type question struct {
	query []indexer.LocalHash
	limit int
}

// questions are about the documents in use: whole, cut, with another block in the
// middle, extended. Their choice does not change the operations.
func (g *generator) questions(rng *rand.Rand, n int) []question {
	qs := make([]question, 0, n)
	for len(qs) < n {
		path := g.docs[rng.IntN(len(g.docs))].locals
		if e := &g.engines[rng.IntN(len(g.engines))]; len(e.batches) > 0 && rng.IntN(3) > 0 {
			path = e.batches[rng.IntN(len(e.batches))].doc.locals
		}
		cut := rng.IntN(len(path))
		switch rng.IntN(6) {
		case 0:
			qs = append(qs, question{path[:cut], cut})
		case 1:
			changed := slices.Clone(path)
			changed[cut] = alien
			qs = append(qs, question{changed, cut})
		case 2:
			qs = append(qs, question{append(slices.Clone(path), alien, 1, 2), len(path)})
		default:
			qs = append(qs, question{path, len(path)})
		}
	}
	return qs
}
