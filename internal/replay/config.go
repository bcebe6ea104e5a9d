package replay

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/policies"
	"github.com/kvbench/kvbench/policies/catalogue"
	"github.com/kvbench/kvbench/results"
	"github.com/kvbench/kvbench/results/table"
)

// Config is one trial. The zero value of an optional field is its default.
type Config struct {
	// Corpus is the work. Required.
	Corpus *corpus.Corpus
	// Index is what is measured. Required.
	Index indexer.Factory
	// Placement is the threads and their CPUs, from Place. Required.
	Placement Placement
	// QueryLanes is the number of queues that queries are spread over by rank;
	// 0: DefaultQueryLanes, but no more than there are ranks and no fewer than
	// there are query threads.
	QueryLanes int
	// QueueCapacity is how many events fit between one issuer and one event
	// thread, rounded up to a power of two; a full queue makes the issuer wait,
	// which the result counts. 0: as many as the corpus has for the busiest
	// pair, so that issuers never wait.
	QueueCapacity int
	// Assign is how ranks go to event threads, where they stay.
	Assign Assignment
	// HugePages asks that the index's large tables lie on huge pages. An index
	// that cannot is an error.
	HugePages bool
	// IssuerSpin is how long before a deadline an issuer stops sleeping and
	// spins; negative: DefaultIssuerSpin, but 0 where CPUs are shared.
	IssuerSpin time.Duration
	// Quiesce is how long to rest between preparation and the run.
	Quiesce time.Duration
	// WarmupLookups is how many lookups each query thread makes before the start.
	WarmupLookups int
	// DrainTimeout is how long the work left at the end of issuing may take; 0:
	// DefaultDrainTimeout.
	DrainTimeout time.Duration
	// TrackResidentBlocks turns the counters on before the run.
	TrackResidentBlocks bool
	// Layout is how the counters lie in memory.
	Layout indexer.CounterLayout
	// ReaderRate is the passes per second of the reader, 0: without pause. It
	// counts only if Placement has a reader, which needs TrackResidentBlocks.
	ReaderRate float64
	// Policy chooses a rank for each query; nil: queries are lookups alone. One
	// that reads RESIDENT_BLOCKS has the counters turned on.
	Policy *catalogue.Policy
	// Serial does one operation after another in the order of the corpus, on one
	// thread beside the event threads and without waiting for deadlines. Decisions
	// are then those of the corpus, and rates and latencies mean little.
	Serial bool
	// Decisions, if set, is called once after the run with what the policy chose,
	// one row for each query in the order of the corpus, and whether the trial is
	// valid: if not, rows may be missing. It is not called if a query thread did
	// not come back from its lookup.
	Decisions func(v *results.Validity, rows iter.Seq[table.Decision]) error
	// Timeline, if set, is called once after the run with every operation and its
	// stamps, in the order of the corpus.
	Timeline func(rows iter.Seq[table.Operation]) error
	// Verify compares the drained index with the reference index.
	Verify bool
	// VerifyQueries is the number of answers to compare; 0: DefaultVerifyQueries.
	VerifyQueries int
	// Inject slows the index on purpose; the record says so.
	Inject Injection
	// Log receives what is worth saying outside the window. nil: nothing.
	Log *slog.Logger
	// Phase, if set, is told what comes next, never inside the window.
	Phase func(Phase)

	// trackedFor says who asked for the counters.
	trackedFor string
	// pin replaces host.PinThread in tests.
	pin func(cpu int) error
}

// Phase is a part of a trial that a user may want to see.
type Phase string

// The phases of a trial in their order.
const (
	PhaseQuiesce   Phase = "quiesce"
	PhaseSetup     Phase = "set up"
	PhaseRun       Phase = "run"
	PhaseDrain     Phase = "drain"
	PhaseSummarise Phase = "summarise"
	PhaseVerify    Phase = "verify"
)

// Limits of Config, far above what is of use.
const (
	MaxThreads       = 1024 // of one role
	MaxQueryLanes    = 1 << 20
	MaxWarmupLookups = 1 << 30
)

// Defaults of Config.
const (
	DefaultQueryLanes    = 128
	DefaultIssuerSpin    = 75 * time.Microsecond
	DefaultWarmupLookups = 128
	DefaultDrainTimeout  = 10 * time.Minute
	DefaultVerifyQueries = 2000
	DefaultQuiesce       = 5 * time.Second
)

// startDelay lies between the moment the barrier is set and the start.
const startDelay = 20 * time.Millisecond

func (c *Config) fill() error {
	if err := c.Check(); err != nil {
		return err
	}
	switch {
	case c.Corpus == nil:
		return errors.New("replay: no corpus")
	case len(c.Corpus.Ranks) == 0:
		return errors.New("replay: the corpus has no ranks")
	case len(c.Corpus.Ops) == 0:
		return errors.New("replay: the corpus has no operations")
	case c.Corpus.Manifest.WindowNS <= 0:
		return errors.New("replay: the corpus has no window")
	case c.Corpus.Manifest.Totals.RequestBlocks == 0:
		return fmt.Errorf("no prompt of the corpus fills a block of %d tokens, so there is nothing to replay; lower --block-size", c.Corpus.Manifest.Options.BlockSize)
	}
	return c.setDefaults()
}

