package soak

import (
	"fmt"
	"runtime"
	"runtime/metrics"

	"github.com/kvbench/kvbench/indexer"
)

// The bounds of memory, of the index's own count and of the heap after a
// collection:
//   - after all ranks have gone: what there was before the first came, a sixteenth
//     of the index's peak, and endSlack for each event thread, which may keep
//     room ready;
//   - while content churns: in the last quarter of the rounds at most growth times
//     what there was in the first, for the same number of resident blocks, and
//     growthSlack. Tables double, so growth is 2.
const (
	endShare    = 16
	endSlack    = 1 << 20
	growth      = 2
	growthSlack = 1 << 20
	// fewRounds is how many rounds it takes to speak of growth.
	fewRounds = 16
)

// Sample is the memory after one round.
type Sample struct {
	Operations uint64 `json:"operations"`
	// ResidentBlocks is the number of pairs of a rank and a sequence hash.
	ResidentBlocks uint64 `json:"resident_blocks"`
	// IndexBytes is the index's own count, 0 if it does not count.
	IndexBytes int64 `json:"index_bytes"`
	// HeapBytes is what the last collection left on the Go heap of the whole
	// process, the reference index included.
	HeapBytes int64 `json:"heap_bytes"`
}

// Memory is how the memory went.
type Memory struct {
	// Counted says that the index counts its own memory.
	Counted    bool  `json:"counted"`
	StartIndex int64 `json:"start_index_bytes"`
	PeakIndex  int64 `json:"peak_index_bytes"`
	EndIndex   int64 `json:"end_index_bytes"`
	BoundIndex int64 `json:"bound_index_bytes"`
	// The heap without the reference index.
	StartHeap int64 `json:"start_heap_bytes"`
	PeakHeap  int64 `json:"peak_heap_bytes"` // with the reference index
	EndHeap   int64 `json:"end_heap_bytes"`
	BoundHeap int64 `json:"bound_heap_bytes"`
	// Ended says that all ranks went and the end was measured.
	Ended bool `json:"ended"`
	// FirstQuarter and LastQuarter are the largest IndexBytes in the rounds of
	// each, 0 with too few rounds; BoundLast is what the last may be.
	FirstQuarter int64 `json:"first_quarter_index_bytes"`
	LastQuarter  int64 `json:"last_quarter_index_bytes"`
	BoundLast    int64 `json:"bound_last_quarter_index_bytes"`

	Samples []Sample `json:"samples"`
}

// maxSamples is how many samples are kept; then every other one is dropped.
const maxSamples = 512

// history takes the samples of a soak of any length.
type history struct {
	samples []Sample
	stride  int // rounds that one kept sample stands for
	pending Sample
	rounds  int
}

// add keeps the largest values of stride rounds, so that no peak is lost.
func (h *history) add(s Sample) {
	h.stride = max(h.stride, 1)
	h.rounds++
	h.pending.Operations = s.Operations
	h.pending.ResidentBlocks = max(h.pending.ResidentBlocks, s.ResidentBlocks)
	h.pending.IndexBytes = max(h.pending.IndexBytes, s.IndexBytes)
	h.pending.HeapBytes = max(h.pending.HeapBytes, s.HeapBytes)
	if h.rounds%h.stride != 0 {
		return
	}
	h.samples = append(h.samples, h.pending)
	h.pending = Sample{}
	if len(h.samples) < maxSamples {
		return
	}
	for i := range maxSamples / 2 {
		a, b := h.samples[2*i], h.samples[2*i+1]
		h.samples[i] = Sample{b.Operations, max(a.ResidentBlocks, b.ResidentBlocks), max(a.IndexBytes, b.IndexBytes), max(a.HeapBytes, b.HeapBytes)}
	}
	h.samples = h.samples[:maxSamples/2]
	h.stride *= 2
}

// peak returns the largest values of samples.
func peak(samples []Sample) (p Sample) {
	for _, s := range samples {
		p.ResidentBlocks = max(p.ResidentBlocks, s.ResidentBlocks)
		p.IndexBytes = max(p.IndexBytes, s.IndexBytes)
		p.HeapBytes = max(p.HeapBytes, s.HeapBytes)
	}
	return p
}

// close fills in what the samples say.
func (m *Memory) close(h *history, threads int) {
	m.Samples = h.samples
	if h.pending.Operations > 0 {
		m.Samples = append(m.Samples, h.pending)
	}
	p := peak(m.Samples)
	m.PeakIndex, m.PeakHeap = max(p.IndexBytes, m.StartIndex), max(p.HeapBytes, m.StartHeap)
	if n := len(m.Samples); n >= fewRounds {
		// The first rounds fill the index.
		first, last := peak(m.Samples[n/8:n/8+n/4]), peak(m.Samples[n-n/4:])
		m.FirstQuarter, m.LastQuarter = first.IndexBytes, last.IndexBytes
		content := max(1, float64(last.ResidentBlocks)/float64(max(1, first.ResidentBlocks)))
		m.BoundLast = int64(growth*content*float64(first.IndexBytes)) + growthSlack
	}
	m.BoundIndex = m.StartIndex + m.PeakIndex/endShare + int64(threads)*endSlack
	m.BoundHeap = m.StartHeap + m.PeakIndex/endShare + int64(threads)*endSlack
}

// err returns which bound is broken.
func (m *Memory) err() error {
	switch {
	case m.LastQuarter > m.BoundLast:
		return fmt.Errorf("the index grows without end: at most %d bytes in an early quarter of the rounds, %d in the last, for the same content; the bound is %d",
			m.FirstQuarter, m.LastQuarter, m.BoundLast)
	case m.Ended && m.EndIndex > m.BoundIndex:
		return fmt.Errorf("all ranks have gone and the index says that it has %d bytes; the bound is %d, it began with %d", m.EndIndex, m.BoundIndex, m.StartIndex)
	case m.Ended && m.EndHeap > m.BoundHeap:
		return fmt.Errorf("all ranks have gone and the heap has %d bytes; the bound is %d, it began with %d", m.EndHeap, m.BoundHeap, m.StartHeap)
	}
	return nil
}

// own returns the index's own count of its memory. No Writer is in a call.
func own(x indexer.Index) (bytes int64, counted bool) {
	r, ok := x.(indexer.MemoryReporter)
	if !ok {
		return 0, false
	}
	for _, p := range r.Memory() {
		bytes += p.Bytes
	}
	return bytes, true
}

// liveHeap returns what the last collection left.
func liveHeap() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}

// heap collects and returns what is left.
func heap() int64 {
	// Twice, since sweeping what the first found is part of the second.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
