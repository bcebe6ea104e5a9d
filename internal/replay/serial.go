package replay

import (
	"fmt"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/idle"
	"github.com/kvbench/kvbench/internal/replay/corpus"
)

// serial does the operations in the order of the corpus and waits for no deadline,
// but before each query until every event before it is applied. So a query finds
// exactly the events before it, and what is decided depends on nothing but the
// corpus, the policy and the number of partitions.
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
		if t.corpus.Ops[i].Kind == corpus.Query {
			s.err = s.query(uint32(i))
		} else {
			s.err = s.event(uint32(i))
		}
		if s.err != nil {
			s.err = fmt.Errorf("operation %d: %w", i, s.err)
			return
		}
	}
	s.err = s.await()
}

func (s *serial) query(op uint32) error {
	t := s.trial
	if err := s.await(); err != nil {
		return err
	}
	lane := laneOf(t.corpus.Ops[op].Slot, len(t.lanes))
	if !t.lanes[lane].push(op) {
		return fmt.Errorf("query lane %d has no room", lane)
	}
	t.queryIssuer.handed = append(t.queryIssuer.handed, t.clock.Now())
	t.queryThreads[t.threadOfLane(lane)].serve(op, uint32(lane))
	return nil
}

func (s *serial) event(op uint32) error {
	t, slot := s.trial, indexer.Slot(s.trial.corpus.Ops[op].Slot)
	issuer := t.issuers[0]
	if err := issuer.producer.Push(slot, op); err != nil {
		return err
	}
	issuer.handed = append(issuer.handed, t.clock.Now())
	issuer.producer.Publish()
	s.given[t.pool.ThreadOf(slot)]++
	return nil
}

// await waits until every event is applied that was handed over.
func (s *serial) await() error {
	t := s.trial
	for thread, given := range s.given {
		progress, ended := t.pool.Progress(thread), t.pool.Ended(thread)
		waiting := idle.Idler{Spin: t.ownCPUs}
		for {
			if applied, _ := progress.Load(); applied >= given {
				break
			}
			select {
			case <-ended:
				return fmt.Errorf("event thread %d has ended before its events", thread)
			default:
			}
			if t.abort.Load() {
				return nil
			}
			waiting.Wait(nil)
		}
	}
	return nil
}