// Check returns an error that names the flag if something is out of its range,
// as far as that can be said without the corpus.
func (c *Config) Check() error {
	switch {
	case c.Index.New == nil:
		return errors.New("replay: no index")
	case c.QueryLanes > MaxQueryLanes:
		return fmt.Errorf("--query-lanes is %d; it must be at most %d", c.QueryLanes, MaxQueryLanes)
	case c.QueueCapacity > 1<<31:
		return fmt.Errorf("--queue-capacity is %d; it must be at most 2^31", c.QueueCapacity)
	case c.WarmupLookups > MaxWarmupLookups:
		return fmt.Errorf("--warmup-lookups is %d; it must be at most %d", c.WarmupLookups, MaxWarmupLookups)
	case c.QueryLanes < 0:
		return fmt.Errorf("--query-lanes is %d; it must be at least 1", c.QueryLanes)
	case c.QueueCapacity < 0:
		return fmt.Errorf("--queue-capacity is %d; it must be at least 1, or 0 for room for all events", c.QueueCapacity)
	case c.Quiesce < 0:
		return fmt.Errorf("--quiesce is %v; it must not be negative", c.Quiesce)
	case c.WarmupLookups < 0:
		return fmt.Errorf("--warmup-lookups is %d; it must not be negative", c.WarmupLookups)
	case c.DrainTimeout < 0:
		return fmt.Errorf("--drain-timeout is %v; it must not be negative", c.DrainTimeout)
	case c.VerifyQueries < 0:
		return fmt.Errorf("--verify-queries is %d; it must not be negative", c.VerifyQueries)
	case c.ReaderRate < 0 || c.ReaderRate > 1e9 || c.ReaderRate != c.ReaderRate:
		return fmt.Errorf("--resident-blocks-reader-rate is %g; it must lie in [0, 1e9] passes per second", c.ReaderRate)
	}
	if err := c.Inject.check(); err != nil {
		return err
	}
	if err := c.checkTimeline(); err != nil {
		return err
	}
	if err := c.checkPolicy(); err != nil {
		return err
	}
	t := c.Placement.Threads
	if c.Serial && t.EventIssuers > 1 {
		return fmt.Errorf("--serial issues everything from one thread, and %d event issuers are asked for; leave --event-issuers and --issuer-cpus out", t.EventIssuers)
	}
	if t.EventIssuers < 1 || t.QueryThreads < 1 || t.EventThreads < 1 {
		return fmt.Errorf("replay: the placement has no threads: %+v", t)
	}
	if t.Reader > 0 && !c.TrackResidentBlocks && !c.readsResident() {
		return errors.New("a reader of resident blocks needs --track-resident-blocks")
	}
	if c.Index.SingleThread && t.EventThreads != 1 {
		return fmt.Errorf("index %s works with one event thread; pass --event-workers 1", c.Index.Name)
	}
	if c.Index.Null && c.Verify {
		return fmt.Errorf("index %s answers nothing, so there is nothing to verify; leave --verify out", c.Index.Name)
	}
	if c.QueryLanes != 0 && c.QueryLanes < t.QueryThreads {
		return fmt.Errorf("--query-lanes is %d but there are %d query threads; each needs at least one lane", c.QueryLanes, t.QueryThreads)
	}
	return c.checkHugePages()
}

// readsResident says whether the policy needs the counters.
func (c *Config) readsResident() bool {
	return c.Policy != nil && c.Policy.Inputs().Has(policies.ExperimentalResidentBlocks)
}

// checkHugePages builds a small index: only the index knows whether it can.
func (c *Config) checkHugePages() error {
	if !c.HugePages {
		return nil
	}
	index, err := c.Index.New(indexer.Config{Threads: c.Placement.Threads.EventThreads, Slots: 1, HugePages: true})
	if err != nil {
		return fmt.Errorf("--huge-pages: %w; leave the flag out or choose another --index", err)
	}
	return index.Close()
}

func (c *Config) setDefaults() error {
	t := c.Placement.Threads
	if c.QueryLanes == 0 {
		c.QueryLanes = max(t.QueryThreads, min(DefaultQueryLanes, len(c.Corpus.Ranks)))
	}
	if c.IssuerSpin < 0 {
		c.IssuerSpin = DefaultIssuerSpin
		if c.Placement.Shared {
			c.IssuerSpin = 0
		}
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = DefaultDrainTimeout
	}
	if c.VerifyQueries == 0 {
		c.VerifyQueries = DefaultVerifyQueries
	}
	var asked []string
	if c.TrackResidentBlocks {
		asked = append(asked, "flag")
	}
	if c.readsResident() {
		asked = append(asked, "policy")
	}
	c.TrackResidentBlocks, c.trackedFor = len(asked) > 0, strings.Join(asked, ", ")
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Phase == nil {
		c.Phase = func(Phase) {}
	}
	if c.pin == nil {
		c.pin = host.PinThread
	}
	return nil
}
