package replay

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/idle"
	"github.com/kvbench/kvbench/internal/replay/corpus"
)

// serial does one operation after another in the order of the corpus, each when
// the one before is done, and waits for no deadline. So a query finds exactly the
// events before it applied, and what is decided depends on nothing but the corpus,
// the policy and the number of partitions.
//
// It is the run of query thread 0, which does the work of the issuers and the
// other query threads too; what it does stands in their buffers. Events are still
// applied by the event threads.
type serial struct {
	trial *trial
	// given is how many events each event thread was given.
	given []uint64
	err   error
}

func newSerial(t *trial) *serial {
	return &serial{trial: t, given: make([]uint64, t.cfg.Placement.Threads.EventThreads)}
}

func (s *serial) run() {
	t := s.trial
	for i := range t.corpus.Ops {
		if t.stop.Load() || t.abort.Load() {
			return
		}
		op := &t.corpus.Ops[i]
		if op.Kind != corpus.Query {
			if s.err = s.event(uint32(i), indexer.Slot(op.Slot)); s.err != nil {
				return
			}
			continue
		}
		lane := laneOf(op.Slot, len(t.lanes))
		if !t.lanes[lane].push(uint32(i)) {
			s.err = fmt.Errorf("query lane %d has no room for operation %d", lane, i)
			return
		}
		t.queryIssuer.handed = append(t.queryIssuer.handed, t.clock.Now())
		t.queryThreads[t.threadOfLane(lane)].serve(uint32(i), uint32(lane))
	}
}

// event hands one event over and waits until it is applied.
func (s *serial) event(op uint32, slot indexer.Slot) error {
	t := s.trial
	issuer, thread := t.issuers[0], t.pool.ThreadOf(slot)
	if err := issuer.producer.Push(slot, op); err != nil {
		return fmt.Errorf("operation %d: %w", op, err)
	}
	issuer.handed = append(issuer.handed, t.clock.Now())
	issuer.producer.Publish()
	s.given[thread]++
	progress, ended := t.pool.Progress(thread), t.pool.Ended(thread)
	waiting := idle.Idler{Spin: t.ownCPUs}
	for {
		if applied, _ := progress.Load(); applied >= s.given[thread] {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("operation %d: event thread %d has ended", op, thread)
		default:
		}
		if t.abort.Load() {
			return nil
		}
		waiting.Wait(nil)
	}
}
