package indextest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// A Script is the life of one rank: events that are applied over and over. The
// last one takes all blocks away.
type Script []indexer.Event

// Play is what CheckConcurrent does.
type Play struct {
	// Writers is the number of event threads. Script i belongs to thread
	// i modulo Writers and has slot 3·i.
	Writers int
	Scripts []Script
	Queries [][]indexer.LocalHash
	// Readers is the number of goroutines that ask, each Answers times or,
	// after a tenth of these, until the time is over.
	Readers, Answers int
	Time             time.Duration
}

// life is one rank in a play.
type life struct {
	slot   indexer.Slot
	script Script
	// truth[k][q] is the score in query q after k events of the script.
	truth [][]uint32
	// Events that were begun and ended since the start, all rounds counted.
	begun, ended atomic.Uint64
	_            [64]byte
}

// CheckConcurrent applies scripts while readers ask, and returns an error if an
// answer gives a rank a score that it had after none of the events between the
// last that had ended before the call and the last that had begun when it
// returned. Scores in between come from the oracle, which applies each script
// alone.
func CheckConcurrent(oracle, f indexer.Factory, p Play) (err error) {
	lives := make([]*life, len(p.Scripts))
	for i := range lives {
		lives[i] = &life{slot: indexer.Slot(3 * i), script: p.Scripts[i]}
		if err := lives[i].learn(oracle, p.Queries); err != nil {
			return err
		}
	}
	s, err := open(f, p.Writers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var stop atomic.Bool
	var writers, readers sync.WaitGroup
	for i, w := range s.writers {
		var own []*life
		for k := i; k < len(lives); k += len(s.writers) {
			own = append(own, lives[k])
		}
		writers.Go(func() { write(w, own, &stop) })
	}
	errs := make([]error, p.Readers)
	for i := range p.Readers {
		r := s.index.Reader()
		readers.Go(func() {
			defer r.Close()
			errs[i] = read(r, lives, &p, uint64(i))
		})
	}
	readers.Wait()
	stop.Store(true)
	writers.Wait()
	return errors.Join(append(errs, s.index.Check())...)
}

// learn fills the table of true scores.
func (l *life) learn(oracle indexer.Factory, queries [][]indexer.LocalHash) error {
	s, err := open(oracle, 1)
	if err != nil {
		return err
	}
	s.attach(l.slot, 0)
	for k := 0; ; k++ {
		row := make([]uint32, len(queries))
		for q, query := range queries {
			answer, err := s.find(query)
			if err != nil {
				return err
			}
			row[q] = answer[l.slot]
		}
		l.truth = append(l.truth, row)
		if k == len(l.script) {
			break
		}
		l.script[k].Slot = l.slot
		s.apply(&l.script[k])
	}
	if n := s.owner[l.slot].Blocks(l.slot); n != 0 {
		return fmt.Errorf("indextest: a script leaves %d blocks", n)
	}
	return s.close()
}

// allows reports whether the rank had the score after n events, for an n from
// first to last.
func (l *life) allows(first, last uint64, query int, score uint32) bool {
	n := uint64(len(l.script))
	for k := first; k <= last && k <= first+n; k++ {
		if l.truth[k%n][query] == score {
			return true
		}
	}
	return false
}

// write plays the scripts, one event of each in turn so that the ranks'
// positions drift apart.
func write(w indexer.Writer, own []*life, stop *atomic.Bool) {
	for _, l := range own {
		w.Attach(l.slot)
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(own))))
	for len(own) > 0 && !stop.Load() {
		l := own[rng.IntN(len(own))]
		k := l.ended.Load()
		l.begun.Store(k + 1)
		// A slot that is given up and taken over is empty, as after the last event.
		if n := uint64(len(l.script)); k%(2*n) == n-1 {
			w.Detach(l.slot)
			w.Attach(l.slot)
		} else {
			w.Apply(&l.script[k%n])
		}
		l.ended.Store(k + 1)
		// With fewer CPUs than goroutines a thread would else lose its CPU in
		// the middle of an event nearly always, and readers wait for its return.
		if rng.IntN(4) == 0 {
			runtime.Gosched()
		}
	}
	for _, l := range own {
		w.Detach(l.slot)
	}
}

