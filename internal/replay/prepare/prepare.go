// Package prepare turns a trace into a corpus: it draws a rank for each session,
// lets a mock engine play each rank's requests in virtual time, scales the
// timelines to the window and merges them into one order.
//
// The same trace, options, seed and window give the same corpus, bit for bit, on
// any number of cores. The package reads no files and measures nothing.
package prepare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/mocker"
	"github.com/kvbench/kvbench/trace"
)

// Origin says where a trace comes from. It is recorded in the corpus.
type Origin struct {
	Name   string // base name of the file, or name of the embedded trace
	SHA256 string // of the file's bytes, lower-case hex
}

// Prepare makes the corpus.
//
//  1. The trace is transformed: each id becomes opts.LengthFactor ids, then all
//     sessions are copied opts.DuplicationFactor times, then all times are
//     divided by opts.SpeedUp.
//  2. Each session goes to one of opts.Workers x opts.DPRanks ranks, drawn with
//     the seed. Workers have the ids 0, 1, 2, ...; the slot of a rank is
//     worker x opts.DPRanks + data-parallel rank. A rank may stay without work.
//  3. A mock engine for each rank, all with the same seed, gives a timeline of
//     queries and KV events.
//     With opts.Approximate, what a router would store for its own decisions takes
//     the place of the engines' events, in the engines' time: a decision when the
//     request comes, and with "lru" what it generates and its end. What is due to
//     go after the last that an engine does is not part of the timeline.
//  4. Each timeline is shifted to start at 0 and scaled to the window. With
//     opts.Rescale "rank" every timeline's last op is at the end of the window;
//     with "global" that of the longest one is, and the others keep their
//     relative lengths. A deadline is floor((at - first) x window / span),
//     computed exactly. A timeline without any length is at 0. So are scaled the
//     first token and the end of each request, which are no ops and may so lie
//     behind the window.
//  5. All ops are sorted by (deadline, queries before events, slot, order within
//     the rank). A query can so move before events of its rank that fell on the
//     same ns, never after; the events of a rank keep their order.
//
// tm is the engines' time model, nil for the default; opts.TimeModel is its name
// for the record. opts.TraceBlockSize is filled in from t if it is 0. Errors of
// options name the flag.
//
// progress may be nil. It is called with the number of requests played, first 0,
// and the number there are, from one goroutine at a time, done never falling
// and total never changing. After ctx is cancelled Prepare returns its error
// soon.
func Prepare(ctx context.Context, t *trace.Trace, src Origin, opts corpus.Options, seed uint64, window time.Duration,
	tm mocker.TimeModel, progress func(done, total int64)) (*corpus.Corpus, error) {
	p := preparer{run: mocker.RunRank, maxOps: corpus.MaxOps}
	return p.prepare(ctx, t, src, opts, seed, window, tm, progress)
}

// preparer holds what tests replace.
type preparer struct {
	run    func(context.Context, *trace.Trace, []int, mocker.Config, mocker.Recorder) (mocker.Summary, error)
	maxOps int64
}

func (p *preparer) prepare(ctx context.Context, t *trace.Trace, src Origin, opts corpus.Options, seed uint64, window time.Duration,
	tm mocker.TimeModel, progress func(done, total int64)) (*corpus.Corpus, error) {
	if opts.TraceBlockSize == 0 {
		opts.TraceBlockSize = t.BlockSize
	}
	if err := checkOptions(&opts, t, window); err != nil {
		return nil, err
	}
	t, err := transform(ctx, t, &opts)
	if err != nil {
		return nil, err
	}
	if int64(t.Len()) > math.MaxUint32 {
		return nil, fmt.Errorf("%d requests are more than a corpus can hold; lower --duplication-factor", t.Len())
	}

	c := &corpus.Corpus{Manifest: corpus.Manifest{
		Schema:      opts.Schema(),
		TraceName:   src.Name,
		TraceSHA256: src.SHA256,
		Seed:        seed,
		WindowNS:    int64(window),
		Options:     opts,
	}}
	for w := range opts.Workers {
		for dp := range opts.DPRanks {
			c.Ranks = append(c.Ranks, indexer.Rank{Worker: uint64(w), DP: uint32(dp)})
		}
	}
	cfg := mocker.Config{GPUBlocks: opts.GPUBlocks, BlockSize: opts.BlockSize, Seed: seed, Time: tm}
	lines, sum, err := p.play(ctx, t, c.Ranks, cfg, &opts, progress)
	if err != nil {
		return nil, err
	}

	var approximate corpus.Approximate
	for i := range lines {
		approximate.Add(lines[i].approximate)
	}

	// The merged corpus needs about as much memory as the timelines. Give back
	// what the engines used first, or all three count at once.
	debug.FreeOSMemory()

	scales := scalesOf(lines, uint64(window), opts.Rescale)
	requests := func(row uint32) corpus.Request {
		r := t.Request(int(row))
		return corpus.Request{
			Row:          row,
			Session:      uint32(t.SessionOf(int(row))),
			InputTokens:  uint32(r.InputLength),
			OutputTokens: uint32(r.OutputLength),
		}
	}
	if c.Ops, c.Requests, err = mergeOps(ctx, lines, scales, requests); err != nil {
		return nil, err
	}
	if c.Hashes, err = gatherHashes(ctx, lines); err != nil {
		return nil, err
	}
	c.Manifest.Totals = corpus.CountOps(c.Ops)
	tot := &c.Manifest.Totals
	tot.RefusedRequests = sum.Refused
	tot.HitBlocks = sum.HitBlocks
	tot.OutputBlocks = sum.OutputBlocks
	tot.Preemptions = sum.Preempted
	tot.PeakActive = sum.PeakActive
	tot.PeakQueue = sum.PeakQueue
	tot.Approximate = approximate
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("the prepared corpus is malformed, which is a fault of this program: %w", err)
	}
	return c, nil
}

