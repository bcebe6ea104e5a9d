package micro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/stats"
)

// ResidentWriteOptions say what ResidentWrite measures.
type ResidentWriteOptions struct {
	// Index keeps the blocks.
	Index indexer.Factory
	// Cases are names of ResidentWriteCases; empty: all.
	Cases  []string
	Rounds int // measured rounds, at least 1; one more is discarded
	// Passes is how often a process stores and clears everything and is timed, at
	// least 1; one pass more comes before.
	Passes int
	Progress

	// Child is the program that makes one measurement, with arguments that make it
	// write the JSON of a ResidentWriteTimes for a case and a variant.
	Child func(c, variant string) *exec.Cmd
}

// residentWriteCase is a number of blocks in a stored event.
type residentWriteCase struct {
	name   string
	blocks int
}

var residentWriteCases = []residentWriteCase{{"1-block", 1}, {"16-blocks", 16}}

// ResidentWriteCases returns the names of the cases that ResidentWrite knows: how
// much a stored event stores.
func ResidentWriteCases() []string {
	var names []string
	for _, c := range residentWriteCases {
		names = append(names, c.name)
	}
	return names
}

// Variants of ResidentWrite. ResidentWriteBase is what ratios are to.
const (
	ResidentWriteBase = "untracked"
	writeTracked      = "tracked"
)

// ResidentWriteVariants returns the names of the variants.
func ResidentWriteVariants() []string { return []string{ResidentWriteBase, writeTracked} }

// writeCost is the metric that is made of two variants.
const writeCost = "tracking, a stored event"

const (
	writeRanks  = 128
	writeChains = 16 // prompts that a rank stores in a pass
	writeLength = 8  // stored events of a prompt, each behind the one before
	writeStores = writeRanks * writeChains * writeLength
)

// CheckResidentWriteOptions returns what is wrong with the options.
func CheckResidentWriteOptions(o *ResidentWriteOptions) error {
	if o.Index.Null {
		return fmt.Errorf("index %s stores nothing, so there is nothing to measure", o.Index.Name)
	}
	if o.Index.SingleThread {
		return fmt.Errorf("index %s has one event thread, and this takes %d", o.Index.Name, residentThreads)
	}
	if o.Rounds < 1 {
		return fmt.Errorf("%d rounds; there must be at least 1", o.Rounds)
	}
	if o.Passes < 1 {
		return fmt.Errorf("%d passes; there must be at least 1", o.Passes)
	}
	for _, name := range o.Cases {
		if _, err := writeCase(name); err != nil {
			return err
		}
	}
	return nil
}

func writeCase(name string) (residentWriteCase, error) {
	for _, c := range residentWriteCases {
		if c.name == name {
			return c, nil
		}
	}
	return residentWriteCase{}, fmt.Errorf("no case is named %q; there are %s", name, strings.Join(ResidentWriteCases(), ", "))
}

// ResidentWrite measures what event threads pay for keeping the resident-block
// counts: ranks store prompts and clear them, with tracking and without it. Each
// measurement has a process of its own, and which of the two comes first
// alternates from round to round, since the first one in a process and the first
// one of a round are not like the others.
func ResidentWrite(ctx context.Context, o *ResidentWriteOptions) (*Report, error) {
	if err := CheckResidentWriteOptions(o); err != nil {
		return nil, err
	}
	r := &Report{Schema: Schema, Benchmark: "resident_blocks_write", Rounds: o.Rounds}
	for _, c := range residentWriteCases {
		if len(o.Cases) > 0 && !slices.Contains(o.Cases, c.name) {
			continue
		}
		if err := r.runResidentWrite(ctx, o, c); err != nil {
			return nil, fmt.Errorf("case %s: %w", c.name, err)
		}
	}
	return r, nil
}

