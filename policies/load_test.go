package policies

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// naiveLoad is ActiveLoad in its simplest form: a list of requests, from which
// every figure is counted anew.
type naiveLoad struct {
	known  []bool
	active []naiveRequest
	// names gives a number to each path of hashes from the root, by the number of
	// the path before its last hash.
	names map[naivePath]int
}

type naivePath struct {
	before int
	local  indexer.LocalHash
}

// paths calls for each path from the root of a prompt until yield says no.
func (n *naiveLoad) paths(prompt []indexer.LocalHash, yield func(path int) bool) {
	path := 0
	for _, local := range prompt {
		name, ok := n.names[naivePath{path, local}]
		if !ok {
			name = len(n.names) + 1
			n.names[naivePath{path, local}] = name
		}
		if path = name; !yield(path) {
			return
		}
	}
}

type naiveRequest struct {
	id         uint64
	at         time.Duration
	slot       indexer.Slot
	locals     []indexer.LocalHash
	prefill    int64
	own, grown int64
}

func (n *naiveLoad) find(id uint64) int {
	return slices.IndexFunc(n.active, func(r naiveRequest) bool { return r.id == id })
}

func (n *naiveLoad) drop(which func(r naiveRequest) bool) int {
	before := len(n.active)
	n.active = slices.DeleteFunc(n.active, which)
	return before - len(n.active)
}

func (n *naiveLoad) columns(slot indexer.Slot, prompt []indexer.LocalHash) (prefill, decode int64, requests int32, shared uint32) {
	paths := map[int]bool{}
	for _, r := range n.active {
		if r.slot != slot {
			continue
		}
		prefill += r.prefill
		decode += r.own + r.grown
		requests++
		n.paths(r.locals, func(path int) bool { paths[path] = true; return true })
	}
	n.paths(prompt, func(path int) bool {
		if paths[path] {
			shared++
		}
		return paths[path]
	})
	return prefill, decode + int64(len(paths)), requests, shared
}

