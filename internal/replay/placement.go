package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/host"
)

// NoCPU stands for a thread that is not pinned.
const NoCPU = -1

// CPURequest is what the user asked for. Empty lists and NoCPU leave the choice
// to Place.
type CPURequest struct {
	QueryIssuer int   // CPU of the query issuer, or NoCPU
	Issuers     []int // one CPU for each event issuer
	Backend     []int // query threads first, then event threads
	Reader      int   // CPU of the reader, or NoCPU
	AllowShared bool  // threads may share CPUs; the result is marked
}

// ThreadCounts says how many threads of each role there are. A count of 0 leaves
// the choice to Place, except for Reader, which is 0 or 1.
type ThreadCounts struct {
	EventIssuers int
	QueryThreads int
	EventThreads int
	Reader       int
}

// Placement says on which CPU each thread runs; NoCPU everywhere if the run is
// not pinned.
type Placement struct {
	Threads     ThreadCounts // with every count filled in
	QueryIssuer int
	Issuers     []int
	Query       []int
	Event       []int
	Reader      int
	Pinned      bool
	// Shared says that threads may meet on one CPU.
	Shared bool
	// Note says why the run is not pinned or shares CPUs although nobody asked
	// for it, "" otherwise.
	Note string
}

// total is the number of threads of the timed run.
func (c ThreadCounts) total() int {
	return 1 + c.EventIssuers + c.QueryThreads + c.EventThreads + c.Reader
}

// Place decides the number of threads and their CPUs.
//
// Nothing asked: each thread gets a CPU of its own if allowed has enough, else
// the run is unpinned, its CPUs are shared and Note says so. Something asked:
// what was asked is done or an error says why not; roles without a list take
// CPUs that nobody asked for.
func Place(req CPURequest, counts ThreadCounts, allowed []int) (Placement, error) {
	for _, n := range []struct {
		flag  string
		count int
	}{{"event-issuers", counts.EventIssuers}, {"query-threads", counts.QueryThreads}, {"event-workers", counts.EventThreads}} {
		// Checked before slices of that length are made.
		if n.count > MaxThreads {
			return Placement{}, fmt.Errorf("--%s is %d; it must be at most %d", n.flag, n.count, MaxThreads)
		}
	}
	if len(allowed) == 0 {
		return Placement{}, errors.New("no CPU is allowed to this process")
	}
	if err := checkAllowed(req, allowed); err != nil {
		return Placement{}, err
	}
	if !req.AllowShared {
		if err := checkDisjoint(req); err != nil {
			return Placement{}, err
		}
	}
	counts, err := fillCounts(req, counts, len(allowed))
	if err != nil {
		return Placement{}, err
	}
	asked := req.QueryIssuer != NoCPU || len(req.Issuers) > 0 || len(req.Backend) > 0 || req.Reader != NoCPU
	if !asked {
		if req.AllowShared || counts.total() > len(allowed) {
			p := unpinned(counts)
			if !req.AllowShared {
				p.Note = fmt.Sprintf("not pinned, CPUs shared: the run has %d threads and this process may use %d CPUs (%s)",
					counts.total(), len(allowed), listCPUs(allowed))
			}
			return p, nil
		}
		req.Backend = nil
	}
	return pinned(req, counts, allowed)
}

func listCPUs(cpus []int) string { return host.FormatCPUs(slices.Sorted(slices.Values(cpus))) }

func checkAllowed(req CPURequest, allowed []int) error {
	check := func(flag string, cpus ...int) error {
		for _, c := range cpus {
			if c != NoCPU && !slices.Contains(allowed, c) {
				return fmt.Errorf("--%s: CPU %d does not exist or is not allowed to this process; it may use %s: name those, leave the CPU flags out and run unpinned, or pass --allow-shared-cpus to put several threads on one",
					flag, c, listCPUs(allowed))
			}
		}
		return nil
	}
	return errors.Join(
		check("query-issuer-cpu", req.QueryIssuer),
		check("issuer-cpus", req.Issuers...),
		check("backend-cpus", req.Backend...),
		check("resident-blocks-reader-cpu", req.Reader),
	)
}

func checkDisjoint(req CPURequest) error {
	owner := map[int]string{}
	var errs []error
	claim := func(flag string, cpus ...int) {
		for _, c := range cpus {
			if c == NoCPU {
				continue
			}
			if by, taken := owner[c]; taken {
				errs = append(errs, fmt.Errorf("CPU %d is in both --%s and --%s; give each thread its own CPU, or pass --allow-shared-cpus and accept a result that is marked as shared",
					c, by, flag))
				continue
			}
			owner[c] = flag
		}
	}
	claim("query-issuer-cpu", req.QueryIssuer)
	claim("issuer-cpus", req.Issuers...)
	claim("backend-cpus", req.Backend...)
	claim("resident-blocks-reader-cpu", req.Reader)
	return errors.Join(errs...)
}

