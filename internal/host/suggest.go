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
// and leaves out the core of CPU 0, where much of the kernel's own work runs, if
// it can.
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
	cores = s.choose(cores, threads)
	if len(cores) > threads {
		cores = cores[:threads]
	}
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

// choose returns at least n cores in the order of preference.
func (s *Suggestion) choose(cores []freeCore, n int) []freeCore {
	isFirst := func(c freeCore) bool { return c.first == 0 || slices.Contains(c.others, 0) }
	var byNode [][]freeCore
	for _, c := range cores {
		if k := len(byNode); k == 0 || byNode[k-1][0].node != c.node {
			byNode = append(byNode, nil)
		}
		byNode[len(byNode)-1] = append(byNode[len(byNode)-1], c)
	}
	for _, group := range append(byNode, cores) {
		if rest := slices.DeleteFunc(slices.Clone(group), isFirst); len(rest) >= n {
			s.spanned(rest[:n])
			return rest
		}
		// A node that has enough with its first core is better than two nodes.
		if len(group) >= n {
			s.spanned(group[:n])
			s.Notes = append(s.Notes, "the core of CPU 0 is used, where much of the kernel's own work runs: no other set is as close together")
			return group
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
