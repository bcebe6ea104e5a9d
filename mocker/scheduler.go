package mocker

import "slices"

// scheduler decides which requests run when. It lets requests hold blocks
// through reserve, stored and release of its engine, puts their progress on the
// agenda with expect and callOff, and closes each in the end. A scheduler that
// works in steps, with a budget of tokens for each, fits behind it as well: it
// has one request of the step's due at the step's end.
type scheduler interface {
	// arrived takes over a request that fits the pool if nobody else runs.
	arrived(at int64, id int32) error
	// due is the end of what was expected of a request.
	due(at int64, id int32) error
}

// progress is how far a request is.
type progress struct {
	computed  int  // tokens whose KV is in the pool, or will be at the end of the prefill
	target    int  // tokens computed when the request is due
	admitted  bool // at least once
	begun     bool // has had its first token
	prefilled bool // since its last admission
	since     int64
	pace      int64 // ns for each token generated after since
}

// firstCome admits requests in the order of their arrival and runs each as if it
// were alone.
//
//   - A request is admitted when all that is known of it fits beside the blocks in
//     use. Until then it and all behind it wait.
//   - Its prompt is computed in one piece, the end of which gives the first token
//     of the answer. Each further one takes a decode step. The last one is never
//     computed, so it needs no block.
//   - A block of the answer is allocated when its first token is to be computed.
//     If there is no room, the request admitted last gives up its blocks, which
//     may be the growing one itself. It goes to the front of the line with the
//     tokens that it has generated, and computes them like a prompt.
//
// It has no batches, no limit to the requests that run or the tokens of a step, no
// chunked prefill, and requests do not slow each other down.
type firstCome struct {
	engine  *engine
	waiting []int32 // in the order in which they are to be admitted
	running []int32 // in the order of their admission
}

func (s *firstCome) arrived(at int64, id int32) error {
	r := &s.engine.requests[id]
	r.progress = progress{computed: r.content.prompt}
	s.waiting = append(s.waiting, id)
	if err := s.admit(at); err != nil {
		return err
	}
	s.countWaiting()
	return nil
}

func (s *firstCome) countWaiting() {
	s.engine.sum.PeakQueue = max(s.engine.sum.PeakQueue, int64(len(s.waiting)))
}

// admit lets waiting requests run, in their order, while there is room.
func (s *firstCome) admit(at int64) error {
	e, size := s.engine, s.engine.cfg.BlockSize
	for len(s.waiting) > 0 {
		id := s.waiting[0]
		r := &e.requests[id]
		// At least one token must be computed, so a prompt that is cached whole
		// does without its last block.
		most := max(0, r.computed-1) / size
		hits := e.pool.Lookup(r.sequences[:most])
		if !e.reserve(at, r, hits, blocksFor(r.computed, size)-hits) {
			return nil
		}
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.running = append(s.running, id)
		if !r.admitted {
			r.admitted = true
			e.sum.HitBlocks += int64(hits)
			if e.follower != nil {
				e.follower.Admitted(at, r.row, hits, most)
			}
		}
		e.stored(at, r, hits, len(r.sequences))
		r.target = r.computed
		if err := e.expect(at, id, 1, e.cfg.Time.Prefill(r.computed-hits*size, hits*size)); err != nil {
			return err
		}
	}
	return nil
}

// due is the end of a prefill, of a block or of a request.
func (s *firstCome) due(at int64, id int32) error {
	e, size := s.engine, s.engine.cfg.BlockSize
	r := &e.requests[id]
	r.prefilled = true
	if !r.begun {
		r.begun = true
		if e.follower != nil {
			e.follower.FirstToken(at, r.row)
		}
	}
	r.computed = r.target
	for r.hashBlock(size, r.computed) {
		e.stored(at, r, len(r.sequences)-1, len(r.sequences))
	}
	if r.computed == r.end {
		e.grown(at, r)
		s.stop(id)
		if err := e.close(at, id); err != nil {
			return err
		}
		return s.admit(at)
	}
	r.since, r.pace = at, e.cfg.Time.Decode(r.computed)
	// The next token needs a block of its own at a boundary.
	if r.computed == len(r.held)*size && !s.grow(at, id) {
		return nil
	}
	e.grown(at, r)
	r.target = min(r.end, len(r.held)*size)
	return e.expect(at, id, r.target-r.computed, r.pace)
}

// grow gives a running request one more block, preempting those admitted last
// while there is no room. It is false if that was the request itself.
func (s *firstCome) grow(at int64, id int32) bool {
	for !s.engine.reserve(at, &s.engine.requests[id], 0, 1) {
		victim := s.running[len(s.running)-1]
		s.preempt(at, victim)
		if victim == id {
			return false
		}
	}
	return true
}

// preempt puts a running request to the front of the line.
func (s *firstCome) preempt(at int64, id int32) {
	e := s.engine
	e.callOff(id)
	s.stop(id)
	r := &e.requests[id]
	if r.prefilled {
		// What it has generated is kept: the tokens since the last block was
		// full, and the one that was to be computed next.
		if r.pace > 0 {
			r.computed += int((at - r.since) / r.pace)
		}
		r.computed = min(r.computed+1, r.end)
		for r.hashBlock(e.cfg.BlockSize, r.computed) {
		}
		r.prefilled = false
	}
	s.waiting = slices.Insert(s.waiting, 0, id)
	e.sum.Preempted++
	s.countWaiting()
}

// stop takes a request from the running ones and releases its blocks.
func (s *firstCome) stop(id int32) {
	s.engine.release(&s.engine.requests[id])
	i := slices.Index(s.running, id)
	s.running = slices.Delete(s.running, i, i+1)
}
