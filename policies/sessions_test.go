package policies

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

func TestSessionsEqualNaive(t *testing.T) {
	type served struct {
		session uint64
		slot    indexer.Slot
		at      time.Duration
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, ttl := range []time.Duration{0, 5} {
		const limit = 6
		s := NewSessions(limit, ttl)
		var naive []served // the one served longest ago first
		drop := func(which func(served) bool) {
			kept := naive[:0]
			for _, x := range naive {
				if !which(x) {
					kept = append(kept, x)
				}
			}
			naive = kept
		}
		now := time.Duration(0)
		for range 20000 {
			now += time.Duration(rng.IntN(3))
			session, slot := rng.Uint64N(12), indexer.Slot(rng.IntN(4))
			if rng.IntN(20) == 0 {
				s.Forget(slot)
				drop(func(x served) bool { return x.slot == slot })
			} else {
				s.Serve(session, slot, now)
				drop(func(x served) bool { return x.session == session })
				if len(naive) == limit {
					naive = append(naive[:0], naive[1:]...)
				}
				naive = append(naive, served{session, slot, now})
			}
			if s.Len() != len(naive) || s.table.used != len(naive) {
				t.Fatalf("%d sessions, want %d", s.Len(), len(naive))
			}
			for session := range uint64(12) {
				var want SessionInput
				for _, x := range naive {
					if x.session == session && (ttl == 0 || now-x.at <= ttl) {
						want = SessionInput{Known: true, Target: x.slot, LastSeen: x.at}
					}
				}
				if got := s.lookUp(&Request{Session: session, HasSession: true, Now: now}); got != want {
					t.Fatalf("session %d: %+v, want %+v", session, got, want)
				}
				if got := s.lookUp(&Request{Session: session, Now: now}); got.Known {
					t.Fatalf("a request without a session has %+v", got)
				}
			}
		}
		if n := testing.AllocsPerRun(1000, func() { now++; s.Serve(uint64(now), 1, now) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
