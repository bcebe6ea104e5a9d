package replay

import (
	"slices"
	"strings"
	"testing"
)

func cpus(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func noRequest() CPURequest { return CPURequest{QueryIssuer: NoCPU, Reader: NoCPU} }

func TestPlaceOnItsOwn(t *testing.T) {
	// Room for all: each thread has a CPU of its own.
	p, err := Place(noRequest(), ThreadCounts{Reader: 1}, cpus(16))
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat([]int{p.QueryIssuer, p.Reader}, p.Issuers, p.Query, p.Event)
	slices.Sort(all)
	if !p.Pinned || p.Shared || p.Note != "" || len(slices.Compact(all)) != p.Threads.total() || all[0] < 0 {
		t.Errorf("16 CPUs: %+v", p)
	}
	if p.Threads != (ThreadCounts{EventIssuers: 1, QueryThreads: 2, EventThreads: 4, Reader: 1}) {
		t.Errorf("16 CPUs: %+v threads", p.Threads)
	}
	// No room: unpinned, and said so.
	for n := 1; n < 6; n++ {
		p, err := Place(noRequest(), ThreadCounts{EventThreads: 2, QueryThreads: 2}, cpus(n))
		if err != nil {
			t.Fatal(err)
		}
		if p.Pinned || !p.Shared || !strings.Contains(p.Note, "not pinned") || p.Event[1] != NoCPU {
			t.Errorf("%d CPUs: %+v", n, p)
		}
	}
	// One more and there is room.
	if p, err := Place(noRequest(), ThreadCounts{EventThreads: 2, QueryThreads: 2}, cpus(6)); err != nil || !p.Pinned || p.Shared {
		t.Errorf("6 CPUs: %+v, %v", p, err)
	}
}

func TestPlaceAsAsked(t *testing.T) {
	req := CPURequest{QueryIssuer: 1, Issuers: []int{0, 8}, Backend: []int{2, 3, 4, 5, 6}, Reader: 7}
	p, err := Place(req, ThreadCounts{Reader: 1}, cpus(9))
	if err != nil {
		t.Fatal(err)
	}
	want := Placement{
		Threads:     ThreadCounts{EventIssuers: 2, QueryThreads: 3, EventThreads: 2, Reader: 1},
		QueryIssuer: 1, Issuers: []int{0, 8}, Query: []int{2, 3, 4}, Event: []int{5, 6}, Reader: 7, Pinned: true,
	}
	if !equalPlacement(p, want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
	// What is not asked for takes what is left.
	p, err = Place(CPURequest{QueryIssuer: NoCPU, Backend: []int{0, 1}, Reader: NoCPU}, ThreadCounts{}, cpus(4))
	if err != nil {
		t.Fatal(err)
	}
	want = Placement{Threads: ThreadCounts{1, 1, 1, 0}, QueryIssuer: 2, Issuers: []int{3}, Query: []int{0}, Event: []int{1}, Reader: NoCPU, Pinned: true}
	if !equalPlacement(p, want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
	// Shared on request: marked, on the CPUs that were listed.
	p, err = Place(CPURequest{QueryIssuer: 0, Backend: []int{1}, Reader: NoCPU, AllowShared: true}, ThreadCounts{EventThreads: 2, QueryThreads: 1}, cpus(2))
	if err != nil {
		t.Fatal(err)
	}
	want = Placement{Threads: ThreadCounts{1, 1, 2, 0}, QueryIssuer: 0, Issuers: []int{0}, Query: []int{1}, Event: []int{1, 1}, Reader: NoCPU, Pinned: true, Shared: true}
	if !equalPlacement(p, want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
}

func equalPlacement(a, b Placement) bool {
	return a.Threads == b.Threads && a.QueryIssuer == b.QueryIssuer && a.Reader == b.Reader && a.Pinned == b.Pinned && a.Shared == b.Shared && a.Note == b.Note &&
		slices.Equal(a.Issuers, b.Issuers) && slices.Equal(a.Query, b.Query) && slices.Equal(a.Event, b.Event)
}

func TestPlaceRefuses(t *testing.T) {
	none := noRequest()
	with := func(change func(*CPURequest)) CPURequest {
		r := none
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		req    CPURequest
		counts ThreadCounts
		want   []string
	}{
		"no such CPU":     {with(func(r *CPURequest) { r.Backend = []int{1, 9} }), ThreadCounts{}, []string{"--backend-cpus", "CPU 9", "0-3"}},
		"overlap":         {with(func(r *CPURequest) { r.Issuers, r.Backend = []int{0}, []int{0, 1} }), ThreadCounts{}, []string{"CPU 0", "--issuer-cpus", "--backend-cpus", "--allow-shared-cpus"}},
		"reader overlaps": {with(func(r *CPURequest) { r.QueryIssuer, r.Reader = 2, 2 }), ThreadCounts{Reader: 1}, []string{"CPU 2", "--resident-blocks-reader-cpu"}},
		"small backend":   {with(func(r *CPURequest) { r.Backend = []int{1, 2} }), ThreadCounts{EventThreads: 2, QueryThreads: 1}, []string{"--backend-cpus", "at least 3"}},
		"one in backend":  {with(func(r *CPURequest) { r.Backend = []int{1} }), ThreadCounts{}, []string{"--backend-cpus", "at least 2"}},
		"nothing left":    {with(func(r *CPURequest) { r.Backend = []int{0, 1, 2} }), ThreadCounts{}, []string{"--issuer-cpus", "4 CPUs"}},
		"issuer numbers":  {with(func(r *CPURequest) { r.Issuers = []int{0, 1} }), ThreadCounts{EventIssuers: 3}, []string{"--event-issuers is 3", "2 CPUs"}},
	} {
		_, err := Place(c.req, c.counts, cpus(4))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want an error with %q", name, err, want)
			}
		}
	}
	if _, err := Place(none, ThreadCounts{}, nil); err == nil {
		t.Error("no CPU at all was accepted")
	}
}
