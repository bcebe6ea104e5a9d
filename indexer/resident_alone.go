package indexer

// ResidentCounters are counters of resident blocks without a pool: they hold what
// Store says. They are for tests and benchmarks of whoever reads a ResidentTable.
type ResidentCounters struct {
	table *ResidentTable
	// byThread are the counters of each event thread, in the order of slots.
	byThread [][]*ResidentCell
}

// NewResidentCounters makes counters for the slots of one rank each, whose event
// thread is threads[slot], laid out as those of a Pool with such a layout. All
// counts are 0.
func NewResidentCounters(threads []int, layout CounterLayout) *ResidentCounters {
	n := 0
	for _, th := range threads {
		n = max(n, th+1)
	}
	sources := make([]counterSource, n)
	for i := range sources {
		sources[i].layout = layout
	}
	c := &ResidentCounters{byThread: make([][]*ResidentCell, n)}
	cells := make([][]ResidentCell, len(threads))
	for slot, th := range threads {
		cells[slot] = sources[th].next()
		c.byThread[th] = append(c.byThread[th], &cells[slot][0])
	}
	c.table = newResidentTable(cells, func(slot int) int { return threads[slot] }, n, layout, nil)
	return c
}

// Residents returns the table, which is always the same one.
func (c *ResidentCounters) Residents() *ResidentTable { return c.table }

// Store sets the count of a slot, below AbsentCount. It may be called while others
// read.
func (c *ResidentCounters) Store(slot Slot, blocks uint32) {
	c.table.cells[slot].word.Store(uint64(blocks))
}

// StoreAll sets every count, one event thread's after the other's.
func (c *ResidentCounters) StoreAll(blocks uint32) {
	for _, counters := range c.byThread {
		for _, counter := range counters {
			counter.word.Store(uint64(blocks))
		}
	}
}
