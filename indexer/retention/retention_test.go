package retention

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/catalogue"
	"github.com/kvbench/kvbench/indexer/reference"
)

// op is one call. Every value is valid: numbers beyond their range wrap around.
type op struct {
	Kind uint8
	Doc  uint8 // its bits are the blocks
	Len  uint8 // blocks, up to 8
	Arg  uint8 // time that passes; lease; private blocks
}

func (o op) blocks() []indexer.LocalHash {
	blocks := make([]indexer.LocalHash, o.Len%9)
	for i := range blocks {
		blocks[i] = indexer.LocalHash(0) - indexer.LocalHash(o.Doc>>i&1)
	}
	return blocks
}

// weak makes collisions common.
func weak(a, b uint64) uint64 { return mix(a, b) & 31 }

func mixer(isWeak bool) func(a, b uint64) uint64 {
	if isWeak {
		return weak
	}
	return mix
}

// sink reads events the way an index does: it puts them in words and applies
// them to one.
type sink struct {
	paths  map[indexer.SequenceHash][]indexer.LocalHash
	log    []string
	last   int64
	events uint64
	index  indexer.Index
	writer indexer.Writer
	reader indexer.Reader
	answer indexer.Answer
	err    error
}

const testSlot = 5

func newSink(f indexer.Factory) (*sink, error) {
	x, err := f.New(indexer.Config{Threads: 1, Slots: 8})
	if err != nil {
		return nil, err
	}
	s := &sink{paths: map[indexer.SequenceHash][]indexer.LocalHash{}, last: math.MinInt64, index: x, writer: x.Writer(0), reader: x.Reader()}
	s.writer.Attach(testSlot)
	return s, nil
}

func (s *sink) close() error {
	s.reader.Close()
	return s.index.Close()
}

func (s *sink) fail(format string, args ...any) {
	s.err = errors.Join(s.err, fmt.Errorf(format, args...))
}

func (s *sink) emit(at int64, ev *indexer.Event) {
	if at < s.last || ev.ID != s.events || ev.Slot != testSlot {
		s.fail("event %d of slot %d at %d, after %d events and %d", ev.ID, ev.Slot, at, s.events, s.last)
	}
	s.last = at
	s.events++
	e := s.writer.Apply(ev)
	n := uint32(len(ev.Sequences))
	var want indexer.Effect
	switch ev.Kind {
	case indexer.Stored:
		want.Stored = n
		var path []indexer.LocalHash
		if ev.HasParent {
			path = s.paths[ev.Parent]
		}
		s.log = append(s.log, storedText(at, slices.Concat(path, ev.Locals), len(path)))
		for i, name := range ev.Sequences {
			path = append(slices.Clone(path), ev.Locals[i])
			s.paths[name] = path
		}
	case indexer.Removed:
		want.Removed = n
		var gone []string
		for _, name := range ev.Sequences {
			gone = append(gone, pathOf(s.paths[name]))
			for other, path := range s.paths {
				if len(path) > len(s.paths[name]) && slices.Equal(path[:len(s.paths[name])], s.paths[name]) {
					s.fail("%v goes before %v (%d)", s.paths[name], path, other)
				}
			}
			delete(s.paths, name)
		}
		s.log = append(s.log, removedText(at, gone))
	case indexer.Cleared:
		want.ClearedBlocks = uint32(len(s.paths))
		clear(s.paths)
		s.log = append(s.log, clearedText(at))
	}
	if e != want || n == 0 && ev.Kind != indexer.Cleared {
		s.fail("the index says %+v of event %+v", e, *ev)
	}
}

// score asks the index for a prompt.
func (s *sink) score(prompt []indexer.LocalHash) int {
	s.reader.Find(prompt, indexer.FindOptions{}, &s.answer)
	return int(s.answer.Score(testSlot))
}

// compare compares a machine with what it emitted and what the naive one says.
func (s *sink) compare(want []string, blocks int, check error) error {
	switch {
	case s.err != nil:
		return s.err
	case !slices.Equal(s.log, want):
		return fmt.Errorf("events\n%q\nwant\n%q", s.log, want)
	case check != nil:
		return check
	case blocks != len(s.paths) || s.writer.Blocks(testSlot) != blocks:
		return fmt.Errorf("%d blocks, the events leave %d, the index has %d", blocks, len(s.paths), s.writer.Blocks(testSlot))
	}
	return nil
}

