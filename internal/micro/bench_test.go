package micro

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/catalogue"
	"github.com/kvbench/kvbench/indexer/runs"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/trace"
)

// BenchmarkIndex runs the cases of Index one index at a time, for benchstat and
// profiles; only kvbench micro index compares indexes within a round. One
// iteration is one round. KVBENCH_TRACE names another trace than
// conversation-small.
func BenchmarkIndex(b *testing.B) {
	o := options(b)
	if path := os.Getenv("KVBENCH_TRACE"); path != "" {
		t, src, err := trace.Load(b.Context(), path, trace.ReaderOptions{BlockSize: trace.DefaultBlockSize}, nil)
		if err != nil {
			b.Fatal(err)
		}
		o.Trace, o.TraceName = t, src.Name
	}
	for _, c := range indexCases {
		b.Run(c.name, func(b *testing.B) {
			_, slots, measure, err := c.build(b.Context(), o)
			if err != nil {
				b.Fatal(err)
			}
			for _, f := range catalogue.All() {
				if !f.Null && f.Name != "reference" {
					b.Run(f.Name, func(b *testing.B) { benchmarkCase(b, f, slots, measure) })
				}
			}
		})
	}
}

func benchmarkCase(b *testing.B, f indexer.Factory, slots int, measure func(*subject) ([]metric, error)) {
	s, err := open(f, slots)
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	if _, err := measure(s); err != nil { // warm
		b.Fatal(err)
	}
	sums := map[metric]float64{}
	for b.Loop() {
		metrics, err := measure(s)
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range metrics {
			v := m.value
			m.value = 0
			sums[m] += v
		}
	}
	for m, sum := range sums {
		b.ReportMetric(sum/float64(b.N), benchUnit(m))
	}
}

// benchUnit makes a metric's name and unit one word, as the benchmark format
// wants it.
func benchUnit(m metric) string {
	word := []byte(m.name + ":" + m.unit)
	for i, c := range word {
		if c == ' ' || c == ',' {
			word[i] = '-'
		}
	}
	return string(word)
}

// BenchmarkDefaultSelection runs the selections of DefaultSelection one variant at
// a time, for benchstat and profiles. An iteration is one selection.
func BenchmarkDefaultSelection(b *testing.B) {
	for _, candidates := range selectionCandidates {
		for _, v := range selectionVariants {
			b.Run(fmt.Sprintf("%d/%s", candidates, strings.ReplaceAll(v.name, ", ", "-")), func(b *testing.B) {
				s, err := newSelector(candidates, v, 42)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.selections(10); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				if _, err := s.selections(b.N); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(candidates), "ns/candidate")
			})
		}
	}
}

// BenchmarkResidentBlocksRead runs the selections of ResidentRead one variant at a
// time, for benchstat and profiles. An iteration is one selection.
func BenchmarkResidentBlocksRead(b *testing.B) {
	cpus, err := host.AllowedCPUs()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range residentReadCases {
		for _, v := range []string{ResidentReadBase, readIdle, readCopied, readRewritten} {
			b.Run(c.name()+"/"+strings.ReplaceAll(strings.ReplaceAll(v, ",", ""), " ", "-"), func(b *testing.B) {
				if v == readRewritten && len(cpus) < 2 {
					b.Skip("one CPU")
				}
				s, err := newCountReader(c)
				if err != nil {
					b.Fatal(err)
				}
				p := s.pipelines[v]
				run := func() error {
					b.ReportAllocs()
					b.ResetTimer()
					return s.selections(p, b.N)
				}
				if err := s.selections(p, 10); err != nil {
					b.Fatal(err)
				}
				if v == readRewritten {
					_, err = s.rewritten(cpus[1], run)
				} else {
					err = run()
				}
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.candidates), "ns/candidate")
			})
		}
	}
}

// BenchmarkResidentBlocksWrite runs the passes of ResidentWrite in this process, where
// the first variant is slower than those after it; only kvbench micro
// resident_blocks_write compares. An iteration is one pass.
func BenchmarkResidentBlocksWrite(b *testing.B) {
	for _, c := range residentWriteCases {
		for _, v := range ResidentWriteVariants() {
			b.Run(c.name+"/"+v, func(b *testing.B) {
				w, err := newResidentWriter(b.Context(), runs.Factory(), c.blocks, v == writeTracked)
				if err != nil {
					b.Fatal(err)
				}
				defer w.close(b.Context())
				if _, _, err := w.pass(b.Context()); err != nil {
					b.Fatal(err)
				}
				stores, clears := 0.0, 0.0
				for b.Loop() {
					s, c, err := w.pass(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					stores, clears = stores+s, clears+c
				}
				b.ReportMetric(stores/float64(b.N), "ns/store")
				b.ReportMetric(clears/float64(b.N), "ns/clear")
			})
		}
	}
}
