package soak

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// readers ask while a round goes on. Between rounds they wait.
type readers struct {
	// going is held for reading by a reader that asks.
	going sync.RWMutex
	quit  atomic.Bool
	over  sync.WaitGroup

	// What follows is changed only while the readers wait.
	questions []question
	// quiet holds for each question the scores, by slot, of the ranks that have no
	// operation in the round: their answers cannot change.
	quiet []map[indexer.Slot]uint32

	answers atomic.Uint64
	mu      sync.Mutex
	errs    []error
	started bool
	held    bool // going is held, the readers wait
}

// start starts them; they wait for resume.
func (a *readers) start(r *run) {
	a.going.Lock()
	a.started, a.held = true, true
	for i := range r.o.Readers {
		reader := r.index.Reader()
		a.over.Go(func() {
			rng := rand.New(rand.NewPCG(r.o.Seed, uint64(i)<<32))
			var ans indexer.Answer
			err := guard(func() error {
				for !a.quit.Load() {
					if err := a.ask(reader, rng, &ans, r.o.Ranks); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				a.mu.Lock()
				a.errs = append(a.errs, err)
				a.mu.Unlock()
				return
			}
			reader.Close()
		})
	}
}

// ask asks one question and judges the answer.
func (a *readers) ask(reader indexer.Reader, rng *rand.Rand, ans *indexer.Answer, slots int) error {
	a.going.RLock()
	defer a.going.RUnlock()
	if len(a.questions) == 0 {
		time.Sleep(time.Millisecond)
		return nil
	}
	i := rng.IntN(len(a.questions))
	var opts indexer.FindOptions
	switch rng.IntN(8) {
	case 0:
		opts.MaxRanks = 1 + rng.IntN(3)
	case 1:
		opts.EarlyExit = true
	}
	reader.Find(a.questions[i].query, opts, ans)
	got, err := read(ans, slots, a.questions[i].limit)
	if err != nil {
		return err
	}
	a.answers.Add(1)
	if opts.MaxRanks > 0 && len(got) > opts.MaxRanks {
		return fmt.Errorf("%s, at most %d were asked for", plural(len(got), "rank"), opts.MaxRanks)
	}
	if opts != (indexer.FindOptions{}) {
		return nil
	}
	for slot, want := range a.quiet[i] {
		if got[slot] != want {
			return fmt.Errorf("slot %d, which had no event meanwhile, has %d leading blocks, want %d", slot, got[slot], want)
		}
	}
	return nil
}

// prepare learns what the ranks without an operation answer.
func (a *readers) prepare(r *run, quiet map[int]bool) {
	a.quiet = make([]map[indexer.Slot]uint32, len(a.questions))
	for i, q := range a.questions {
		scores := r.truth.find(q.query)
		a.quiet[i] = make(map[indexer.Slot]uint32)
		for rank, is := range quiet {
			if is {
				a.quiet[i][r.slots[rank]] = scores[rank]
			}
		}
	}
}

func (a *readers) resume() {
	a.held = false
	a.going.Unlock()
}

// pause waits until no reader is in a call; it is false if one does not return.
func (a *readers) pause(limit time.Duration) bool {
	locked := make(chan struct{})
	go func() {
		a.going.Lock()
		close(locked)
	}()
	select {
	case <-locked:
		a.held = true
		return true
	case <-time.After(limit):
		return false
	}
}

func (a *readers) problem() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Join(a.errs...)
}

// stop ends the readers, once. One that hangs is left behind.
func (a *readers) stop() {
	if !a.started || a.quit.Swap(true) {
		return
	}
	if a.held {
		a.resume()
		a.over.Wait()
	}
}