// runTTL plays ops on a TTL machine, a naive one and an index.
func runTTL(f indexer.Factory, ops []op, isWeak bool) (st Stats, err error) {
	s, err := newSink(f)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	const ttl = 250 * time.Millisecond
	r, err := NewTTL(testSlot, ttl, s.emit)
	if err != nil {
		return st, err
	}
	r.places.mix = mixer(isWeak)
	n := &naiveTTL{mix: r.places.mix, ttl: int64(ttl), now: math.MinInt64, blocks: map[string]*naiveTimer{}}
	now := int64(-1e9)
	for i, o := range ops {
		// Steps of 0 to 150 ms, now and then back.
		now += int64(o.Arg%16) * 1e7
		if o.Arg > 250 {
			now -= 3e7
		}
		switch o.Kind % 8 {
		case 0:
			r.Advance(now)
			n.advance(now)
		case 1:
			if o.Len > 200 {
				r.Clear(now)
				n.clear(now)
			} else if at, ok := r.Next(); ok {
				now = max(now, at)
				r.Advance(at)
				n.advance(at)
			}
		case 2:
			if o.Len > 240 {
				now = math.MaxInt64 - int64(o.Doc)*1e8
			}
			fallthrough
		default:
			prompt := o.blocks()
			r.Advance(now)
			score := s.score(prompt)
			got, want := r.Route(now, prompt), n.route(now, prompt)
			if got != want || got != score {
				return st, fmt.Errorf("call %d: %d blocks were held, want %d; the index had %d", i, got, want, score)
			}
		}
		if err := s.compare(n.log, r.Blocks(), r.Check()); err != nil {
			return st, fmt.Errorf("call %d (%+v): %w", i, o, err)
		}
		if at, ok := r.Next(); ok != slices.ContainsFunc(slices.Collect(maps.Values(n.blocks)), func(b *naiveTimer) bool { return b.expiry != math.MaxInt64 }) || ok && at <= r.now {
			return st, fmt.Errorf("call %d: next is %d, %v", i, at, ok)
		}
	}
	if r.Stats().Collisions != n.collisions || r.Stats().Decisions != int64(n.decisions) {
		return st, fmt.Errorf("stats %+v, want %d collisions in %d decisions", r.Stats(), n.collisions, n.decisions)
	}
	return r.Stats(), nil
}

// runLRU plays ops on an LRU machine, a naive one and an index.
func runLRU(f indexer.Factory, capacity int, ops []op, isWeak bool) (st Stats, err error) {
	s, err := newSink(f)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r, err := NewLRU(testSlot, capacity, s.emit)
	if err != nil {
		return st, err
	}
	r.places.mix = mixer(isWeak)
	n := &naiveLRU{mix: r.places.mix, capacity: capacity, now: math.MinInt64}
	var leases []Lease
	now := int64(0)
	for i, o := range ops {
		now++
		got, want := true, true
		switch kind := o.Kind % 8; {
		case kind < 3 || len(leases) == 0:
			prompt := o.blocks()
			score := s.score(prompt)
			private := int(o.Arg % 3)
			l, held := r.Acquire(now, prompt, private)
			if want := n.acquire(now, prompt, private); held != want || held != score || slices.Contains(leases, l) || l == 0 {
				return st, fmt.Errorf("call %d: lease %x, %d blocks were held, want %d; the index had %d", i, l, held, want, score)
			}
			leases = append(leases, l)
		case kind < 5:
			k := int(o.Arg) % len(leases)
			got = r.Materialize(now, leases[k], o.blocks(), int(o.Arg%2))
			want = n.materialize(now, k, o.blocks(), int(o.Arg%2))
		case kind < 7 || o.Arg < 200:
			k := int(o.Arg) % len(leases)
			got, want = r.Release(now, leases[k]), n.release(now, k)
		default:
			r.Clear(now)
			n.clear(now)
		}
		if got != want || r.InUse() != n.inUse() {
			return st, fmt.Errorf("call %d (%+v): %v with %d in use, want %v with %d", i, o, got, r.InUse(), want, n.inUse())
		}
		if err := s.compare(n.log, r.Blocks(), r.Check()); err != nil {
			return st, fmt.Errorf("call %d (%+v): %w", i, o, err)
		}
	}
	st = r.Stats()
	if st.Collisions != n.collisions || st.OverCapacity != n.over || st.PeakOver != n.peakOver || st.Ignored != n.ignored {
		return st, fmt.Errorf("stats %+v, want %d collisions, %d over by up to %d, %d ignored", st, n.collisions, n.over, n.peakOver, n.ignored)
	}
	return st, nil
}

