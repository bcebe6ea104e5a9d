package corpus

import (
	"math"
	"math/big"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// rescaledPlainly does what Rescale does, plainly: all ops with their hashes are
// pulled apart, sorted and put together again.
func rescaledPlainly(c *Corpus, window int64) *Corpus {
	type item struct {
		op      Op
		hashes  []uint64
		request Request
	}
	var items []item
	for _, op := range c.Ops {
		it := item{op: op, hashes: c.Hashes[op.Hashes : op.Hashes+op.HashCount()]}
		if op.Kind == Query {
			it.request = c.Requests[op.Seq]
		}
		for _, at := range []*int64{&it.op.Deadline, &it.request.FirstToken, &it.request.Finish} {
			if *at == NeverRan {
				continue
			}
			d := new(big.Int).Mul(big.NewInt(*at), big.NewInt(window))
			if *at = math.MaxInt64; d.Div(d, big.NewInt(c.Manifest.WindowNS)).IsInt64() {
				*at = d.Int64()
			}
		}
		items = append(items, it)
	}
	sort.SliceStable(items, func(i, j int) bool {
		a, b := &items[i].op, &items[j].op
		if a.Deadline != b.Deadline {
			return a.Deadline < b.Deadline
		}
		if qa, qb := a.Kind == Query, b.Kind == Query; qa != qb {
			return qa
		}
		return a.Slot < b.Slot
	})
	out := &Corpus{Manifest: c.Manifest, Ranks: c.Ranks}
	out.Manifest.WindowNS = window
	for _, it := range items {
		it.op.Hashes = uint64(len(out.Hashes))
		out.Hashes = append(out.Hashes, it.hashes...)
		if it.op.Kind == Query {
			it.op.Seq = uint32(len(out.Requests))
			out.Requests = append(out.Requests, it.request)
		}
		out.Ops = append(out.Ops, it.op)
	}
	return out
}

func TestRescale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := random(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 60).Draw(t, "ops"))
		before := clone(c)
		window := rapid.SampledFrom([]int64{1, 2, 7, 1000, c.Manifest.WindowNS, 2e9, math.MaxInt64}).Draw(t, "window")
		got, err := c.Rescale(time.Duration(window))
		if err != nil {
			t.Fatal(err)
		}
		want := rescaledPlainly(c, window)
		if got.Manifest != want.Manifest || !slices.Equal(got.Ranks, want.Ranks) || !slices.Equal(got.Requests, want.Requests) ||
			!slices.Equal(got.Ops, want.Ops) || !slices.Equal(got.Hashes, want.Hashes) {
			t.Fatalf("window %d:\n%+v\nwant\n%+v", window, got, want)
		}
		if !slices.Equal(c.Ops, before.Ops) || !slices.Equal(c.Hashes, before.Hashes) || c.Manifest != before.Manifest {
			t.Fatal("the corpus itself was changed")
		}
		if window == c.Manifest.WindowNS && got.SHA256() != c.SHA256() {
			t.Fatal("the same window gives another corpus")
		}
	})
}

func TestRescaleRefuses(t *testing.T) {
	for _, window := range []time.Duration{0, -1} {
		if c, err := random(1, 10).Rescale(window); err == nil || !strings.Contains(err.Error(), "must be positive") {
			t.Errorf("%v: %v, %v", window, c, err)
		}
	}
}
