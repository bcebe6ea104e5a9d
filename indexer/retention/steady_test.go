package retention

import (
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// turns is the work of the tests of allocations and of the benchmarks: sessions
// whose prompts grow with each turn, on a common beginning.
type turns struct {
	prompts [][]indexer.LocalHash
	next    int
	now     int64
}

const turnBlocks, maxTurns, sessions, common = 16, 6, 64, 8

func newTurns() *turns {
	w := &turns{}
	for turn := 1; turn <= maxTurns; turn++ {
		for s := range sessions {
			prompt := make([]indexer.LocalHash, common+turn*turnBlocks)
			for i := range prompt {
				prompt[i] = indexer.LocalHash(i)
				if i >= common {
					prompt[i] += indexer.LocalHash(s+1) << 32
				}
			}
			w.prompts = append(w.prompts, prompt)
		}
	}
	return w
}

// step returns the next prompt, 20 ms after the one before.
func (w *turns) step() []indexer.LocalHash {
	p := w.prompts[w.next]
	w.next = (w.next + 1) % len(w.prompts)
	w.now += 20e6
	return p
}

type player interface{ play() }

type playTTL struct {
	*turns
	r *TTL
}

func (p playTTL) play() { prompt := p.step(); p.r.Route(p.now, prompt) }

// playLRU keeps eight requests running, each of which generates two blocks.
type playLRU struct {
	*turns
	r       *LRU
	running *[8]Lease
	answer  []indexer.LocalHash
}

func (p playLRU) play() {
	prompt := p.step()
	at := p.next % len(p.running)
	if p.running[at] != 0 {
		p.r.Materialize(p.now, p.running[at], p.answer, 0)
		p.r.Release(p.now, p.running[at])
	}
	p.running[at], _ = p.r.Acquire(p.now, prompt, 1)
}

func players(t testing.TB, emit Emit) map[string]player {
	ttl, err := NewTTL(0, 3*time.Second, emit)
	if err != nil {
		t.Fatal(err)
	}
	lru, err := NewLRU(0, 3000, emit)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]player{
		"ttl": playTTL{newTurns(), ttl},
		"lru": playLRU{newTurns(), lru, &[8]Lease{}, []indexer.LocalHash{1, 2}},
	}
}

type machineUnderTest interface {
	Stats() Stats
	Bytes() int64
	Check() error
}

func machineOf(p player) machineUnderTest {
	switch p := p.(type) {
	case playTTL:
		return p.r
	case playLRU:
		return p.r
	}
	return nil
}

// Once the most that is held at one time has been held, nothing is allocated, and
// memory stays where it is, whatever passes through.
func TestSteadyState(t *testing.T) {
	for name, p := range players(t, func(int64, *indexer.Event) {}) {
		t.Run(name, func(t *testing.T) {
			round := sessions * maxTurns
			for range 3 * round {
				p.play()
			}
			m := machineOf(p)
			bytes, before := m.Bytes(), m.Stats()
			if n := testing.AllocsPerRun(20*round, p.play); n != 0 {
				t.Errorf("%v allocations a call", n)
			}
			after := m.Stats()
			if after.Stored == before.Stored || after.Removed == before.Removed || after.Predicted == before.Predicted {
				t.Errorf("%+v, then %+v: nothing came, went or was found again", before, after)
			}
			if m.Bytes() != bytes {
				t.Errorf("%d bytes, then %d", bytes, m.Bytes())
			}
			// What is reported is near what the blocks need.
			if perBlock := float64(bytes) / float64(after.Peak); perBlock < 24 || perBlock > 250 {
				t.Errorf("%.0f bytes a block of the peak of %d", perBlock, after.Peak)
			}
			if err := m.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkRoute is one decision, for lru with the answer and the end of a
// request too.
func BenchmarkRoute(b *testing.B) {
	for name, p := range players(b, func(int64, *indexer.Event) {}) {
		b.Run(name, func(b *testing.B) {
			for range 3 * sessions * maxTurns {
				p.play()
			}
			m := machineOf(p)
			before := m.Stats()
			b.ReportAllocs()
			for b.Loop() {
				p.play()
			}
			after := m.Stats()
			b.ReportMetric(float64(after.Stored-before.Stored+after.Predicted-before.Predicted)/float64(b.N), "blocks/op")
		})
	}
}