// drawByte draws all values equally often; rapid's own numbers are mostly small.
var drawByte = rapid.Custom(func(t *rapid.T) uint8 {
	v := uint8(0)
	for range 8 {
		v *= 2
		if rapid.Bool().Draw(t, "bit") {
			v++
		}
	}
	return v
})

func drawOps(t *rapid.T) []op {
	drawOp := rapid.Custom(func(t *rapid.T) op {
		return op{drawByte.Draw(t, "kind"), drawByte.Draw(t, "doc"), drawByte.Draw(t, "len"), drawByte.Draw(t, "arg")}
	})
	return rapid.SliceOfN(drawOp, rapid.IntRange(1, 80).Draw(t, "at least"), 100).Draw(t, "ops")
}

func TestTTLAgainstNaive(t *testing.T) {
	var sum Stats
	rapid.Check(t, func(t *rapid.T) {
		ops, isWeak := drawOps(t), rapid.Bool().Draw(t, "weak names")
		st, err := runTTL(reference.Factory(), ops, isWeak)
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(st)
	})
	if sum.Predicted == 0 || sum.Stored == 0 || sum.Removed == 0 || sum.Collisions == 0 {
		t.Errorf("%+v: this shows too little", sum)
	}
}

func TestLRUAgainstNaive(t *testing.T) {
	var sum Stats
	rapid.Check(t, func(t *rapid.T) {
		ops, isWeak := drawOps(t), rapid.Bool().Draw(t, "weak names")
		capacity := rapid.IntRange(1, 40).Draw(t, "capacity")
		st, err := runLRU(reference.Factory(), capacity, ops, isWeak)
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(st)
	})
	if sum.Predicted == 0 || sum.Output == 0 || sum.Removed == 0 || sum.Collisions == 0 || sum.OverCapacity == 0 || sum.Ignored == 0 {
		t.Errorf("%+v: this shows too little", sum)
	}
}

// randomOps is a long history.
func randomOps(n int) []op {
	random := rand.New(rand.NewPCG(1, 2))
	ops := make([]op, n)
	for i := range ops {
		v := random.Uint32()
		ops[i] = op{uint8(v), uint8(v >> 8), uint8(v >> 16), uint8(v >> 24)}
	}
	return ops
}

// Every index that answers takes the events without any anomaly and answers what
// the machines say.
func TestOnEveryIndex(t *testing.T) {
	for _, f := range catalogue.All() {
		if f.Null {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			if _, err := runTTL(f, randomOps(300), false); err != nil {
				t.Error("TTL:", err)
			}
			if _, err := runLRU(f, 20, randomOps(300), false); err != nil {
				t.Error("LRU:", err)
			}
		})
	}
}

func decode(data []byte) []op {
	var ops []op
	for ; len(data) >= 4 && len(ops) < 200; data = data[4:] {
		v := binary.LittleEndian.Uint32(data)
		ops = append(ops, op{uint8(v), uint8(v >> 8), uint8(v >> 16), uint8(v >> 24)})
	}
	return ops
}

