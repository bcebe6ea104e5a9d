package corpus

import (
	"math/bits"
	"slices"
	"time"
)

// Description is what there is to know about a corpus at a glance.
type Description struct {
	Manifest  Manifest `json:"manifest"`
	Ranks     int      `json:"ranks"`
	Ops       int64    `json:"ops"`
	BlockOps  int64    `json:"block_ops"`
	SizeBytes int64    `json:"size_bytes"` // in memory, as SizeBytes returns it

	// Offered rates, over the window.
	OpsPerSec      float64 `json:"ops_per_sec"`
	QueriesPerSec  float64 `json:"queries_per_sec"`
	EventsPerSec   float64 `json:"events_per_sec"`
	BlockOpsPerSec float64 `json:"block_ops_per_sec"`

	QueriesPerRank Spread `json:"queries_per_rank"`
	EventsPerRank  Spread `json:"events_per_rank"`
	// Deadlines counts the different deadlines, MostAtOnce the ops of the one
	// that has most.
	Deadlines  int64 `json:"deadlines"`
	MostAtOnce int64 `json:"most_at_once"`

	// What became of the requests: from a query's deadline to the first token and
	// to the end, in ns of the window, over those that ran, and how many of these
	// were on their way at once.
	NeverRan     int64  `json:"never_ran"`
	ToFirstToken Spread `json:"to_first_token_ns"`
	ToFinish     Spread `json:"to_finish_ns"`
	MostInFlight int64  `json:"most_in_flight"`
	// FinishLater counts the requests that end behind the end of the window.
	FinishLater int64 `json:"finish_later"`

	// Buckets cut the window into equal parts. Each part includes its start;
	// the last one includes the end of the window too.
	Buckets []Bucket `json:"buckets"`
}

// Spread is the smallest, the middle and the largest value; of an even number of
// values the middle is the lower one.
type Spread struct {
	Min    int64 `json:"min"`
	Median int64 `json:"median"`
	Max    int64 `json:"max"`
}

// Bucket counts the ops with deadlines in one part of the window.
type Bucket struct {
	Queries  int64 `json:"queries"`
	Events   int64 `json:"events"`
	BlockOps int64 `json:"block_ops"`
}

// Describe describes a well-formed corpus, with its window cut into the given
// number of buckets, at least 1. It reads all ops once.
func (c *Corpus) Describe(buckets int) Description {
	d := Description{
		Manifest:  c.Manifest,
		Ranks:     len(c.Ranks),
		Ops:       int64(len(c.Ops)),
		BlockOps:  c.Manifest.Totals.BlockOps(),
		SizeBytes: c.SizeBytes(),
		Buckets:   make([]Bucket, max(buckets, 1)),
	}
	queries := make([]int64, len(c.Ranks))
	events := make([]int64, len(c.Ranks))
	last, atOnce := int64(-1), int64(0)
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Deadline != last {
			last, atOnce = op.Deadline, 0
			d.Deadlines++
		}
		atOnce++
		d.MostAtOnce = max(d.MostAtOnce, atOnce)
		b := &d.Buckets[bucketOf(op.Deadline, c.Manifest.WindowNS, len(d.Buckets))]
		b.BlockOps += int64(op.Len)
		if op.Kind == Query {
			b.Queries++
			queries[op.Slot]++
		} else {
			b.Events++
			events[op.Slot]++
		}
	}
	c.describeRequests(&d)
	d.QueriesPerRank, d.EventsPerRank = spreadOf(queries), spreadOf(events)
	perSec := func(n int64) float64 { return float64(n) / time.Duration(c.Manifest.WindowNS).Seconds() }
	d.OpsPerSec = perSec(d.Ops)
	d.QueriesPerSec = perSec(c.Manifest.Totals.Requests)
	d.EventsPerSec = perSec(c.Manifest.Totals.Events())
	d.BlockOpsPerSec = perSec(d.BlockOps)
	return d
}

// describeRequests says what became of the requests.
func (c *Corpus) describeRequests(d *Description) {
	var first, last, ends []int64
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Kind != Query {
			continue
		}
		r := &c.Requests[op.Seq]
		if !r.Ran() {
			d.NeverRan++
			continue
		}
		first, last = append(first, r.FirstToken-op.Deadline), append(last, r.Finish-op.Deadline)
		ends = append(ends, r.Finish)
		if r.Finish > c.Manifest.WindowNS {
			d.FinishLater++
		}
	}
	d.ToFirstToken, d.ToFinish = spreadOf(first), spreadOf(last)
	// A request that ends when another comes is not on its way with it.
	slices.Sort(ends)
	came, ended := int64(0), 0
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Kind != Query || !c.Requests[op.Seq].Ran() {
			continue
		}
		came++
		for ended < len(ends) && ends[ended] <= op.Deadline {
			ended++
		}
		d.MostInFlight = max(d.MostInFlight, came-int64(ended))
	}
}

func bucketOf(deadline, window int64, n int) int {
	hi, lo := bits.Mul64(uint64(deadline), uint64(n))
	b, _ := bits.Div64(hi, lo, uint64(window))
	return min(int(b), n-1)
}

// spreadOf sorts v.
func spreadOf(v []int64) Spread {
	if len(v) == 0 {
		return Spread{}
	}
	slices.Sort(v)
	return Spread{Min: v[0], Median: v[(len(v)-1)/2], Max: v[len(v)-1]}
}
