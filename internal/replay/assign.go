package replay

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
)

// Assignment is how ranks go to event threads.
type Assignment uint8

const (
	// RoundRobin gives rank i of the corpus, in the order of workers and
	// data-parallel ranks, to thread i modulo the number of threads.
	RoundRobin Assignment = iota
	// Hash gives a rank to the thread that the FNV-1a hash of its worker and
	// data-parallel rank names, as a router does that knows nothing of the others.
	Hash
	// Balanced gives each thread about the same work, which only someone who
	// knows all events beforehand can do.
	Balanced
)

var assignments = []string{RoundRobin: "roundrobin", Hash: "hash", Balanced: "balanced"}

// Assignments returns the names that ParseAssignment reads.
func Assignments() []string { return slices.Clone(assignments) }

// String returns the name that ParseAssignment reads.
func (a Assignment) String() string {
	if int(a) < len(assignments) {
		return assignments[a]
	}
	return fmt.Sprintf("Assignment(%d)", uint8(a))
}

// ParseAssignment reads "roundrobin", "hash" or "balanced".
func ParseAssignment(s string) (Assignment, error) {
	if i := slices.Index(assignments, s); i >= 0 {
		return Assignment(i), nil
	}
	return 0, fmt.Errorf("unknown assignment %q; it must be one of %s", s, strings.Join(assignments, ", "))
}

// assign returns the event thread of each slot of the corpus.
func assign(a Assignment, c *corpus.Corpus, threads int) []int {
	out := make([]int, len(c.Ranks))
	switch a {
	case Hash:
		for slot, rank := range c.Ranks {
			out[slot] = int(hashRank(rank) % uint64(threads))
		}
	case Balanced:
		balance(out, work(c), threads)
	default:
		for slot := range out {
			out[slot] = slot % threads
		}
	}
	return out
}

func hashRank(rank indexer.Rank) uint64 {
	var b [12]byte
	binary.LittleEndian.PutUint64(b[:], rank.Worker)
	binary.LittleEndian.PutUint32(b[8:], rank.DP)
	h := fnv.New64a()
	_, _ = h.Write(b[:]) // never fails
	return h.Sum64()
}

// work returns what each slot's events cost, in blocks: an event counts as much
// as a block of one, and a rank itself, so that those without events are spread
// too.
func work(c *corpus.Corpus) []int64 {
	out := slices.Repeat([]int64{1}, len(c.Ranks))
	for i := range c.Ops {
		if op := &c.Ops[i]; op.Kind != corpus.Query {
			out[op.Slot] += 1 + int64(op.Len)
		}
	}
	return out
}

// balance gives the slot with the most work to the thread that has the least,
// then the next. The longest sum is at most 4/3 - 1/(3 threads) of the best one
// (R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969). Equal ones
// go by number, so that the result is that of RoundRobin if all are equal.
func balance(out []int, work []int64, threads int) {
	order := make([]int, len(work))
	for slot := range order {
		order[slot] = slot
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case work[a] > work[b]:
			return -1
		case work[a] < work[b]:
			return 1
		}
		return 0
	})
	sums := make([]int64, threads)
	for _, slot := range order {
		least := 0
		for thread, sum := range sums {
			if sum < sums[least] {
				least = thread
			}
		}
		out[slot] = least
		sums[least] += work[slot]
	}
}