func transform(ctx context.Context, t *trace.Trace, opts *corpus.Options) (*trace.Trace, error) {
	var err error
	if opts.LengthFactor > 1 {
		if t, err = t.ExpandPrefix(opts.LengthFactor); err != nil {
			return nil, fmt.Errorf("--length-factor %d: %w", opts.LengthFactor, err)
		}
	}
	if opts.DuplicationFactor > 1 {
		if t, err = t.Duplicate(opts.DuplicationFactor); err != nil {
			return nil, fmt.Errorf("--duplication-factor %d: %w", opts.DuplicationFactor, err)
		}
	}
	if opts.SpeedUp != 1 {
		if t, err = t.SpeedUp(opts.SpeedUp); err != nil {
			return nil, fmt.Errorf("--speed-up %v: %w", opts.SpeedUp, err)
		}
	}
	return t, ctx.Err()
}

// play runs the engines of all ranks on all cores and returns their timelines by
// slot. The summary has sums, and maxima over ranks for the peaks.
func (p *preparer) play(ctx context.Context, t *trace.Trace, ranks []indexer.Rank, cfg mocker.Config, opts *corpus.Options,
	progress func(done, total int64)) ([]timeline, mocker.Summary, error) {
	sessions := make([][]int, len(ranks))
	for s, slot := range t.Partition(len(ranks), cfg.Seed) {
		sessions[slot] = append(sessions[slot], s)
	}
	lines := make([]timeline, len(ranks))
	sums := make([]mocker.Summary, len(ranks))
	tally := tally{total: int64(t.Len()), maxOps: p.maxOps, progress: progress}

	if progress != nil {
		progress(0, tally.total)
	}

	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for slot, rank := range ranks {
		if groupCtx.Err() != nil {
			break
		}
		if len(sessions[slot]) == 0 {
			continue
		}
		group.Go(func() error {
			rankCtx, stop := context.WithCancel(groupCtx)
			defer stop()
			rec := &recorder{line: &lines[slot], slot: uint32(slot), rows: t.Len(), tally: &tally, stop: stop}
			var err error
			if opts.Approximate == "" {
				sums[slot], err = p.run(rankCtx, t, sessions[slot], cfg, rec)
			} else {
				sums[slot], err = p.approximate(rankCtx, t, sessions[slot], cfg, opts, rec)
			}
			if rec.err == nil && err == nil {
				rec.finish(turns(t, sessions[slot]))
			}
			// What the recorder found stopped the engine, so it goes first.
			if rec.err != nil {
				err = rec.err
			}
			if err != nil {
				return fmt.Errorf("rank %s: %w", rank, err)
			}
			return nil
		})
	}
	err := group.Wait()
	if ctxErr := ctx.Err(); ctxErr != nil {
		return nil, mocker.Summary{}, ctxErr
	}
	if err != nil {
		return nil, mocker.Summary{}, err
	}
	var sum mocker.Summary
	for i := range sums {
		sum.Refused += sums[i].Refused
		sum.HitBlocks += sums[i].HitBlocks
		sum.OutputBlocks += sums[i].OutputBlocks
		sum.Preempted += sums[i].Preempted
		sum.PeakActive = max(sum.PeakActive, sums[i].PeakActive)
		sum.PeakQueue = max(sum.PeakQueue, sums[i].PeakQueue)
	}
	return lines, sum, nil
}