// Numbers of threads that nobody chose, where there are CPUs for them. On a
// smaller machine there are fewer: one thread of a kind for each CPU.
const (
	defaultEventThreads = 4
	defaultQueryThreads = 2
)

func fillCounts(req CPURequest, c ThreadCounts, cpus int) (ThreadCounts, error) {
	if n := len(req.Issuers); n > 0 {
		if c.EventIssuers > 0 && c.EventIssuers != n {
			return c, fmt.Errorf("--event-issuers is %d but --issuer-cpus has %d CPUs; one CPU makes one issuer", c.EventIssuers, n)
		}
		c.EventIssuers = n
	}
	if c.EventIssuers == 0 {
		c.EventIssuers = 1
	}
	if n := len(req.Backend); n > 0 && !req.AllowShared {
		switch {
		case c.EventThreads == 0 && c.QueryThreads == 0:
			c.EventThreads = max(1, n/2)
			c.QueryThreads = n - c.EventThreads
		case c.EventThreads == 0:
			c.EventThreads = n - c.QueryThreads
		case c.QueryThreads == 0:
			c.QueryThreads = n - c.EventThreads
		}
		if c.EventThreads < 1 || c.QueryThreads < 1 || c.EventThreads+c.QueryThreads > n {
			return c, fmt.Errorf("--backend-cpus has %d CPUs for %d query threads and %d event threads; list at least %d CPUs, ask for fewer threads, or pass --allow-shared-cpus",
				n, max(1, c.QueryThreads), max(1, c.EventThreads), max(1, c.QueryThreads)+max(1, c.EventThreads))
		}
	}
	if c.EventThreads == 0 {
		c.EventThreads = min(defaultEventThreads, cpus)
	}
	if c.QueryThreads == 0 {
		c.QueryThreads = min(defaultQueryThreads, cpus)
	}
	return c, nil
}

func unpinned(c ThreadCounts) Placement {
	none := func(n int) []int { return slices.Repeat([]int{NoCPU}, n) }
	return Placement{
		Threads:     c,
		QueryIssuer: NoCPU,
		Issuers:     none(c.EventIssuers),
		Query:       none(c.QueryThreads),
		Event:       none(c.EventThreads),
		Reader:      NoCPU,
		Shared:      true,
	}
}

// pinned gives every thread a CPU: the one asked for, else a free one. With
// AllowShared a role without free CPUs goes round the CPUs it may use.
func pinned(req CPURequest, c ThreadCounts, allowed []int) (Placement, error) {
	used := map[int]int{}
	for _, cpu := range slices.Concat([]int{req.QueryIssuer, req.Reader}, req.Issuers, req.Backend) {
		used[cpu]++
	}
	var free []int
	for _, cpu := range allowed {
		if used[cpu] == 0 {
			free = append(free, cpu)
		}
	}
	var missing []string
	turn := 0
	take := func(flag string, from []int, n int) []int {
		out := make([]int, 0, n)
		for i := range n {
			switch {
			case i < len(from):
				out = append(out, from[i])
			case len(from) > 0 && req.AllowShared:
				out = append(out, from[i%len(from)])
			case len(from) == 0 && len(free) > 0:
				out = append(out, free[0])
				free = free[1:]
			case req.AllowShared:
				out = append(out, allowed[turn%len(allowed)])
				turn++
			default:
				missing = append(missing, "--"+flag)
				return out
			}
		}
		return out
	}
	one := func(cpu int) []int {
		if cpu == NoCPU {
			return nil
		}
		return []int{cpu}
	}
	p := Placement{Threads: c, Reader: NoCPU, Pinned: true}
	queryIssuer := take("query-issuer-cpu", one(req.QueryIssuer), 1)
	p.Issuers = take("issuer-cpus", req.Issuers, c.EventIssuers)
	backend := take("backend-cpus", req.Backend, c.QueryThreads+c.EventThreads)
	var reader []int
	if c.Reader > 0 {
		reader = take("resident-blocks-reader-cpu", one(req.Reader), 1)
	}
	if len(missing) > 0 {
		return Placement{}, fmt.Errorf("not enough CPUs for %s: the run has %d threads and this process may use %d CPUs (%s); ask for fewer threads, or pass --allow-shared-cpus and accept a result that is marked as shared",
			strings.Join(missing, ", "), c.total(), len(allowed), listCPUs(allowed))
	}
	p.QueryIssuer = queryIssuer[0]
	p.Query, p.Event = backend[:c.QueryThreads], backend[c.QueryThreads:]
	if len(reader) > 0 {
		p.Reader = reader[0]
	}
	seen := map[int]bool{}
	for _, cpu := range slices.Concat(queryIssuer, p.Issuers, backend, reader) {
		p.Shared = p.Shared || seen[cpu]
		seen[cpu] = true
	}
	return p, nil
}
