package corpus

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/kvbench/kvbench/indexer"
)

// MaxOps is the largest number of ops of a corpus.
const MaxOps = math.MaxUint32

// Check returns the first reason why the corpus is not well formed, or nil.
// Write refuses to write and Open refuses to read a corpus that is not. Apart
// from the rules of the format it demands that
//
//   - the manifest has the schema SchemaV1, or SchemaV2 if and only if its
//     options and totals are those of an approximate corpus, a positive window
//     and a finite speed-up;
//   - ranks are in strictly ascending order and at most indexer.MaxRanks;
//   - ops are sorted by (deadline, queries before events, slot), with deadlines
//     from 0 to the window, both included;
//   - the k-th query has request k, there are no other requests, and the k-th
//     event of a slot has id k, all counted from 0;
//   - a request has its first token not before its query's deadline and ends
//     not before that, or has neither and is NeverRan twice; the refused requests
//     of the manifest's totals are those that never ran;
//   - the hashes of the ops follow each other and are all that there are;
//   - the manifest's totals that can be counted from the ops are right.
//
// It reads all ops once, and no hashes. It also fails on a machine that is not
// little-endian, where the records of a file cannot be used in place.
func (c *Corpus) Check() error {
	if err := checkByteOrder(); err != nil {
		return err
	}
	m := &c.Manifest
	switch {
	case m.Schema != SchemaV1 && m.Schema != SchemaV2:
		return fmt.Errorf("manifest: schema is %q; this program knows %q and %q", m.Schema, SchemaV1, SchemaV2)
	case m.Schema != m.Options.Schema():
		return fmt.Errorf("manifest: schema is %q, which says something else than approximate %q", m.Schema, m.Options.Approximate)
	case m.WindowNS < 1:
		return fmt.Errorf("manifest: window_ns is %d; it must be positive", m.WindowNS)
	case math.IsNaN(m.Options.SpeedUp) || math.IsInf(m.Options.SpeedUp, 0):
		return fmt.Errorf("manifest: speed_up is %v, which is not a finite number", m.Options.SpeedUp)
	case len(c.Ranks) > indexer.MaxRanks:
		return fmt.Errorf("%d ranks; at most %d are possible", len(c.Ranks), indexer.MaxRanks)
	case int64(len(c.Ops)) > MaxOps:
		return fmt.Errorf("%d ops; at most %d are possible", len(c.Ops), int64(MaxOps))
	}
	if err := m.checkApproximate(); err != nil {
		return err
	}
	for i := 1; i < len(c.Ranks); i++ {
		if c.Ranks[i-1].Compare(c.Ranks[i]) >= 0 {
			return fmt.Errorf("rank %d (%s) does not come after rank %d (%s)", i, c.Ranks[i], i-1, c.Ranks[i-1])
		}
	}
	totals, err := c.checkOps()
	if err != nil {
		return err
	}
	if n := int64(len(c.Requests)); n != totals.Requests {
		return fmt.Errorf("%d requests for %d queries", n, totals.Requests)
	}
	if err := checkTotals(&m.Totals, &totals); err != nil {
		return err
	}
	return c.checkTimes()
}

// checkTimes checks when requests ran. Queries and requests belong together
// already.
func (c *Corpus) checkTimes() error {
	refused := int64(0)
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Kind != Query {
			continue
		}
		switch r := &c.Requests[op.Seq]; {
		case r.FirstToken == NeverRan && r.Finish == NeverRan:
			refused++
		case r.FirstToken < op.Deadline || r.Finish < r.FirstToken:
			return fmt.Errorf("request %d: first token at %d and end at %d for a query with deadline %d; they must follow each other, or both be %d",
				op.Seq, r.FirstToken, r.Finish, op.Deadline, NeverRan)
		}
	}
	if n := c.Manifest.Totals.RefusedRequests; n != refused {
		return fmt.Errorf("manifest: refused_requests is %d where %d requests never ran", n, refused)
	}
	return nil
}

