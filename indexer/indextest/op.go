package indextest

import (
	"encoding/binary"
	"fmt"

	"github.com/kvbench/kvbench/indexer"
)

// OpKind says what an Op does.
type OpKind uint8

// The kinds of operations.
const (
	OpStore     OpKind = iota // blocks From … From+N-1 of the document, with their parent
	OpRemove                  // the same blocks; Flavor's low bit reverses them
	OpClear                   // all blocks of the slot
	OpReattach                // the slot is given up and taken over by another event thread
	OpOrphan                  // OpStore under a parent that nobody ever stored
	OpConflict                // OpStore of which one hash names another document's block
	OpRepeat                  // OpStore of which one hash occurs twice
	OpUnknown                 // OpRemove with a hash in the middle that nobody stored
	OpMalformed               // a Stored with too few or too many locals, or no kind at all
	OpEmpty                   // an event without blocks
	numOpKinds
)

// Op is one operation of a random history. Every value is valid: numbers beyond
// their range wrap around.
type Op struct {
	Kind OpKind
	Slot uint8 // which of testSlots
	Doc  uint8
	From uint8
	N    uint8
	// Flavor 1 and 2 store the blocks under other sequence hashes, so that
	// two hashes of a rank name one place.
	Flavor uint8
}

// opBytes is the length of a coded Op.
const opBytes = 4

// DecodeOps reads a coded history, at most 400 operations of 4 bytes. Bytes that
// are left over are ignored.
func DecodeOps(data []byte) []Op {
	var ops []Op
	for ; len(data) >= opBytes && len(ops) < 400; data = data[opBytes:] {
		v := binary.LittleEndian.Uint32(data)
		take := func(bits int) uint8 {
			low := uint8(v & (1<<bits - 1))
			v >>= bits
			return low
		}
		ops = append(ops, Op{Kind: OpKind(take(4)), Slot: take(4), Doc: take(6), From: take(5), N: take(5), Flavor: take(2)})
	}
	return ops
}

// testSlots lie at the borders of words and tables.
var testSlots = []indexer.Slot{0, 1, 2, 63, 64, 65, 127, 130, 200, 700, 5000, indexer.MaxRanks - 1}

// The documents: families of them share their first blocks, every fourth is
// four times longer, and some repeat one block.
const (
	numDocs  = 12
	docLen   = 6
	longLen  = 4 * docLen
	family   = 3 // documents with a common beginning
	noParent = indexer.SequenceHash(1) << 62
)

// world is what the operations of a history are about.
type world struct {
	docs  [][]indexer.LocalHash
	names [][]indexer.SequenceHash // by document and block
}

func newWorld() *world {
	w := &world{}
	// One name for each path. The first paths get the names 2^64-1, 0, 1 …, so
	// that the two extreme ones are in constant use.
	known := map[string]indexer.SequenceHash{}
	for d := range numDocs {
		n := docLen
		if d%4 == 3 {
			n = longLen
		}
		doc := make([]indexer.LocalHash, n)
		names := make([]indexer.SequenceHash, n)
		for i := range doc {
			doc[i] = local(d, i)
			path := fmt.Sprint(doc[:i+1])
			if _, ok := known[path]; !ok {
				known[path] = indexer.SequenceHash(len(known)) - 1
			}
			names[i] = known[path]
		}
		w.docs = append(w.docs, doc)
		w.names = append(w.names, names)
	}
	return w
}

func local(doc, i int) indexer.LocalHash {
	switch {
	case i < 1+doc%family*2:
		// Shared by the family; 0 and 2^64-1 among them.
		return indexer.LocalHash(doc/family) - 1
	case doc%5 == 0:
		return 7
	}
	return indexer.LocalHash(doc*1000 + i)
}

// step is one operation in terms of the Index contract: an event, or a detach
// and attach if reattach is set.
type step struct {
	event    indexer.Event
	reattach bool
	doc      int
}

func (w *world) step(op Op) step {
	d := int(op.Doc) % numDocs
	doc, names := w.docs[d], w.names[d]
	from := int(op.From) % len(doc)
	to := from + 1 + int(op.N)%(len(doc)-from)
	slot := testSlots[int(op.Slot)%len(testSlots)]
	variant := indexer.SequenceHash(0)
	if f := op.Flavor % 4; f == 1 || f == 2 {
		variant = indexer.SequenceHash(f) << 32
	}
	sequences := make([]indexer.SequenceHash, 0, to-from+2)
	for _, s := range names[from:to] {
		sequences = append(sequences, s^variant)
	}
	locals := append(make([]indexer.LocalHash, 0, to-from+2), doc[from:to]...)
	stored := indexer.Event{Slot: slot, Kind: indexer.Stored, Sequences: sequences, Locals: locals}
	if from > 0 {
		stored.HasParent, stored.Parent = true, names[from-1]
		// A block may hang below another name of its parent's place.
		if op.Flavor%4 == 2 {
			stored.Parent ^= variant
		}
	}
	removed := indexer.Event{Slot: slot, Kind: indexer.Removed, Sequences: sequences}
	s := step{doc: d}
	switch op.Kind % numOpKinds {
	case OpStore:
		s.event = stored
	case OpRemove:
		if op.Flavor%2 == 1 {
			for i, j := 0, len(sequences)-1; i < j; i, j = i+1, j-1 {
				sequences[i], sequences[j] = sequences[j], sequences[i]
			}
		}
		s.event = removed
	case OpClear:
		s.event = indexer.Event{Slot: slot, Kind: indexer.Cleared}
	case OpReattach:
		s.event.Slot, s.reattach = slot, true
	case OpOrphan:
		stored.HasParent, stored.Parent = true, noParent
		s.event = stored
	case OpConflict:
		other := w.names[(d+1+int(op.N))%numDocs]
		sequences[int(op.From)%len(sequences)] = other[int(op.N)%len(other)]
		s.event = stored
	case OpRepeat:
		stored.Sequences = append(sequences, sequences[int(op.N)%len(sequences)])
		stored.Locals = append(locals, locals[int(op.N)%len(locals)])
		s.event = stored
	case OpUnknown:
		sequences[len(sequences)/2] ^= 1 << 40
		s.event = removed
	case OpMalformed:
		switch op.N % 4 {
		case 0:
			stored.Locals = locals[1:]
		case 1:
			stored.Locals = append(locals, 1)
		case 2:
			stored.Sequences = nil
		case 3:
			stored.Kind = indexer.EventKind(4 * (op.Flavor % 4))
		}
		s.event = stored
	case OpEmpty:
		stored.Sequences, stored.Locals = nil, nil
		if op.Flavor%2 == 1 {
			stored.Kind = indexer.Removed
		}
		if op.Flavor%4 == 2 {
			stored.HasParent, stored.Parent = true, noParent
		}
		s.event = stored
	}
	return s
}

// queries returns what is asked after an operation on a document: the document,
// cut, extended and with another block in the middle, and two that have nothing
// to do with it.
func (w *world) queries(d, cut int) [][]indexer.LocalHash {
	doc := w.docs[d]
	cut %= len(doc)
	changed := append([]indexer.LocalHash(nil), doc...)
	changed[cut]++
	return [][]indexer.LocalHash{
		doc, doc[:cut], append(append([]indexer.LocalHash(nil), doc...), 1, 2, 3), changed,
		w.docs[(d+cut+1)%numDocs], {1 << 50, 2},
	}
}