// loadScript plays operations named by bytes against ActiveLoad and the naive
// one and compares them after each.
func loadScript(t testing.TB, ops []byte) {
	const slots, blockSize = 3, 4
	l := NewActiveLoad(slots, 1)
	n := &naiveLoad{known: []bool{true, true, true}, names: map[naivePath]int{}}
	var now time.Duration
	var seen uint64
	mirror := make([][3]int64, slots)
	next := func() int {
		if len(ops) == 0 {
			return 0
		}
		b := ops[0]
		ops = ops[1:]
		return int(b)
	}
	prompt := func() []indexer.LocalHash {
		// Few distinct pieces, so that prompts share prefixes and repeat blocks, of
		// lengths that part them everywhere in a node.
		lengths := []int{1, 1, 1, 2, 5, nodeBlocks - 1, nodeBlocks, nodeBlocks + 1, 2 * nodeBlocks}
		var p []indexer.LocalHash
		for range next() % 6 {
			piece := next()
			for i := range lengths[piece/3%len(lengths)] {
				p = append(p, indexer.LocalHash(piece%3+i/2))
			}
		}
		return p
	}
	for len(ops) > 0 {
		switch op := next() % 8; op {
		case 0, 1, 2:
			now += time.Duration(next() % 4)
			r := Request{ID: uint64(next() % 16), Now: now, BlockSize: blockSize, Locals: prompt()}
			r.PromptTokens = len(r.Locals)*blockSize + next()%blockSize
			slot, cached := indexer.Slot(next()%slots), next()%(r.PromptTokens+1)
			nodes := l.byPath.used
			err := l.Dispatch(&r, slot, cached)
			if more := l.byPath.used - nodes; more > len(r.Locals)/nodeBlocks+2 {
				t.Fatalf("a prompt of %d blocks makes %d nodes", len(r.Locals), more)
			}
			if (err != nil) != (n.find(r.ID) >= 0) {
				t.Fatalf("dispatch of %d: %v; active: %v", r.ID, err, n.find(r.ID) >= 0)
			}
			if err == nil {
				n.known[slot] = true
				n.active = append(n.active, naiveRequest{id: r.ID, at: now, slot: slot, locals: r.Locals,
					prefill: int64(r.PromptTokens - cached), own: int64(r.Blocks() - len(r.Locals))})
			}
		case 3, 4:
			id := uint64(next() % 16)
			i := n.find(id)
			if l.Finish(id) != (i >= 0) {
				t.Fatalf("finish of %d: active: %v", id, i >= 0)
			}
			n.drop(func(r naiveRequest) bool { return r.id == id })
		case 5:
			id, blocks := uint64(next()%16), next()%3-1
			i := n.find(id)
			if l.FirstToken(id) != (i >= 0) || l.Grow(id, blocks) != (i >= 0 && blocks >= 0) {
				t.Fatalf("first token or growth of %d: active: %v", id, i >= 0)
			}
			if i >= 0 {
				n.active[i].prefill = 0
				n.active[i].grown += int64(max(0, blocks))
			}
		case 6:
			before := now - time.Duration(next()%8)
			if got, want := l.Expire(before), n.drop(func(r naiveRequest) bool { return r.at < before }); got != want {
				t.Fatalf("expired %d, want %d", got, want)
			}
		case 7:
			slot := indexer.Slot(next() % slots)
			n.drop(func(r naiveRequest) bool { return r.slot == slot })
			if n.known[slot] = next()%2 == 0; n.known[slot] {
				l.Forget(slot)
			} else {
				l.SetUnknown(slot)
			}
		}
		// Who follows the changes knows all loads.
		changed, all, last := l.changes.Since(seen)
		if seen = last; all {
			changed = []indexer.Slot{0, 1, 2}
		}
		for _, slot := range changed {
			mirror[slot] = [3]int64{l.prefill[slot], l.decode[slot], int64(l.requests[slot])}
		}
		checkLoad(t, l)
		r := Request{BlockSize: blockSize, Locals: prompt()}
		var c LoadColumns
		l.columns(&r, &c)
		var sharing []indexer.Slot
		for slot := range indexer.Slot(slots) {
			prefill, decode, requests, shared := n.columns(slot, r.Locals)
			if c.PrefillTokens[slot] != prefill || c.DecodeBlocks[slot] != decode || c.Requests[slot] != requests ||
				c.SharedBlocks[slot] != shared || c.Known[slot] != n.known[slot] {
				t.Fatalf("slot %d: prefill %d, decode %d, requests %d, shared %d, known %v; want %d, %d, %d, %d, %v", slot,
					c.PrefillTokens[slot], c.DecodeBlocks[slot], c.Requests[slot], c.SharedBlocks[slot], c.Known[slot],
					prefill, decode, requests, shared, n.known[slot])
			}
			if want := [3]int64{prefill, decode, int64(requests)}; mirror[slot] != want {
				t.Fatalf("slot %d: the changes lead to %v, want %v", slot, mirror[slot], want)
			}
			if shared > 0 {
				sharing = append(sharing, slot)
			}
		}
		got := slices.Sorted(slices.Values(c.Sharing))
		if !slices.Equal(got, sharing) {
			t.Fatalf("sharing %v, want %v", got, sharing)
		}
		if l.Active() != len(n.active) {
			t.Fatalf("%d active, want %d", l.Active(), len(n.active))
		}
	}
	// Nothing is left when nothing is active, and its memory is used again.
	for slot := range indexer.Slot(slots) {
		l.Forget(slot)
	}
	checkLoad(t, l)
	if l.byID.used != 0 || l.byPath.used != 0 || l.byNode.used != 0 || l.Active() != 0 {
		t.Fatalf("without requests there are %d requests, %d blocks and %d holders left", l.byID.used, l.byPath.used, l.byNode.used)
	}
}

// checkLoad checks what must be so between calls.
func checkLoad(t testing.TB, l *ActiveLoad) {
	t.Helper()
	refs := make([]uint32, len(l.holds))
	for q := l.active[0].next; q != 0; q = l.active[q].next {
		refs[l.active[q].last]++
	}
	decode := make([]int64, len(l.decode))
	for q := l.active[0].next; q != 0; q = l.active[q].next {
		decode[l.active[q].slot] += l.active[q].own
	}
	var nodes, holds int
	used := map[uint32]bool{}
	siblings := map[naivePath]bool{}
	for i := range l.nodes {
		n := &l.nodes[i]
		if n.count == 0 {
			continue
		}
		nodes++
		blocks := l.blocks(uint32(i))
		if blocks < 1 || blocks > nodeBlocks || (n.page != 0) != (blocks > 1) {
			t.Fatalf("node %d: %d blocks, page %d", i, blocks, n.page)
		}
		if n.parent != 0 && l.nodes[n.parent].count < n.count {
			t.Fatalf("node %d: %d hold it, %d its parent", i, n.count, l.nodes[n.parent].count)
		}
		if n.page != 0 {
			if used[n.page] {
				t.Fatalf("node %d: page %d is another's", i, n.page)
			}
			used[n.page] = true
		}
		at := naivePath{int(n.parent), n.local}
		if siblings[at] || l.child(n.parent, n.local) != uint32(i) {
			t.Fatalf("node %d is not the only one of its name or not found", i)
		}
		siblings[at] = true
		count := uint32(0)
		for h, prev := n.first, uint32(0); h != 0; prev, h = h, l.holds[h].next {
			e := &l.holds[h]
			if e.node != uint32(i) || e.prev != prev || l.hold(e.node, e.slot) != h {
				t.Fatalf("hold %d of node %d: %+v", h, i, *e)
			}
			if up := &l.holds[e.up]; up.node != n.parent || e.up != 0 && up.slot != e.slot {
				t.Fatalf("hold %d %+v is below %+v, and its node below %d", h, *e, *up, n.parent)
			}
			refs[e.up]++
			decode[e.slot] += blocks
			count++
		}
		if count != n.count {
			t.Fatalf("node %d: %d holds of %d", i, count, n.count)
		}
		holds += int(count)
	}
	for h := 1; h < len(l.holds); h++ {
		if l.holds[h].refs != refs[h] {
			t.Fatalf("hold %d: %d references, want %d", h, l.holds[h].refs, refs[h])
		}
	}
	for p := l.freePage; p != 0; p = uint32(l.page(p)[0]) {
		if used[p] {
			t.Fatalf("page %d is free and used, or free twice", p)
		}
		used[p] = true
	}
	if nodes != l.byPath.used || holds != l.byNode.used || len(used)*pageBlocks != len(l.pages) || !slices.Equal(decode, l.decode) {
		t.Fatalf("%d nodes of %d, %d holds of %d, %d pages of %d, decode blocks %v of %v",
			nodes, l.byPath.used, holds, l.byNode.used, len(used), len(l.pages)/pageBlocks, decode, l.decode)
	}
}

func TestActiveLoadEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		ops := make([]byte, 300)
		for i := range ops {
			ops[i] = byte(rng.Uint32())
		}
		loadScript(t, ops)
	}
}

func FuzzActiveLoad(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 9, 9, 9, 3, 1})
	f.Fuzz(func(t *testing.T, ops []byte) { loadScript(t, ops[:min(len(ops), 400)]) })
}

func TestActiveLoadRefuses(t *testing.T) {
	good := Request{ID: 1, BlockSize: 4, PromptTokens: 9, Locals: []indexer.LocalHash{1, 2}}
	for name, change := range map[string]func(r *Request, slot *indexer.Slot, cached *int){
		"slot":       func(_ *Request, slot *indexer.Slot, _ *int) { *slot = 2 },
		"block size": func(r *Request, _ *indexer.Slot, _ *int) { r.BlockSize = 0 },
		"prompt":     func(r *Request, _ *indexer.Slot, _ *int) { r.PromptTokens = -1 },
		"negative":   func(_ *Request, _ *indexer.Slot, cached *int) { *cached = -1 },
		"cached":     func(_ *Request, _ *indexer.Slot, cached *int) { *cached = 10 },
		"hashes":     func(r *Request, _ *indexer.Slot, _ *int) { r.Locals = make([]indexer.LocalHash, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			l, r, slot, cached := NewActiveLoad(2, 0), good, indexer.Slot(1), 3
			change(&r, &slot, &cached)
			if err := l.Dispatch(&r, slot, cached); err == nil || l.Active() != 0 {
				t.Fatalf("dispatched: %v, %d active", err, l.Active())
			}
		})
	}
}

func TestActiveLoadDoesNotAllocate(t *testing.T) {
	const slots = 128
	l := NewActiveLoad(slots, 64)
	locals := make([]indexer.LocalHash, 100)
	for i := range locals {
		locals[i] = indexer.LocalHash(i)
	}
	id, now := uint64(0), time.Duration(0)
	var out LoadColumns
	step := func() {
		id++
		now++
		// Prompts that end everywhere, and part from each other at one place.
		r := Request{ID: id, Now: now, BlockSize: 16, PromptTokens: 1605, Locals: locals[:20+id%80]}
		locals[15] = indexer.LocalHash(id % 3)
		l.columns(&r, &out)
		if err := l.Dispatch(&r, indexer.Slot(id%slots), 32); err != nil {
			t.Fatal(err)
		}
		l.FirstToken(id)
		l.Grow(id, 2)
		if id%2 == 0 {
			l.Finish(id - 1)
		}
		l.Expire(now - 60)
	}
	for range 5000 {
		step()
	}
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
	checkLoad(t, l)
}

func TestChangeLogForgets(t *testing.T) {
	var c ChangeLog
	c.start(10)
	for i := range 1000 {
		c.add(indexer.Slot(i % 10))
	}
	if _, all, last := c.Since(0); !all || last != 1000 {
		t.Errorf("from the start: all %v, last %d", all, last)
	}
	if slots, all, _ := c.Since(997); all || !slices.Equal(slots, []indexer.Slot{7, 8, 9}) {
		t.Errorf("the last three: %v, all %v", slots, all)
	}
	if slots, all, _ := c.Since(1000); all || len(slots) != 0 {
		t.Errorf("nothing new: %v, all %v", slots, all)
	}
	if _, all, _ := c.Since(1000 - 257); !all {
		t.Error("what was overwritten is given")
	}
	if slots, all, _ := c.Since(1000 - 256); all || len(slots) != 256 {
		t.Errorf("the oldest kept: %d, all %v", len(slots), all)
	}
}
