package mocker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// tokenwise is the engine as plainly as possible: it looks for what comes next
// among all requests and computes one token at a time.
type tokenwise struct {
	trace   *trace.Trace
	cfg     Config
	rec     Recorder
	pool    *Pool
	all     []*tokenwiseRequest
	waiting []*tokenwiseRequest
	running []*tokenwiseRequest
	eventID uint64
	tied    bool // two things are due at one time, in an order that only the engine knows
	sum     Summary
}

type tokenwiseRequest struct {
	session, turn int
	sequences     []indexer.SequenceHash // of all blocks, up to the last token
	locals        []indexer.LocalHash
	known         int // tokens of the prompt and generated
	end           int
	cached        int // blocks of it that are committed
	held          []int32
	state         string // "coming", "waiting", "running" or "over"
	next          int64  // when it arrives or has computed all that is known
}

func (s *tokenwise) come(at int64, session, turn int) {
	row := int(s.trace.Turns(session)[turn])
	in := s.trace.Request(row)
	r := &tokenwiseRequest{session: session, turn: turn, state: "coming", next: at, known: in.InputLength, end: in.InputLength + max(0, in.OutputLength-1)}
	c := content{ids: in.HashIDs, traceBlock: s.trace.BlockSize, prompt: in.InputLength, output: mix(s.cfg.Seed, uint64(row))}
	var parent indexer.SequenceHash
	for b := 0; (b+1)*s.cfg.BlockSize <= r.end; b++ {
		local := c.local(b*s.cfg.BlockSize, (b+1)*s.cfg.BlockSize)
		parent = sequence(parent, b > 0, local)
		r.locals, r.sequences = append(r.locals, local), append(r.sequences, parent)
	}
	s.all = append(s.all, r)
}

func (s *tokenwise) run() {
	for {
		var next *tokenwiseRequest
		for _, r := range s.all {
			switch {
			case r.state == "waiting" || r.state == "over":
			case next == nil || r.next < next.next:
				next, s.tied = r, false
			case r.next == next.next:
				s.tied = true
			}
		}
		if next == nil || s.tied {
			return
		}
		s.sum.EndNanos = next.next
		if next.state == "coming" {
			s.arrive(next)
		} else {
			s.compute(next)
		}
	}
}

func (s *tokenwise) arrive(r *tokenwiseRequest) {
	s.rec.Query(r.next, int(s.trace.Turns(r.session)[r.turn]), r.locals[:r.known/s.cfg.BlockSize])
	if s.blocks(r.end) > s.cfg.GPUBlocks {
		s.over(r.next, r)
		return
	}
	r.state = "waiting"
	s.waiting = append(s.waiting, r)
	s.admit(r.next)
}

func (s *tokenwise) blocks(tokens int) int {
	n := 0
	for n*s.cfg.BlockSize < tokens {
		n++
	}
	return n
}

func (s *tokenwise) admit(at int64) {
	for len(s.waiting) > 0 {
		r := s.waiting[0]
		hits := 0
		for (hits+1)*s.cfg.BlockSize <= r.known-1 && s.pool.Lookup(r.sequences[hits:hits+1]) == 1 {
			hits++
		}
		if !s.reserve(at, r, hits, s.blocks(r.known)-hits) {
			return
		}
		s.waiting = s.waiting[1:]
		s.running = append(s.running, r)
		r.cached = hits
		s.commit(at, r)
		r.state = "running"
		r.next = at + s.cfg.Time.Prefill(r.known-hits*s.cfg.BlockSize, hits*s.cfg.BlockSize)
	}
}

func (s *tokenwise) reserve(at int64, r *tokenwiseRequest, hits, fresh int) bool {
	held, evicted, ok := s.pool.Reserve(r.sequences[:hits], fresh, r.held, nil)
	r.held = held
	s.emit(at, indexer.Event{Kind: indexer.Removed, Sequences: evicted})
	return ok
}

// commit commits the blocks that known tokens fill.
func (s *tokenwise) commit(at int64, r *tokenwiseRequest) {
	ev := indexer.Event{Kind: indexer.Stored}
	for ; (r.cached+1)*s.cfg.BlockSize <= r.known; r.cached++ {
		if !s.pool.Commit(r.held[r.cached], r.sequences[r.cached]) {
			s.emit(at, ev)
			ev = indexer.Event{Kind: indexer.Stored}
			continue
		}
		if len(ev.Sequences) == 0 && r.cached > 0 {
			ev.HasParent, ev.Parent = true, r.sequences[r.cached-1]
		}
		ev.Sequences = append(ev.Sequences, r.sequences[r.cached])
		ev.Locals = append(ev.Locals, r.locals[r.cached])
	}
	s.emit(at, ev)
}