func (m *Manifest) checkApproximate() error {
	o, a := &m.Options, &m.Totals.Approximate
	switch o.Approximate {
	case "":
		if *a != (Approximate{}) {
			return fmt.Errorf("manifest: totals of an approximation where the events are the engines' own")
		}
	case ApproximateTTL, ApproximateLRU:
		if hits := a.PredictedBlocks - a.OverPredicted + a.UnderPredicted; hits != m.Totals.HitBlocks {
			return fmt.Errorf("manifest: the approximation speaks of %d hit blocks, hit_blocks is %d", hits, m.Totals.HitBlocks)
		}
	default:
		return fmt.Errorf("manifest: approximate is %q; this program knows %q and %q", o.Approximate, ApproximateTTL, ApproximateLRU)
	}
	if o.TTLNS < 0 || (o.TTLNS > 0) != (o.Approximate == ApproximateTTL) {
		return fmt.Errorf("manifest: ttl_ns is %d with approximate %q", o.TTLNS, o.Approximate)
	}
	return nil
}

func (c *Corpus) checkOps() (Totals, error) {
	var totals Totals
	var next uint64 // where the hashes of the next op must be
	hashes := uint64(len(c.Hashes))
	events := make([]uint32, len(c.Ranks)) // by slot
	first := Op{}                          // precedes or equals every valid op
	prev := &first
	for i := range c.Ops {
		op := &c.Ops[i]
		if err := c.checkOp(op); err != nil {
			return totals, fmt.Errorf("op %d: %w", i, err)
		}
		if compareOps(prev, op) > 0 {
			return totals, fmt.Errorf("op %d (deadline %d, %s, slot %d) is sorted after op %d (deadline %d, %s, slot %d)",
				i, op.Deadline, op.Kind, op.Slot, i-1, prev.Deadline, prev.Kind, prev.Slot)
		}
		prev = op
		if n := op.HashCount(); op.Hashes != next || n > hashes-next {
			return totals, fmt.Errorf("op %d: hashes are %d to %d where %d to %d of %d are due", i, op.Hashes, op.Hashes+n, next, next+n, hashes)
		} else {
			next += n
		}
		want := uint32(totals.Requests)
		if op.Kind != Query {
			want = events[op.Slot]
			events[op.Slot]++
		}
		if op.Seq != want {
			return totals, fmt.Errorf("op %d: %s of slot %d has number %d where %d is due", i, op.Kind, op.Slot, op.Seq, want)
		}
		totals.add(op)
	}
	if next != hashes {
		return totals, fmt.Errorf("%d hashes belong to no op", hashes-next)
	}
	return totals, nil
}

// checkOp checks what an op says on its own.
func (c *Corpus) checkOp(op *Op) error {
	switch {
	case op.Kind > Cleared:
		return fmt.Errorf("unknown kind %d", uint8(op.Kind))
	case int(op.Slot) >= len(c.Ranks):
		return fmt.Errorf("slot %d of %d ranks", op.Slot, len(c.Ranks))
	case op.Deadline < 0 || op.Deadline > c.Manifest.WindowNS:
		return fmt.Errorf("deadline %d is outside the window of %d ns", op.Deadline, c.Manifest.WindowNS)
	case op.HasParent > 1 || op.HasParent == 1 && op.Kind != Stored:
		return fmt.Errorf("has-parent mark %d on a %s", op.HasParent, op.Kind)
	case op.HasParent == 0 && op.Parent != 0:
		return errors.New("parent without a mark")
	case op.Kind == Cleared && op.Len != 0:
		return fmt.Errorf("cleared with %d blocks", op.Len)
	case op.Reserved != 0:
		return errors.New("reserved bytes are not zero")
	}
	return nil
}

// compareOps orders ops but for the order within a rank, which the numbers of
// queries and events give.
func compareOps(a, b *Op) int {
	if a.Deadline != b.Deadline {
		return cmp.Compare(a.Deadline, b.Deadline)
	}
	if qa, qb := a.Kind == Query, b.Kind == Query; qa != qb {
		if qa {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.Slot, b.Slot)
}

func checkTotals(have, want *Totals) error {
	for _, t := range []struct {
		name       string
		have, want int64
	}{
		{"requests", have.Requests, want.Requests},
		{"request_blocks", have.RequestBlocks, want.RequestBlocks},
		{"stored_events", have.StoredEvents, want.StoredEvents},
		{"stored_blocks", have.StoredBlocks, want.StoredBlocks},
		{"removed_events", have.RemovedEvents, want.RemovedEvents},
		{"removed_blocks", have.RemovedBlocks, want.RemovedBlocks},
		{"cleared_events", have.ClearedEvents, want.ClearedEvents},
	} {
		if t.have != t.want {
			return fmt.Errorf("manifest: total %s is %d where the ops have %d", t.name, t.have, t.want)
		}
	}
	return nil
}
