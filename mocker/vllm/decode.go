package vllm

import (
	"fmt"
	"math"

	"github.com/kvbench/kvbench/internal/invariants"
	"github.com/kvbench/kvbench/mocker/steptime"
)

// steps is the scratch of decode.
type steps struct {
	due []int32  // by running request: the pass in which it needs a block or completes one
	ids []uint64 // of the running requests
	at  []int64  // ends of passes
}

// decode lets passes follow each other, until time to, in which every running
// request computes one generated token and nothing else can happen than that blocks
// are filled and taken: nobody is admitted, is done or loses blocks. Begin and
// finish would do the same pass by pass, and they do the next one. It says whether
// there was one.
func (e *Engine) decode(to int64) (ran bool, err error) {
	n := len(e.running)
	if e.slow || n == 0 || n > e.cfg.MaxBatchedTokens || e.waiting.len() > 0 && n < e.cfg.MaxSeqs {
		return false, nil
	}
	// The pass in which the first of them is done is left to Begin and finish.
	passes, context := math.MaxInt32, 0
	for _, id := range e.running {
		r := &e.requests[id]
		if r.generated == 0 || r.computed+1 != r.known {
			return false, nil
		}
		passes = min(passes, r.output-r.generated-1)
		context += r.known
	}
	if passes < 1 {
		return false, nil
	}
	if e.now > math.MaxInt64/2 {
		return false, fmt.Errorf("vllm: the clock is at %d ns; that is too far", e.now)
	}
	s, size := &e.steps, e.cfg.BlockSize
	s.due, s.at = s.due[:0], s.at[:0]
	for _, id := range e.running {
		s.due = append(s.due, next(0, e.requests[id].computed, size))
	}
	pass := steptime.Pass{Decodes: n, Context: int64(context), Capacity: int64(e.cfg.Blocks) * int64(size)}
	began, due := e.now, int32(0)
	k := int32(0)
	for ; int(k) < passes && e.now < to; k++ {
		if k == due {
			e.cache.now = e.now
			due = math.MaxInt32
			for i, id := range e.running {
				if s.due[i] == k {
					r := &e.requests[id]
					computed := r.computed + int(k)
					if computed == r.held.blocks()*size && !e.hold(r, nil, 0, 0, 1) {
						// Somebody has to give way. What was done of this pass stays done
						// when it begins once more.
						goto end
					}
					if to := (computed + 1) / size; to > r.held.stored {
						e.store(r, to)
					}
					s.due[i] = next(k+1, computed+1, size)
				}
				due = min(due, s.due[i])
			}
			e.counts.PeakActive = max(e.counts.PeakActive, e.cache.active())
		}
		ns, err := steptime.Of(e.cfg.Time, &pass)
		if err != nil {
			return false, fmt.Errorf("vllm: %w", err)
		}
		if e.now+ns > to {
			e.busy, e.end = true, e.now+ns
			break
		}
		pass.Context += int64(n)
		e.now += ns
		if e.tokens != nil {
			s.at = append(s.at, e.now)
			continue
		}
		for _, id := range e.running {
			r := &e.requests[id]
			e.listener.Token(e.now, r.id, r.generated+int(k)+1)
		}
	}
end:
	e.cache.now = e.now
	e.advance(int(k), began)
	if e.busy {
		e.batch = e.batch[:0]
		for _, id := range e.running {
			e.batch = append(e.batch, share{id, 1})
		}
		e.pass = pass
		e.counts.Passes++
		e.counts.BusyNanos += e.end - e.now
		e.counts.DecodeTokens += int64(n)
	}
	if invariants.Enabled && k > 1000 {
		return true, e.Check()
	}
	return k > 0 || e.busy, nil
}

// next returns the first pass from k on in which a request that has computed tokens
// before pass k begins a block or completes one.
func next(k int32, computed, size int) int32 {
	switch at := computed % size; at {
	case 0, size - 1:
		return k
	default:
		return k + int32(size-1-at)
	}
}

// advance accounts for passes that ended, the first of which began at began.
func (e *Engine) advance(passes int, began int64) {
	if passes == 0 {
		return
	}
	s, n := &e.steps, int64(len(e.running))
	s.ids = s.ids[:0]
	for _, id := range e.running {
		r := &e.requests[id]
		s.ids = append(s.ids, r.id)
		r.computed += passes
		r.known += passes
		r.generated += passes
	}
	e.counts.Passes += int64(passes)
	e.counts.BusyNanos += e.now - began
	e.counts.DecodeTokens += n * int64(passes)
	e.counts.OutputTokens += n * int64(passes)
	if e.tokens != nil {
		e.tokens.Tokens(s.ids, s.at)
	}
}