func FuzzTTL(f *testing.F) {
	f.Add(false, []byte("\x03\x01\x04\x05\x03\x02\x08\x0f\x00\x00\x00\x0f"))
	f.Add(true, []byte("\x03\xff\x08\x00\x03\x00\x08\x00\x01\x00\xff\x00"))
	f.Fuzz(func(t *testing.T, isWeak bool, data []byte) {
		if _, err := runTTL(reference.Factory(), decode(data), isWeak); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzLRU(f *testing.F) {
	f.Add(false, uint8(3), []byte("\x00\x01\x04\x01\x00\x02\x08\x00\x05\x00\x00\x00\x03\x03\x02\x01"))
	f.Add(true, uint8(9), []byte("\x00\xff\x08\x00\x00\x00\x08\x00\x03\x00\x08\x01\x07\x00\x00\xff\x05\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, isWeak bool, capacity uint8, data []byte) {
		if _, err := runLRU(reference.Factory(), 1+int(capacity), decode(data), isWeak); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRefuses(t *testing.T) {
	for _, ttl := range []time.Duration{0, -1} {
		if _, err := NewTTL(0, ttl, nil); err == nil {
			t.Errorf("a TTL of %v is accepted", ttl)
		}
	}
	for _, capacity := range []int{0, -1, 1<<30 + 1} {
		if _, err := NewLRU(0, capacity, nil); err == nil {
			t.Errorf("a capacity of %d is accepted", capacity)
		}
	}
}

// Check finds what is broken by hand.
func TestCheckFinds(t *testing.T) {
	drop := func(int64, *indexer.Event) {}
	prompt := []indexer.LocalHash{1, 2, 3}
	for name, damage := range map[string]func(*TTL){
		"name":   func(r *TTL) { r.places.list[1].name++ },
		"parent": func(r *TTL) { r.places.list[2].parent = 0 },
		"depth":  func(r *TTL) { r.places.list[2].depth = 7 },
		"held":   func(r *TTL) { r.places.held-- },
		"table":  func(r *TTL) { clear(r.places.table) },
		"free":   func(r *TTL) { r.places.free = 0 },
		"expiry": func(r *TTL) { r.timers[r.oldest].expiry++ },
		"due":    func(r *TTL) { r.now = math.MaxInt64 },
		"links":  func(r *TTL) { r.timers[r.newest].prev = none },
		"circle": func(r *TTL) { r.timers[r.newest].next = r.oldest },
		"newest": func(r *TTL) { r.newest = r.oldest },
		"order": func(r *TTL) {
			r.unlink(0)
			r.timers[r.oldest].prev = 0
			r.timers[0] = timer{r.timers[1].expiry, none, r.oldest}
			r.oldest = 0
		},
		"missing": func(r *TTL) { r.unlink(2) },
	} {
		r, err := NewTTL(0, time.Second, drop)
		if err != nil {
			t.Fatal(err)
		}
		r.Route(0, prompt)
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		if damage(r); r.Check() == nil {
			t.Errorf("TTL: %s: not found", name)
		}
	}
	for name, damage := range map[string]func(*LRU){
		"refs":    func(r *LRU) { r.copies[0].refs++ },
		"used":    func(r *LRU) { r.used++ },
		"private": func(r *LRU) { r.private++ },
		"active":  func(r *LRU) { r.active-- },
		"held":    func(r *LRU) { h := r.leases[1].held; h[0], h[1] = h[1], h[0] },
		"chain":   func(r *LRU) { r.chains[0].youngest = none },
		"older":   func(r *LRU) { r.copies[0].older = 1 },
		"place":   func(r *LRU) { r.copies[r.oldest].place = none },
		"epoch":   func(r *LRU) { r.copies[r.oldest].epoch++ },
		"order": func(r *LRU) {
			r.copies[r.newest].place, r.copies[r.oldest].place = r.copies[r.oldest].place, r.copies[r.newest].place
		},
		"list":  func(r *LRU) { r.oldest = r.copies[r.oldest].next },
		"over":  func(r *LRU) { r.capacity = 1 },
		"names": func(r *LRU) { r.places.list[0].local++ },
	} {
		r, err := NewLRU(0, 100, drop)
		if err != nil {
			t.Fatal(err)
		}
		l, _ := r.Acquire(0, prompt, 1)
		r.Acquire(0, prompt[:2], 0)
		r.Materialize(0, l, []indexer.LocalHash{4, 5}, 1)
		r.Release(0, l)
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		if damage(r); r.Check() == nil {
			t.Errorf("LRU: %s: not found", name)
		}
	}
}

func Example() {
	say := func(at int64, ev *indexer.Event) {
		fmt.Printf("%3d s: %v %d\n", time.Duration(at)/time.Second, ev.Kind, len(ev.Sequences))
	}
	r, err := NewTTL(0, DefaultTTL, say)
	if err != nil {
		panic(err)
	}
	second := int64(time.Second)
	r.Route(0, []indexer.LocalHash{1, 2, 3})
	held := r.Route(60*second, []indexer.LocalHash{1, 2, 9})
	fmt.Println("held", held)
	r.Advance(300 * second)
	// Output:
	//   0 s: stored 3
	//  60 s: stored 1
	// held 2
	// 120 s: removed 1
	// 180 s: removed 3
}