func (s *tokenwise) emit(at int64, ev indexer.Event) {
	if len(ev.Sequences) == 0 {
		return
	}
	ev.ID = s.eventID
	s.eventID++
	s.rec.Event(at, &ev)
}

// compute is a request that has computed all that is known of it, and so
// generated a token.
func (s *tokenwise) compute(r *tokenwiseRequest) {
	at := r.next
	s.commit(at, r)
	if r.known == r.end {
		s.leave(r)
		s.over(at, r)
		s.admit(at)
		return
	}
	r.known++
	for s.blocks(r.known) > len(r.held) {
		if s.reserve(at, r, 0, 1) {
			continue
		}
		victim := s.running[len(s.running)-1]
		s.leave(victim)
		s.sum.Preempted++
		victim.state = "waiting"
		s.waiting = slices.Insert(s.waiting, 0, victim)
		if victim == r {
			return
		}
	}
	r.next = at + s.cfg.Time.Decode(r.known-1)
}

func (s *tokenwise) leave(r *tokenwiseRequest) {
	s.pool.Release(r.held)
	r.held = nil
	s.running = slices.DeleteFunc(s.running, func(o *tokenwiseRequest) bool { return o == r })
}

func (s *tokenwise) over(at int64, r *tokenwiseRequest) {
	r.state = "over"
	if turns := s.trace.Turns(r.session); r.turn+1 < len(turns) {
		s.come(at+toNanos(s.trace.Request(int(turns[r.turn+1])).Delay), r.session, r.turn+1)
	}
}

func toNanos(ms float64) int64 { return int64(ms*1e6 + .5) }

// exact keeps a timeline with the hashes themselves.
type exact struct{ lines []string }

func (l *exact) Query(at int64, row int, locals []indexer.LocalHash) {
	l.lines = append(l.lines, fmt.Sprint(at, " query ", row, locals))
}

func (l *exact) Event(at int64, ev *indexer.Event) {
	l.lines = append(l.lines, fmt.Sprintf("%d %+v", at, *ev))
}

// TestAgainstTokenwise compares whole timelines of random traces.
func TestAgainstTokenwise(t *testing.T) {
	compared, preempted, waited := 0, int64(0), 0
	rapid.Check(t, func(t *rapid.T) {
		traceBlock := rapid.IntRange(1, 12).Draw(t, "trace block")
		rows := drawTrace(t, traceBlock)
		// Times without ties, which the two would order differently.
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "times"), 0))
		for i := range rows {
			rows[i].Timestamp += float64(random.IntN(1e6)) / 1e6
			rows[i].Delay += float64(random.IntN(1e6)) / 1e6
		}
		tr, err := trace.New(traceBlock, rows)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{
			GPUBlocks: rapid.IntRange(1, 40).Draw(t, "pool"),
			BlockSize: rapid.IntRange(1, 9).Draw(t, "block"),
			Seed:      rapid.Uint64().Draw(t, "seed"),
			Time:      steady{prefill: 900_001 + random.Int64N(200_000), decode: 900_001 + random.Int64N(200_000)},
		}
		var want exact
		model := tokenwise{trace: tr, cfg: cfg, rec: &want, pool: NewPool(cfg.GPUBlocks)}
		for s := range tr.Sessions() {
			model.come(toNanos(tr.Request(int(tr.Turns(s)[0])).Timestamp), s, 0)
		}
		if model.run(); model.tied {
			return
		}
		var got exact
		sum, err := RunRank(context.Background(), tr, allSessions(tr), cfg, &got)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.lines, want.lines) {
			t.Fatalf("timeline\n%s\nwant\n%s", strings.Join(got.lines, "\n"), strings.Join(want.lines, "\n"))
		}
		if sum.Preempted != model.sum.Preempted || sum.EndNanos != model.sum.EndNanos {
			t.Fatalf("summary %+v, want %+v", sum, model.sum)
		}
		compared++
		preempted += sum.Preempted
		if sum.PeakQueue > 0 {
			waited++
		}
	})
	if compared < 30 || preempted == 0 || waited == 0 {
		t.Errorf("%d timelines were compared, with %d preemptions and %d with a queue; this shows too little", compared, preempted, waited)
	}
}
