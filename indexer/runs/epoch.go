package runs

import (
	"sync"
	"sync/atomic"

	"github.com/kvbench/kvbench/internal/idle"
)

// Pieces that readers may still be looking at are taken back two epochs after
// they were unlinked. A participant that may look at shared pieces stores the
// epoch it has seen; the epoch moves only if all of these have the present one.
type epochs struct {
	now atomic.Uint64
	_   [idle.CacheLine]byte

	mu    sync.Mutex
	parts atomic.Pointer[[]*participant]
}

// participant is a reader in a call or a writer in a call; 0: in none.
type participant struct {
	_    [idle.CacheLine]byte
	seen atomic.Uint64
	_    [idle.CacheLine]byte
}

func (e *epochs) init() {
	e.now.Store(1)
	e.parts.Store(&[]*participant{})
}

func (e *epochs) join() *participant {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := new(participant)
	all := append(append([]*participant{}, *e.parts.Load()...), p)
	e.parts.Store(&all)
	return p
}

func (e *epochs) leave(p *participant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*participant
	for _, q := range *e.parts.Load() {
		if q != p {
			all = append(all, q)
		}
	}
	e.parts.Store(&all)
}

// pin: what is reachable from now on stays until unpin. The second look closes
// the gap in which the epoch moved twice between the load and the store.
func (e *epochs) pin(p *participant) {
	for {
		now := e.now.Load()
		p.seen.Store(now)
		if e.now.Load() == now {
			return
		}
	}
}

func (e *epochs) unpin(p *participant) { p.seen.Store(0) }

// advance moves the epoch on if everyone in a call has seen the present one.
func (e *epochs) advance() {
	now := e.now.Load()
	for _, p := range *e.parts.Load() {
		if seen := p.seen.Load(); seen != 0 && seen != now {
			return
		}
	}
	e.now.CompareAndSwap(now, now+1)
}

// limbo is what one writer has unlinked and not yet taken back, oldest first.
type limbo struct {
	items []retired
	head  int
}

type retired struct {
	epoch uint64
	piece ref
}

func (l *limbo) add(epoch uint64, piece ref) {
	if l.head > 64 && 2*l.head > len(l.items) {
		n := copy(l.items, l.items[l.head:])
		l.items, l.head = l.items[:n], 0
	}
	l.items = append(l.items, retired{epoch, piece})
}

// reap takes back what is old enough.
func (l *limbo) reap(now uint64, a *arena) {
	for l.head < len(l.items) && l.items[l.head].epoch+2 <= now {
		a.release(l.items[l.head].piece)
		l.head++
	}
	if l.head == len(l.items) {
		l.items, l.head = l.items[:0], 0
		if cap(l.items) > 4096 {
			l.items = nil
		}
	}
}