func (r *Report) runResidentWrite(ctx context.Context, o *ResidentWriteOptions, c residentWriteCase) error {
	r.Work = append(r.Work, Work{c.name, fmt.Sprintf("%d ranks on %d event threads of the index %s; a pass is %d stored events of %s in %d prompts a rank, then one clear a rank; a process gives the median of its passes, %d",
		writeRanks, residentThreads, o.Index.Name, writeStores, plural(c.blocks, "block"), writeChains, o.Passes)})
	variants := ResidentWriteVariants()
	err := r.run(ctx, &o.Progress, c.name, variants, func(i int) ([]metric, error) {
		t, err := writeChild(ctx, o.Child(c.name, variants[i]))
		if err != nil {
			return nil, err
		}
		if t.Tracked != (variants[i] == writeTracked) || t.Blocks != c.blocks || t.Index != o.Index.Name {
			return nil, fmt.Errorf("the process measured %+v", *t)
		}
		return []metric{
			{"stored event", "ns", false, stats.Median(t.StoreNS)},
			{"clear of a rank", "ns", false, stats.Median(t.ClearNS)},
		}, nil
	})
	if err != nil {
		return err
	}
	without, with := r.find(c.name, ResidentWriteBase, "stored event"), r.find(c.name, writeTracked, "stored event")
	cost := Series{Case: c.name, Variant: writeTracked, Metric: writeCost, Unit: "ns"}
	for i := range with.Values {
		cost.Values = append(cost.Values, with.Values[i]-without.Values[i])
	}
	r.Series = append(r.Series, cost)
	return nil
}

// writeChild runs a process and reads what it measured.
func writeChild(ctx context.Context, cmd *exec.Cmd) (*ResidentWriteTimes, error) {
	var out, problem strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problem
	// It ends with this process; the kernel watches the thread.
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("the measuring process: %w: %s", err, strings.TrimSpace(problem.String()))
	}
	var t ResidentWriteTimes
	if err := json.Unmarshal([]byte(out.String()), &t); err != nil {
		return nil, fmt.Errorf("the measuring process wrote what is no result: %w", err)
	}
	return &t, nil
}

// ThisProgram returns a Child for the running program: program is its path, name
// its argv[0].
func ThisProgram(program, name string, args func(c, variant string) []string) func(c, variant string) *exec.Cmd {
	return func(c, variant string) *exec.Cmd {
		cmd := exec.Command(program, args(c, variant)...)
		cmd.Args[0] = name
		// Everything that the child is to do is in its arguments.
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KVBENCH_") })
		return cmd
	}
}

// ResidentWriteTimes is what one process measured.
type ResidentWriteTimes struct {
	Index   string `json:"index"`
	Blocks  int    `json:"blocks"` // of a stored event
	Tracked bool   `json:"tracked"`
	// StoreNS and ClearNS are the nanoseconds per event by pass: from when the
	// events are all queued and the event threads are let go to when they have
	// applied them, over the number of events of all threads.
	StoreNS []float64 `json:"store_ns"`
	ClearNS []float64 `json:"clear_ns"`
}

// ResidentWriteAlone measures one variant in this process.
func ResidentWriteAlone(ctx context.Context, index indexer.Factory, name, variant string, passes int) (*ResidentWriteTimes, error) {
	c, err := writeCase(name)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(ResidentWriteVariants(), variant) {
		return nil, fmt.Errorf("no variant is named %q; there are %s", variant, strings.Join(ResidentWriteVariants(), ", "))
	}
	w, err := newResidentWriter(ctx, index, c.blocks, variant == writeTracked)
	if err != nil {
		return nil, err
	}
	t := &ResidentWriteTimes{Index: index.Name, Blocks: c.blocks, Tracked: w.tracked}
	for pass := range passes + 1 {
		var store, clear float64
		if store, clear, err = w.pass(ctx); err != nil {
			break
		}
		if pass > 0 {
			t.StoreNS, t.ClearNS = append(t.StoreNS, store), append(t.ClearNS, clear)
		}
	}
	return t, errors.Join(err, w.close(ctx))
}

// residentWriter is a pool and the events of one pass.
type residentWriter struct {
	tracked bool
	index   indexer.Index
	pool    *indexer.Pool
	slots   []indexer.Slot
	blocks  int
	passes  uint64

	names  []indexer.SequenceHash // of all stored blocks, in the order of their events
	locals []indexer.LocalHash
}

// Event implements indexer.Source: stored event id of a pass, or from
// writeStores on a clear.
func (w *residentWriter) Event(id uint32, ev *indexer.Event) {
	if id >= writeStores {
		*ev = indexer.Event{Kind: indexer.Cleared}
		return
	}
	from := int(id) * w.blocks
	*ev = indexer.Event{ID: uint64(id), Kind: indexer.Stored, Sequences: w.names[from : from+w.blocks], Locals: w.locals[from : from+w.blocks]}
	if id%writeLength != 0 {
		ev.HasParent, ev.Parent = true, w.names[from-1]
	}
}

