package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Suggestion is a set of disjoint CPUs for the roles of a replay, each thread on
// a physical core of its own.
type Suggestion struct {
	Threads     int    `json:"threads"`      // that were asked for
	TooSmall    string `json:"too_small"`    // why it cannot be done; "": it can, and the rest is filled in
	QueryIssuer string `json:"query_issuer"` // CPU lists
	Issuers     string `json:"issuers"`
	Backend     string `json:"backend"`
	Reader      string `json:"reader"` // "" below 5 threads
	// KeepIdle are the other CPUs of the same cores: what runs there slows the
	// threads.
	KeepIdle string   `json:"keep_idle"`
	Notes    []string `json:"notes"`
}

// Flags are those of 'kvbench replay' that say the same; a reader needs
// --track-resident-blocks, which is not among them.
func (s *Suggestion) Flags() string {
	if s.TooSmall != "" {
		return ""
	}
	flags := fmt.Sprintf("--query-issuer-cpu %s --issuer-cpus %s --backend-cpus %s", s.QueryIssuer, s.Issuers, s.Backend)
	if s.Reader != "" {
		flags += " --resident-blocks-reader-cpu " + s.Reader
	}
	return flags
}

// threadsPerIssuer is how many threads of a suggestion share one event issuer.
const threadsPerIssuer = 16

// Suggest proposes CPUs for so many threads of a replay, one logical CPU on each
// physical core: one query issuer, one event issuer for every 16 threads, one
// reader from 5 threads on, and the rest is the backend. It takes the cores of
// one NUMA node if one has enough, those that share a cache next to each other,
// leaves out the core of CPU 0, where much of the kernel's own work runs, if it
// can, and prefers CPUs that the kernel keeps free (isolcpus).
func (r *Report) Suggest(threads int) (Suggestion, error) {
	s := Suggestion{Threads: threads, Notes: []string{}}
	if threads < leastCores {
		return s, fmt.Errorf("--suggest is %d; a replay has at least %d threads: query issuer, event issuer, query thread, event thread", threads, leastCores)
	}
	l := &r.Layout
	if l.Problem != "" {
		s.TooSmall = "the kernel does not say which CPUs share a core: " + l.Problem
		return s, nil
	}
	cores := freeCores(l)
	if len(cores) < threads {
		s.TooSmall = fmt.Sprintf("%d threads need %d physical cores, and this process may use %d (CPUs %s); ask for fewer, widen the mask, or use a larger machine",
			threads, threads, len(cores), l.AllowedCPUs)
		return s, nil
	}
	isolated, _ := ParseCPUs(r.Settings.Isolated) // "" is none
	cores = s.choose(cores, threads, isolated)
	first := make([]int, len(cores))
	var idle []int
	for i, c := range cores {
		first[i] = c.first
		idle = append(idle, c.others...)
	}
	slices.Sort(idle)
	take := func(n int) string {
		out := FormatCPUs(slices.Sorted(slices.Values(first[:n])))
		first = first[n:]
		return out
	}
	s.QueryIssuer = take(1)
	s.Issuers = take(1 + (threads-1)/threadsPerIssuer)
	if threads > leastCores {
		s.Reader = take(1)
	}
	s.Backend = take(len(first))
	if s.KeepIdle = FormatCPUs(idle); s.KeepIdle != "" {
		s.Notes = append(s.Notes, "keep CPUs "+s.KeepIdle+" idle: they are the other half of the same cores")
	}
	return s, nil
}

// freeCore is a core with an allowed CPU.
type freeCore struct {
	node   int
	cache  int // first CPU of the largest cache that it shares
	first  int // allowed CPU to use
	others []int
}

func freeCores(l *Layout) []freeCore {
	var out []freeCore
	seen := map[string]bool{}
	for _, c := range l.CPUs {
		if !c.Allowed || seen[c.Siblings] {
			continue
		}
		seen[c.Siblings] = true
		core := freeCore{node: c.Node, cache: c.CPU, first: c.CPU}
		siblings, _ := ParseCPUs(c.Siblings)
		for _, s := range siblings {
			if s != c.CPU {
				core.others = append(core.others, s)
			}
		}
		for _, cache := range l.Caches { // ascending by level
			if list, err := ParseCPUs(cache.Shared); err == nil && slices.Contains(list, c.CPU) {
				core.cache = list[0]
			}
		}
		out = append(out, core)
	}
	slices.SortFunc(out, func(a, b freeCore) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.cache, b.cache), cmp.Compare(a.first, b.first))
	})
	return out
}

// choose returns n cores: those that the kernel keeps free if there are enough,
// else any.
func (s *Suggestion) choose(cores []freeCore, n int, isolated []int) []freeCore {
	if len(isolated) > 0 {
		kept := slices.DeleteFunc(slices.Clone(cores), func(c freeCore) bool { return !slices.Contains(isolated, c.first) })
		if len(kept) >= n {
			s.Notes = append(s.Notes, "all are CPUs that the kernel keeps free (isolcpus)")
			return s.close(kept, n)
		}
		s.Notes = append(s.Notes, "not only CPUs that the kernel keeps free (isolcpus "+FormatCPUs(isolated)+"), of which there are too few")
	}
	return s.close(cores, n)
}

// close returns n cores that are close together. Cores without CPU 0 come first
// and those of one node, in this order: one node without CPU 0, one node, all
// without CPU 0, all.
func (s *Suggestion) close(cores []freeCore, n int) []freeCore {
	isFirst := func(c freeCore) bool { return c.first == 0 || slices.Contains(c.others, 0) }
	var nodes [][]freeCore
	for _, c := range cores {
		if k := len(nodes); k == 0 || nodes[k-1][0].node != c.node {
			nodes = append(nodes, nil)
		}
		nodes[len(nodes)-1] = append(nodes[len(nodes)-1], c)
	}
	for _, groups := range [][][]freeCore{nodes, {cores}} {
		for _, withFirst := range []bool{false, true} {
			for _, group := range groups {
				if !withFirst {
					group = slices.DeleteFunc(slices.Clone(group), isFirst)
				}
				if len(group) < n {
					continue
				}
				chosen := group[:n]
				s.spanned(chosen)
				if slices.ContainsFunc(chosen, isFirst) {
					s.Notes = append(s.Notes, "the core of CPU 0 is used, where much of the kernel's own work runs: no other set is as close together")
				}
				return chosen
			}
		}
	}
	return cores // not reached: the caller has checked that there are enough
}

func (s *Suggestion) spanned(cores []freeCore) {
	var nodes []string
	for _, c := range cores {
		if text := fmt.Sprint(c.node); !slices.Contains(nodes, text) {
			nodes = append(nodes, text)
		}
	}
	if len(nodes) > 1 {
		s.Notes = append(s.Notes, "the CPUs lie on NUMA nodes "+strings.Join(nodes, " and ")+": no node has enough cores, and memory of another node is slower")
	}
}
