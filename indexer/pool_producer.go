package indexer

import (
	"fmt"
	"time"

	"github.com/kvbench/kvbench/internal/idle"
)

// Producer hands events to the event threads. It is for one goroutine at a time
// and neither locks nor allocates.
type Producer struct {
	pool  *Pool
	rings []*ring // by event thread
}

// Push queues event id of the rank in slot. The event threads see it after
// Publish. If the queue is full, Push publishes and waits for room: nothing is
// ever dropped, and Stats counts the pushes that waited and for how long. A slot of nobody and an ended event thread are errors.
func (pr *Producer) Push(slot Slot, id uint32) error {
	owner := pr.pool.owner(slot)
	thread := owner.thread()
	if thread < 0 {
		return fmt.Errorf("slot %d belongs to no rank", slot)
	}
	if pr.pool.threads[thread].dead.Load() {
		return pr.pool.ended(thread)
	}
	r := pr.rings[thread]
	if r.full() {
		if err := pr.awaitRoom(thread); err != nil {
			return err
		}
	}
	r.push(entry{slot: uint16(slot), generation: owner.generation(), id: id})
	return nil
}

// Publish makes all pushed events visible to the event threads.
func (pr *Producer) Publish() {
	for thread, r := range pr.rings {
		n := r.unpublished()
		if n == 0 {
			continue
		}
		th := pr.pool.threads[thread]
		// First, so that nothing is applied that was not accepted.
		th.progress.accepted.Add(n)
		r.publish()
		th.wake()
	}
}

// awaitRoom waits until the ring to a thread has room or the thread has ended.
func (pr *Producer) awaitRoom(thread int) error {
	pr.Publish()
	r, th := pr.rings[thread], pr.pool.threads[thread]
	r.blocked.Add(1)
	began := time.Now()
	defer func() { r.blockedFor.Add(int64(time.Since(began))) }()
	waiting := idle.Idler{Spin: pr.pool.cfg.Idle == IdleSpin}
	for r.full() && !th.dead.Load() {
		waiting.Wait(nil)
	}
	if th.dead.Load() {
		return pr.pool.ended(thread)
	}
	return nil
}