func newResidentWriter(ctx context.Context, f indexer.Factory, blocks int, tracked bool) (_ *residentWriter, err error) {
	w := &residentWriter{tracked: tracked, blocks: blocks}
	rng := rand.New(rand.NewPCG(1, uint64(blocks)))
	for range writeStores * blocks {
		w.names = append(w.names, indexer.SequenceHash(rng.Uint64()))
		w.locals = append(w.locals, indexer.LocalHash(rng.Uint64()))
	}
	if w.index, err = f.New(indexer.Config{Threads: residentThreads, Slots: writeRanks}); err != nil {
		return nil, err
	}
	w.pool, err = indexer.NewPool(indexer.PoolConfig{Index: w.index, Source: w, Threads: residentThreads, Producers: 1,
		QueueCapacity: writeStores / residentThreads, Assign: func(r indexer.Rank) int { return int(r.Worker % residentThreads) }})
	if err != nil {
		return nil, errors.Join(err, w.index.Close())
	}
	ranks := make([]indexer.Rank, writeRanks)
	for i := range ranks {
		ranks[i].Worker = uint64(i)
	}
	if w.slots, err = w.pool.Register(ctx, ranks); err == nil && tracked {
		err = w.pool.TrackResidentBlocks(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.close(ctx))
	}
	return w, nil
}

func (w *residentWriter) close(ctx context.Context) error {
	return errors.Join(w.pool.Close(ctx), w.index.Close())
}

// pass stores everything and clears it, and returns the ns of a stored and of a
// cleared event.
func (w *residentWriter) pass(ctx context.Context) (store, clear float64, err error) {
	const perRank = writeChains * writeLength
	stored, err := w.timed(ctx, func(push func(slot, id int)) {
		// The ranks take turns, so that an event thread goes from one to the next.
		for k := range perRank {
			for i := range w.slots {
				push(i, i*perRank+k)
			}
		}
	})
	if err != nil {
		return 0, 0, err
	}
	if err := w.check(uint64(perRank * w.blocks)); err != nil {
		return 0, 0, err
	}
	cleared, err := w.timed(ctx, func(push func(slot, id int)) {
		for i := range w.slots {
			push(i, writeStores)
		}
	})
	if err != nil {
		return 0, 0, err
	}
	if err := w.check(0); err != nil {
		return 0, 0, err
	}
	w.passes++
	effects, err := w.pool.Effects(ctx)
	if err != nil {
		return 0, 0, err
	}
	want := w.passes * uint64(perRank*w.blocks)
	for _, e := range effects {
		if e.Stored != want || e.ClearedBlocks != want {
			return 0, 0, fmt.Errorf("of %d blocks a rank stored %d and cleared %d", want, e.Stored, e.ClearedBlocks)
		}
	}
	return float64(stored.Nanoseconds()) / writeStores, float64(cleared.Nanoseconds()) / writeRanks, nil
}

// timed queues events while the event threads are held, and returns how long
// they take once they are let go.
func (w *residentWriter) timed(ctx context.Context, events func(push func(slot, id int))) (time.Duration, error) {
	var start time.Time
	var failed error
	err := w.pool.Pause(ctx, func() {
		producer := w.pool.Producer(0)
		events(func(slot, id int) {
			if err := producer.Push(w.slots[slot], uint32(id)); err != nil {
				failed = err
			}
		})
		producer.Publish()
		start = time.Now()
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	err = w.pool.Flush(ctx)
	return time.Since(start), err
}

// check returns an error if the counts are not what the events made them, or are
// there though nobody asked for them.
func (w *residentWriter) check(blocks uint64) error {
	table := w.pool.Residents()
	if !w.tracked {
		if table != nil {
			return errors.New("blocks are counted though they should not be")
		}
		return nil
	}
	for _, slot := range w.slots {
		if n, ok := table.Count(slot); !ok || n != blocks {
			return fmt.Errorf("the count of slot %d is %d (%v), want %d", slot, n, ok, blocks)
		}
	}
	return nil
}