func read(r indexer.Reader, lives []*life, p *Play, seed uint64) error {
	var ans indexer.Answer
	queries, start := p.Queries, time.Now()
	first := make([]uint64, len(lives))
	rng := rand.New(rand.NewPCG(2, seed))
	for n := range p.Answers {
		if n > p.Answers/10 && time.Since(start) > p.Time {
			break
		}
		q := rng.IntN(len(queries))
		for i, l := range lives {
			first[i] = l.ended.Load()
		}
		r.Find(queries[q], indexer.FindOptions{}, &ans)
		for i, l := range lives {
			last := l.begun.Load()
			if score := ans.Score(l.slot); !l.allows(first[i], last, q, score) {
				return fmt.Errorf("slot %d, query %d (%d blocks): score %d is wrong after each of the events %d to %d of its script; after the first it is %d",
					l.slot, q, len(queries[q]), score, first[i], last, l.truth[first[i]%uint64(len(l.script))][q])
			}
		}
		if _, err := scores(&ans, len(queries[q])); err != nil {
			return err
		}
		if rng.IntN(8) == 0 {
			runtime.Gosched()
		}
	}
	return nil
}

// HoleScript is a chain of n blocks that is cut high up, grows behind the hole,
// is cut deeper and refilled, in several orders. Half-applied or mixed, its
// events would give depths that the rank never had.
func HoleScript(n int) (Script, [][]indexer.LocalHash) {
	names, path := chain(1, n)
	q, h, t := n/4, n/2, n*3/4
	reverse := make(seqs, 0, n)
	for i := range names {
		reverse = append(reverse, names[n-1-i])
	}
	script := Script{
		store(names[:t], path[:t]),                    // depth t
		remove(names[q : q+2]...),                     // q
		extend(names[t-1], names[t:], path[t:]),       // q, grown behind the hole
		remove(names[h : h+3]...),                     // q, a second hole
		extend(names[q-1], names[q:q+2], path[q:q+2]), // h
		remove(names[0]),                              // absent
		extend(names[h-1], names[h:h+3], path[h:h+3]), // absent, deeper is whole again
		store(names[:1], path[:1]),                    // n
		remove(names[0], names[h]),                    // absent
		store(names, path),                            // n
		remove(names[q:]...),                          // q
		extend(names[q-1], names[q:], path[q:]),       // n
		remove(reverse[:h]...),                        // n-h
		store(names, path),                            // n
		remove(names[:h]...),                          // absent
		store(names[:h], path[:h]),                    // n
		cleared,                                       // absent
		store(names[:h], path[:h]),                    // h
		remove(names[:h]...),                          // absent
	}
	return script, [][]indexer.LocalHash{path, path[:t], path[:h], path[:q]}
}

// RandomScript is the random history of one rank over documents of the given
// length with common beginnings.
func RandomScript(seed uint64, events, length int) (Script, [][]indexer.LocalHash) {
	const docs = 3
	var names []seqs
	var paths [][]indexer.LocalHash
	for d := range uint64(docs) {
		shared, sharedPath := chain(1, length/3)
		own, ownPath := chain(d+2, length-length/3)
		names = append(names, append(shared, own...))
		paths = append(paths, append(sharedPath, ownPath...))
	}
	rng := rand.New(rand.NewPCG(3, seed))
	var script Script
	for range events {
		d := rng.IntN(docs)
		from := rng.IntN(length)
		to := from + 1 + rng.IntN(length-from)
		switch k := rng.IntN(10); {
		case k < 3:
			script = append(script, store(names[d][:to], paths[d][:to]))
		case k < 5 && from > 0:
			script = append(script, extend(names[d][from-1], names[d][from:to], paths[d][from:to]))
		case k < 9:
			script = append(script, remove(names[d][from:to]...))
		default:
			script = append(script, cleared)
		}
	}
	return append(script, cleared), paths
}

func testConcurrent(t *testing.T, oracle, f indexer.Factory) {
	answers := 4000
	if testing.Short() {
		answers = 400
	}
	threads := []int{1, 2, 4}
	if f.SingleThread {
		threads = threads[:1]
	}
	for _, n := range threads {
		t.Run(fmt.Sprintf("Random/%dWriters", n), func(t *testing.T) {
			p := Play{Writers: n, Readers: 2, Answers: answers, Time: time.Second}
			for i := range uint64(8) {
				var script Script
				script, p.Queries = RandomScript(i, 60, 90)
				p.Scripts = append(p.Scripts, script)
			}
			checkPlay(t, oracle, f, p)
		})
		t.Run(fmt.Sprintf("Holes/%dWriters", n), func(t *testing.T) {
			p := Play{Writers: n, Readers: 2, Answers: answers, Time: time.Second}
			for range n {
				var script Script
				script, p.Queries = HoleScript(64)
				p.Scripts = append(p.Scripts, script)
			}
			checkPlay(t, oracle, f, p)
		})
	}
}

func checkPlay(t *testing.T, oracle, f indexer.Factory, p Play) {
	t.Helper()
	start := time.Now()
	if err := CheckConcurrent(oracle, f, p); err != nil {
		t.Fatal(err)
	}
	t.Logf("at most %d answers in %v", p.Readers*p.Answers, time.Since(start))
}