// approximate runs the engine of a rank behind an approximator.
func (p *preparer) approximate(ctx context.Context, t *trace.Trace, sessions []int, cfg mocker.Config, opts *corpus.Options, rec *recorder) (mocker.Summary, error) {
	a, err := newApproximator(rec, t, opts)
	if err != nil {
		return mocker.Summary{}, err
	}
	sum, err := p.run(ctx, t, sessions, cfg, a)
	if err != nil || rec.err != nil {
		return sum, err
	}
	rec.line.approximate, sum.OutputBlocks, err = a.finish(sum.EndNanos)
	return sum, err
}

func turns(t *trace.Trace, sessions []int) int {
	n := 0
	for _, s := range sessions {
		n += len(t.Turns(s))
	}
	return n
}

// tally adds up what all engines did.
type tally struct {
	total    int64
	maxOps   int64
	progress func(done, total int64)

	mu   sync.Mutex
	done int64
	ops  int64
}

var errTooManyOps = errors.New("too many operations")

func (t *tally) add(requests, ops int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += requests
	t.ops += ops
	if t.ops > t.maxOps {
		return fmt.Errorf("%w: a corpus holds at most %d; lower --duplication-factor", errTooManyOps, t.maxOps)
	}
	if t.progress != nil && requests > 0 {
		t.progress(t.done, t.total)
	}
	return nil
}

// checkOptions reports everything that is wrong with the options.
func checkOptions(o *corpus.Options, t *trace.Trace, window time.Duration) error {
	errs := []error{CheckOptions(*o, window)}
	if o.TraceBlockSize != t.BlockSize {
		errs = append(errs, fmt.Errorf("--trace-block-size is %d but the trace was read with %d", o.TraceBlockSize, t.BlockSize))
	}
	if t.Len() == 0 {
		errs = append(errs, errors.New("the trace has no requests"))
	}
	return errors.Join(errs...)
}

// CheckOptions returns an error that names every flag that is out of its range,
// as far as that can be said without the trace.
func CheckOptions(o corpus.Options, window time.Duration) error {
	var errs []error
	atLeastOne := func(flag string, v int) {
		if v < 1 {
			errs = append(errs, fmt.Errorf("--%s is %d; it must be at least 1", flag, v))
		}
	}
	atLeastOne("workers", o.Workers)
	atLeastOne("dp-ranks", o.DPRanks)
	if o.Workers > indexer.MaxRanks || o.DPRanks > indexer.MaxRanks || o.Workers*o.DPRanks > indexer.MaxRanks {
		errs = append(errs, fmt.Errorf("--workers %d times --dp-ranks %d is more than %d ranks", o.Workers, o.DPRanks, indexer.MaxRanks))
	}
	atLeastOne("block-size", o.BlockSize)
	if o.TraceBlockSize < 0 {
		errs = append(errs, fmt.Errorf("--trace-block-size is %d; it must be at least 1", o.TraceBlockSize))
	}
	atLeastOne("gpu-blocks", o.GPUBlocks)
	if o.GPUBlocks > 1<<30 {
		errs = append(errs, fmt.Errorf("--gpu-blocks is %d; it must be at most 2^30", o.GPUBlocks))
	}
	atLeastOne("length-factor", o.LengthFactor)
	atLeastOne("duplication-factor", o.DuplicationFactor)
	if !(o.SpeedUp > 0) || math.IsInf(o.SpeedUp, 0) {
		errs = append(errs, fmt.Errorf("--speed-up is %v; it must be a positive number", o.SpeedUp))
	}
	if names := []string{corpus.RescaleRank, corpus.RescaleGlobal}; !slices.Contains(names, o.Rescale) {
		errs = append(errs, fmt.Errorf("--rescale is %q; it must be one of %q", o.Rescale, names))
	}
	switch o.Approximate {
	case "", corpus.ApproximateLRU:
		if o.TTLNS != 0 {
			errs = append(errs, fmt.Errorf("--ttl is %v, which has no effect without --approximate ttl", time.Duration(o.TTLNS)))
		}
	case corpus.ApproximateTTL:
		if o.TTLNS <= 0 {
			errs = append(errs, fmt.Errorf("--ttl is %v; it must be positive", time.Duration(o.TTLNS)))
		}
	default:
		errs = append(errs, fmt.Errorf("--approximate is %q; it must be ttl or lru", o.Approximate))
	}
	if window <= 0 {
		errs = append(errs, fmt.Errorf("--duration is %v; it must be positive", window))
	}
	return errors.Join(errs...)
}
