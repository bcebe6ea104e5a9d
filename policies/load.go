package policies

import (
	"fmt"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// ActiveLoad is a router's own account of what its ranks have to do: what it
// dispatched and did not hear the end of. load_test.go has the same thing in its
// simplest form.
//
// The full blocks of active prompts form one tree, in which a block is named by
// its path of local hashes from the root. Each rank holds a part of the tree,
// whole paths from the root, and counts each block once, however many of its
// requests have it. A prompt's partial last block and the blocks of answers
// belong to one request.
//
// Blocks that follow each other are one node of the tree, up to nodeBlocks of
// them, until a prompt parts from them or ends among them: then the node is split
// there. So a request costs a look at each of its blocks, but a step per node.
//
// Its memory is in proportion to the most requests and nodes that were ever
// active at one time. A prompt of n blocks adds at most n/nodeBlocks+2 nodes, and
// there are never more than distinct active blocks; Expire bounds those where ends
// of requests are lost. A node takes 32 bytes, its blocks but the first
// 8*(nodeBlocks-1), and 24 for each rank that holds it, beside the tables. Once it
// had its largest size it does not allocate. It belongs to one goroutine.
type ActiveLoad struct {
	known    []bool
	prefill  []int64
	decode   []int64
	requests []int32
	ofSlot   []uint32 // the slot's first request
	changes  ChangeLog

	active   []activeRequest // 0 is the head of the list by time of dispatch
	freeReq  uint32
	byID     probe
	inFlight int

	nodes    []loadNode // 0 is the root
	freeNode uint32
	byPath   probe

	pages    []indexer.LocalHash // of pageBlocks each
	freePage uint32

	holds    []hold // 0 is nobody's
	freeHold uint32
	byNode   probe

	ids     []indexer.LocalHash
	path    []uint32 // nodes that are all in the prompt last looked up, in order
	shared  []uint32
	sharing []indexer.Slot
}

// activeRequest is in two rings: that of all requests by time of dispatch, through
// element 0, and the list of its slot.
type activeRequest struct {
	id         uint64
	dispatched time.Duration
	prefill    int64
	own        int64  // blocks that no other request can share
	last       uint32 // the hold of its deepest full block, 0: none
	slot       indexer.Slot
	next, prev uint32

	nextOfSlot, prevOfSlot uint32
}

// A node has at most nodeBlocks blocks: the first, and pageBlocks on a page.
const (
	nodeBlocks = 32
	pageBlocks = nodeBlocks - 1
)

// loadNode is successive blocks of active prompts. Whoever has one of them has
// all, and all before. It is one Stretch if requests come with those.
type loadNode struct {
	local  indexer.LocalHash // of the first block, or the ID of the stretch
	parent uint32
	first  uint32 // its holds; of a free node the next free one
	count  uint32 // of holds, 0 only if free
	child  uint32 // the one last looked up; it may be gone since, or be another block
	end    uint32 // blocks of a prompt up to its end
	page   uint32 // the blocks after the first; 0: there are none, or it is a stretch
}

// hold is one node on one rank.
type hold struct {
	node       uint32
	up         uint32 // the rank's hold of the parent; of a free one the next free one
	refs       uint32 // holds of its children on the rank, and requests that end here
	slot       indexer.Slot
	next, prev uint32 // holds of the node
}

// NewActiveLoad makes an account for so many slots, all known and idle.
// capacityHint is how many requests to expect at a time; more may come.
func NewActiveLoad(slots, capacityHint int) *ActiveLoad {
	l := &ActiveLoad{
		active: make([]activeRequest, 1, max(0, capacityHint)+1),
		nodes:  make([]loadNode, 1),
		holds:  make([]hold, 1),
	}
	l.byID.reserve(capacityHint)
	l.changes.start(slots)
	l.Extend(slots)
	return l
}

// Slots returns the number of slots.
func (l *ActiveLoad) Slots() int { return len(l.known) }

// Extend adds slots, known and idle, until there are so many. Fewer than there
// are change nothing.
func (l *ActiveLoad) Extend(slots int) {
	for slot := len(l.known); slot < slots; slot++ {
		l.known = append(l.known, true)
		l.prefill = append(l.prefill, 0)
		l.decode = append(l.decode, 0)
		l.requests = append(l.requests, 0)
		l.ofSlot = append(l.ofSlot, 0)
		l.shared = append(l.shared, 0)
		l.changes.add(indexer.Slot(slot))
	}
}

// Active returns the number of active requests.
func (l *ActiveLoad) Active() int { return l.inFlight }

// Known says whether the load of a slot is known.
func (l *ActiveLoad) Known(slot indexer.Slot) bool { return l.known[slot] }

// SetUnknown says that nobody has observed the load of the slot: its requests are
// forgotten and it is unknown until the next Dispatch to it or SetKnown.
func (l *ActiveLoad) SetUnknown(slot indexer.Slot) {
	l.Forget(slot)
	l.known[slot] = false
	l.changes.add(slot)
}

// SetKnown says that the account of the slot is right.
func (l *ActiveLoad) SetKnown(slot indexer.Slot) {
	l.known[slot] = true
	l.changes.add(slot)
}

// Dispatch books a request for the rank in slot, of whose prompt the rank need
// not compute cachedTokens. The slot is known from then on. It is an error, and
// nothing is booked, if the request is active already, the slot does not exist, or
// the request is not consistent.
func (l *ActiveLoad) Dispatch(r *Request, slot indexer.Slot, cachedTokens int) error {
	switch {
	case int(slot) >= len(l.known):
		return fmt.Errorf("request %d: slot %d of %d", r.ID, slot, len(l.known))
	case r.BlockSize <= 0 || r.PromptTokens < 0:
		return fmt.Errorf("request %d: prompt of %d tokens in blocks of %d", r.ID, r.PromptTokens, r.BlockSize)
	case cachedTokens < 0 || cachedTokens > r.PromptTokens:
		return fmt.Errorf("request %d: %d cached tokens of %d", r.ID, cachedTokens, r.PromptTokens)
	case r.Stretches != nil && !follow(r.Stretches, len(r.Locals)):
		return fmt.Errorf("request %d: stretches %v of %d blocks", r.ID, r.Stretches, len(r.Locals))
	case max(len(r.Locals), r.FullBlocks()) > r.Blocks():
		return fmt.Errorf("request %d: %d hashes for a prompt of %d blocks", r.ID, max(len(r.Locals), r.FullBlocks()), r.Blocks())
	case l.find(r.ID) != 0:
		return fmt.Errorf("request %d is active already", r.ID)
	}
	q := l.newRequest()
	a := &l.active[q]
	*a = activeRequest{
		id: r.ID, dispatched: r.Now, slot: slot,
		prefill: int64(r.PromptTokens - cachedTokens),
		own:     int64(r.Blocks() - r.FullBlocks()),
		last:    l.take(l.steps(r), r.Stretches, slot),
	}
	if a.last != 0 {
		l.holds[a.last].refs++
	}
	l.byID.insert(fold(r.ID, 0), q)
	l.inFlight++
	// The host's clock does not go back, so that this is the end of the ring.
	before := l.active[0].prev
	for before != 0 && l.active[before].dispatched > r.Now {
		before = l.active[before].prev
	}
	a.prev, a.next = before, l.active[before].next
	l.active[a.next].prev, l.active[before].next = q, q
	if first := l.ofSlot[slot]; first != 0 {
		a.nextOfSlot, l.active[first].prevOfSlot = first, q
	}
	l.ofSlot[slot] = q

	l.known[slot] = true
	l.prefill[slot] += a.prefill
	l.decode[slot] += a.own
	l.requests[slot]++
	l.changes.add(slot)
	return nil
}

// follow says whether stretches follow each other and are so many blocks, if there
// are so many hashes at all.
func follow(stretches []Stretch, blocks int) bool {
	end := uint32(0)
	for _, s := range stretches {
		if s.End <= end {
			return false
		}
		end = s.End
	}
	return blocks == 0 || int(end) == blocks
}

// FirstToken says that the request has its first token: nothing is left to
// prefill. It is false if the request is not active.
func (l *ActiveLoad) FirstToken(id uint64) bool {
	q := l.find(id)
	if q == 0 {
		return false
	}
	if a := &l.active[q]; a.prefill != 0 {
		l.prefill[a.slot] -= a.prefill
		a.prefill = 0
		l.changes.add(a.slot)
	}
	return true
}

// Grow says that the request's answer has filled so many more blocks. It is
// false, and nothing is booked, if the request is not active or blocks negative.
func (l *ActiveLoad) Grow(id uint64, blocks int) bool {
	q := l.find(id)
	if q == 0 || blocks < 0 {
		return false
	}
	if blocks > 0 {
		a := &l.active[q]
		a.own += int64(blocks)
		l.decode[a.slot] += int64(blocks)
		l.changes.add(a.slot)
	}
	return true
}

// Finish says that the request has ended. It is false if it is not active.
func (l *ActiveLoad) Finish(id uint64) bool {
	q := l.find(id)
	if q == 0 {
		return false
	}
	l.drop(q)
	return true
}

// Expire drops the requests that were dispatched before a moment, whose end must
// have been lost, and returns how many.
func (l *ActiveLoad) Expire(before time.Duration) int {
	n := 0
	for q := l.active[0].next; q != 0 && l.active[q].dispatched < before; q = l.active[0].next {
		l.drop(q)
		n++
	}
	return n
}

// Forget drops the requests of a rank that was removed. The slot is then known
// and idle.
func (l *ActiveLoad) Forget(slot indexer.Slot) {
	for l.ofSlot[slot] != 0 {
		l.drop(l.ofSlot[slot])
	}
	l.known[slot] = true
	l.changes.add(slot)
}

// columns fills the input LOAD for a request.
func (l *ActiveLoad) columns(r *Request, out *LoadColumns) {
	l.share(l.steps(r))
	*out = LoadColumns{
		Known: l.known, PrefillTokens: l.prefill, DecodeBlocks: l.decode, Requests: l.requests,
		SharedBlocks: l.shared, Sharing: l.sharing, Changes: &l.changes,
	}
}

// steps returns the names of a prompt's nodes, from the root on.
func (l *ActiveLoad) steps(r *Request) []indexer.LocalHash {
	if r.Stretches == nil {
		return r.Locals
	}
	l.ids = l.ids[:0]
	for _, s := range r.Stretches {
		l.ids = append(l.ids, indexer.LocalHash(s.ID))
	}
	return l.ids
}

// share sets shared and sharing for a prompt.
func (l *ActiveLoad) share(locals []indexer.LocalHash) {
	for _, slot := range l.sharing {
		l.shared[slot] = 0
	}
	l.sharing = l.sharing[:0]
	// Whoever holds a node holds those before it. So from the deepest one up only
	// ranks that stop at a node are new, and where as many hold a node as the next
	// one none is.
	count := uint32(0)
	_, part, blocks := l.follow(locals)
	if part != 0 {
		count = l.shareNode(part, l.nodes[l.nodes[part].parent].end+uint32(blocks))
	}
	for depth := len(l.path); depth > 0; depth-- {
		if node := l.path[depth-1]; l.nodes[node].count != count {
			count = l.shareNode(node, l.nodes[node].end)
		}
	}
}

// shareNode notes so many shared blocks for the ranks that hold a node and have
// not more. It returns how many hold it.
func (l *ActiveLoad) shareNode(node, blocks uint32) uint32 {
	for h := l.nodes[node].first; h != 0; h = l.holds[h].next {
		if slot := l.holds[h].slot; l.shared[slot] == 0 {
			l.shared[slot] = blocks
			l.sharing = append(l.sharing, slot)
		}
	}
	return l.nodes[node].count
}

// follow finds the leading blocks of a prompt that are active anywhere, and
// returns how many. It sets path to the nodes all of whose blocks these are. If
// they end within a node, part is that and blocks is how many of its own they are.
func (l *ActiveLoad) follow(locals []indexer.LocalHash) (found int, part uint32, blocks int) {
	l.path = l.path[:0]
	node := uint32(0)
	for found < len(locals) {
		next := l.child(node, locals[found])
		if next == 0 {
			break
		}
		rest := l.rest(next)
		n := common(rest, locals[found+1:])
		found += 1 + n
		if n < len(rest) {
			return found, next, 1 + n
		}
		l.path = append(l.path, next)
		node = next
	}
	return found, 0, 0
}

// common returns how many leading hashes are the same.
func common(a, b []indexer.LocalHash) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// rest returns the blocks of a node after the first. It is valid until a page is
// made.
func (l *ActiveLoad) rest(node uint32) []indexer.LocalHash {
	n := &l.nodes[node]
	if n.page == 0 {
		return nil
	}
	return l.page(n.page)[:l.blocks(node)-1]
}

// page returns the place of page p, the first of which is 1.
func (l *ActiveLoad) page(p uint32) []indexer.LocalHash {
	end := int(p) * pageBlocks
	return l.pages[end-pageBlocks : end : end]
}

// newPage returns a page that begins with these blocks, 0 if there are none.
func (l *ActiveLoad) newPage(blocks []indexer.LocalHash) uint32 {
	if len(blocks) == 0 {
		return 0
	}
	p := l.freePage
	if p != 0 {
		l.freePage = uint32(l.page(p)[0])
	} else {
		l.pages = append(l.pages, make([]indexer.LocalHash, pageBlocks)...)
		p = uint32(len(l.pages) / pageBlocks)
	}
	copy(l.page(p), blocks)
	return p
}

func (l *ActiveLoad) dropPage(p uint32) {
	if p != 0 {
		l.page(p)[0] = indexer.LocalHash(l.freePage)
		l.freePage = p
	}
}

// split makes a node of the leading blocks of another, fewer than that has, and
// returns it.
func (l *ActiveLoad) split(node uint32, blocks int) uint32 {
	// The lower part is the old node, by which the nodes below know it.
	old := l.nodes[node]
	l.byPath.remove(pathHash(old.parent, old.local), node)
	upper := l.newNode(old.parent, l.rest(node)[:blocks-1], old.local, l.nodes[old.parent].end+uint32(blocks))
	rest := l.rest(node)
	n := &l.nodes[node]
	n.local, n.parent = rest[blocks-1], upper
	if left := rest[blocks:]; len(left) > 0 {
		copy(rest, left)
	} else {
		n.page = 0
		l.dropPage(old.page)
	}
	l.byPath.insert(pathHash(upper, n.local), node)
	l.nodes[upper].child = node
	for h := n.first; h != 0; h = l.holds[h].next {
		// The reference to what is above goes over to the new hold.
		between := l.newHold(upper, 0, l.holds[h].slot)
		l.holds[between].up, l.holds[between].refs = l.holds[h].up, 1
		l.holds[h].up = between
	}
	return upper
}

func pathHash(parent uint32, local indexer.LocalHash) uint32 {
	return fold(uint64(parent), uint64(local))
}

// child returns the node behind another that begins with a block, 0 if it is not
// active. What was asked for last needs no look into the table.
func (l *ActiveLoad) child(parent uint32, local indexer.LocalHash) uint32 {
	last := l.nodes[parent].child
	if c := &l.nodes[last]; c.local == local && c.parent == parent && c.count > 0 {
		return last
	}
	found := l.byPath.find(pathHash(parent, local), func(n uint32) bool {
		return l.nodes[n].parent == parent && l.nodes[n].local == local
	})
	if found != 0 {
		l.nodes[parent].child = found
	}
	return found
}

func holdHash(node uint32, slot indexer.Slot) uint32 { return fold(uint64(node), uint64(slot)) }

func (l *ActiveLoad) hold(node uint32, slot indexer.Slot) uint32 {
	return l.byNode.find(holdHash(node, slot), func(h uint32) bool {
		return l.holds[h].node == node && l.holds[h].slot == slot
	})
}

// take makes the rank hold the blocks and returns the hold of the last one.
func (l *ActiveLoad) take(locals []indexer.LocalHash, stretches []Stretch, slot indexer.Slot) uint32 {
	found, part, blocks := l.follow(locals)
	if part != 0 {
		l.path = append(l.path, l.split(part, blocks))
	}
	// What the rank holds of the path is a prefix of it.
	low, high, last := 0, len(l.path), uint32(0)
	for low < high {
		mid := int(uint(low+high+1) / 2)
		if h := l.hold(l.path[mid-1], slot); h != 0 {
			low, last = mid, h
		} else {
			high = mid - 1
		}
	}
	for _, node := range l.path[low:] {
		last = l.newHold(node, last, slot)
		l.decode[slot] += l.blocks(node)
	}
	for found < len(locals) {
		parent, next := l.holds[last].node, min(found+nodeBlocks, len(locals))
		end := uint32(next)
		if stretches != nil {
			next, end = found+1, stretches[found].End
		}
		node := l.newNode(parent, locals[found+1:next], locals[found], end)
		last = l.newHold(node, last, slot)
		l.decode[slot] += l.blocks(node)
		found = next
	}
	return last
}

// blocks returns how many blocks a node is.
func (l *ActiveLoad) blocks(node uint32) int64 {
	n := &l.nodes[node]
	return int64(n.end - l.nodes[n.parent].end)
}

// newNode makes a node of a block, or stretch, and the rest of its blocks.
func (l *ActiveLoad) newNode(parent uint32, rest []indexer.LocalHash, local indexer.LocalHash, end uint32) uint32 {
	n := l.freeNode
	if n != 0 {
		l.freeNode = l.nodes[n].first
	} else {
		n = uint32(len(l.nodes))
		l.nodes = append(l.nodes, loadNode{})
	}
	l.nodes[n] = loadNode{local: local, parent: parent, end: end, page: l.newPage(rest)}
	l.nodes[parent].child = n
	l.byPath.insert(pathHash(parent, local), n)
	return n
}

func (l *ActiveLoad) newHold(node, up uint32, slot indexer.Slot) uint32 {
	h := l.freeHold
	if h != 0 {
		l.freeHold = l.holds[h].up
	} else {
		h = uint32(len(l.holds))
		l.holds = append(l.holds, hold{})
	}
	n := &l.nodes[node]
	l.holds[h] = hold{node: node, up: up, slot: slot, next: n.first}
	if n.first != 0 {
		l.holds[n.first].prev = h
	}
	n.first = h
	n.count++
	if up != 0 {
		l.holds[up].refs++
	}
	l.byNode.insert(holdHash(node, slot), h)
	return h
}

// release takes a reference from a hold, and what nobody refers to then goes.
func (l *ActiveLoad) release(h uint32) {
	for h != 0 {
		e := &l.holds[h]
		if e.refs--; e.refs > 0 {
			return
		}
		l.decode[e.slot] -= l.blocks(e.node)
		l.byNode.remove(holdHash(e.node, e.slot), h)
		n := &l.nodes[e.node]
		if e.prev != 0 {
			l.holds[e.prev].next = e.next
		} else {
			n.first = e.next
		}
		if e.next != 0 {
			l.holds[e.next].prev = e.prev
		}
		if n.count--; n.count == 0 {
			l.byPath.remove(pathHash(n.parent, n.local), e.node)
			l.dropPage(n.page)
			*n = loadNode{first: l.freeNode}
			l.freeNode = e.node
		}
		up := e.up
		*e = hold{up: l.freeHold}
		l.freeHold = h
		h = up
	}
}

func (l *ActiveLoad) find(id uint64) uint32 {
	return l.byID.find(fold(id, 0), func(q uint32) bool { return l.active[q].id == id })
}

func (l *ActiveLoad) newRequest() uint32 {
	q := l.freeReq
	if q != 0 {
		l.freeReq = l.active[q].next
		return q
	}
	l.active = append(l.active, activeRequest{})
	return uint32(len(l.active) - 1)
}

// drop ends a request.
func (l *ActiveLoad) drop(q uint32) {
	a := &l.active[q]
	slot := a.slot
	l.prefill[slot] -= a.prefill
	l.decode[slot] -= a.own
	l.requests[slot]--
	l.release(a.last)
	l.byID.remove(fold(a.id, 0), q)
	l.inFlight--
	l.active[a.next].prev, l.active[a.prev].next = a.prev, a.next
	if a.prevOfSlot != 0 {
		l.active[a.prevOfSlot].nextOfSlot = a.nextOfSlot
	} else {
		l.ofSlot[slot] = a.nextOfSlot
	}
	if a.nextOfSlot != 0 {
		l.active[a.nextOfSlot].prevOfSlot = a.prevOfSlot
	}
	*a = activeRequest{next: l.freeReq}
	l.freeReq = q
	l.changes.add(slot)
}

// ChangeLog is which slots' load has changed, in order.
type ChangeLog struct {
	// ring has every change twice, half its length apart, so that the changes
	// since any of the last half are side by side.
	ring []indexer.Slot
	last uint64
}

// start makes a log that remembers at least as many changes as there are slots:
// who missed more had better look at all of them.
func (c *ChangeLog) start(slots int) {
	n := 256
	for n < slots {
		n *= 2
	}
	c.ring = make([]indexer.Slot, 2*n)
}

func (c *ChangeLog) add(slot indexer.Slot) {
	c.last++
	half := len(c.ring) / 2
	i := int(c.last) & (half - 1)
	c.ring[i], c.ring[i+half] = slot, slot
}

// Since returns the slots that changed after change number seen, each at least
// once, and the number of the last change. If that is too long ago to be known,
// or seen is 0, which stands for never, all is true; so it is if there is no log. The
// slice is valid until the next change.
func (c *ChangeLog) Since(seen uint64) (slots []indexer.Slot, all bool, last uint64) {
	if c == nil {
		return nil, true, 0
	}
	half := uint64(len(c.ring) / 2)
	if seen == 0 || seen > c.last || c.last-seen > half {
		return nil, true, c.last
	}
	n := c.last - seen
	end := c.last&(half-1) + half + 1
	return c.ring[end-n : end], false, c.last
}
