package prepare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/trace"
)

// options are valid ones for workers x dpRanks ranks.
func options(workers, dpRanks int) corpus.Options {
	return corpus.Options{Workers: workers, DPRanks: dpRanks, BlockSize: 128, GPUBlocks: 64, LengthFactor: 1,
		DuplicationFactor: 1, SpeedUp: 1, Rescale: corpus.RescaleRank, TimeModel: "fake"}
}

// smallTrace has n requests in sessions of one to four turns.
func smallTrace(t testing.TB, n int) *trace.Trace {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 2))
	requests := make([]trace.Request, n)
	session, left := 0, 0
	for i := range requests {
		if left == 0 {
			session, left = session+1, 1+r.IntN(4)
		}
		left--
		ids := make([]uint64, 1+r.IntN(6))
		for k := range ids {
			ids[k] = uint64(r.IntN(50))
		}
		requests[i] = trace.Request{Session: fmt.Sprint(session), Timestamp: float64(i),
			InputLength: 512 * len(ids), OutputLength: 1 + r.IntN(100), HashIDs: ids}
	}
	tr, err := trace.New(512, requests)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// fakeRun stands for an engine: it reports every request and makes up events,
// many of them at equal times.
func fakeRun(ctx context.Context, t *trace.Trace, sessions []int, cfg mocker.Config, rec mocker.Recorder) (mocker.Summary, error) {
	r := rand.New(rand.NewPCG(cfg.Seed, uint64(sessions[0])))
	var sum mocker.Summary
	at := int64(sessions[0]) - 50
	id := uint64(0)
	for _, s := range sessions {
		for _, row := range t.Turns(s) {
			if err := ctx.Err(); err != nil {
				return sum, err
			}
			locals := make([]indexer.LocalHash, t.Request(int(row)).InputLength/cfg.BlockSize)
			for i := range locals {
				locals[i] = indexer.LocalHash(r.Uint64())
			}
			rec.Query(at, int(row), locals)
			sum.Requests++
			sum.HitBlocks += 2
			sum.OutputBlocks += 3
			// A third is refused, the others run until they end.
			follower := rec.(mocker.Follower)
			if row%3 == 0 {
				sum.Refused++
				follower.Ended(at, int(row))
			} else {
				follower.Admitted(at, int(row), 0, 0)
				at += int64(r.IntN(3))
				follower.FirstToken(at, int(row))
			}
			sum.Preempted += 5
			sum.PeakActive = max(sum.PeakActive, int64(row)+1000)
			sum.PeakQueue = max(sum.PeakQueue, int64(row))
			for range r.IntN(4) {
				at += int64(r.IntN(3))
				ev := indexer.Event{ID: id, Kind: indexer.EventKind(1 + r.IntN(3))}
				id++
				if ev.Kind != indexer.Cleared {
					for range r.IntN(70) {
						ev.Sequences = append(ev.Sequences, indexer.SequenceHash(r.Uint64()))
					}
				}
				if ev.Kind == indexer.Stored {
					for range ev.Sequences {
						ev.Locals = append(ev.Locals, indexer.LocalHash(r.Uint64()))
					}
					if r.IntN(2) == 0 {
						ev.HasParent, ev.Parent = true, indexer.SequenceHash(r.Uint64())
					}
				}
				rec.Event(at, &ev)
			}
			if at += int64(r.IntN(3)); row%3 != 0 {
				follower.Ended(at, int(row))
			}
		}
	}
	return sum, nil
}

// with prepares with a given engine.
func with(ctx context.Context, run func(context.Context, *trace.Trace, []int, mocker.Config, mocker.Recorder) (mocker.Summary, error),
	t *trace.Trace, opts corpus.Options, progress func(done, total int64)) (*corpus.Corpus, error) {
	p := preparer{run: run, maxOps: corpus.MaxOps}
	return p.prepare(ctx, t, Origin{Name: "small", SHA256: "00"}, opts, 42, time.Second, nil, progress)
}
