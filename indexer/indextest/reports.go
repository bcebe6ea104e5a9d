package indextest

import (
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// testReports compares what an index says of its memory and shape with what was
// put into it.
func testReports(t *testing.T, f indexer.Factory) {
	s := mustOpen(t, f, 2)
	memory, ok := s.index.(indexer.MemoryReporter)
	if !ok {
		t.Fatal("the index does not report its memory")
	}
	shaper, ok := s.index.(indexer.ShapeReporter)
	if !ok {
		t.Fatal("the index does not report its shape")
	}
	if got := shaper.Shape(); got.Unit == "" || got.Blocks != 0 || got.Holders != 0 || got.MaxHolders != 0 {
		t.Errorf("empty, the shape is %+v", got)
	}
	// Ten ranks share 20 blocks; five of them go on with 10 others, each alone.
	const ranks, shared, own = 10, 20, 10
	for i := range indexer.Slot(ranks) {
		s.attach(i, int(i))
		names, path := chain(1, shared)
		ev := on(i, store(names, path))
		s.apply(&ev)
		if i < ranks/2 {
			tail, tailPath := chain(uint64(i)+2, own)
			ev := on(i, extend(names[shared-1], tail, tailPath))
			s.apply(&ev)
		}
	}
	got := shaper.Shape()
	const blocks = shared + ranks/2*own
	if got.Blocks != blocks {
		t.Errorf("the shape has %d blocks, want %d: %+v", got.Blocks, blocks, got)
	}
	if got.Units < 1 || got.Units > blocks+1 || got.MaxHolders != ranks {
		t.Errorf("the shape is %+v", got)
	}
	if got.MaxDepth != 0 && (got.MaxDepth < 2 || got.MaxDepth > shared+own) {
		t.Errorf("the depth is %d: %+v", got.MaxDepth, got)
	}
	if pairs := int64(ranks*shared + ranks/2*own); got.Holders < ranks || got.Holders > pairs {
		t.Errorf("%d holders of %d pairs: %+v", got.Holders, pairs, got)
	}
	seen := map[string]bool{}
	for _, p := range memory.Memory() {
		if p.Name == "" || seen[p.Name] || p.Bytes < 0 || p.HugeBytes < 0 || p.HugeBytes > p.Bytes {
			t.Errorf("memory part %+v", p)
		}
		seen[p.Name] = true
	}
	if len(seen) == 0 {
		t.Error("no part of the memory is reported")
	}
}

// testHugePages wants an index that was asked for huge pages to say that it
// cannot have them, or to work.
func testHugePages(t *testing.T, f indexer.Factory) {
	x, err := f.New(indexer.Config{Threads: 1, Slots: 2, HugePages: true})
	if err != nil {
		return
	}
	w, r := x.Writer(0), x.Reader()
	w.Attach(0)
	names, path := chain(1, 1000)
	ev := store(names, path)
	if got := w.Apply(&ev); got.Stored != 1000 {
		t.Errorf("the effect is %+v", got)
	}
	var ans indexer.Answer
	r.Find(path, indexer.FindOptions{}, &ans)
	if got := ans.Score(0); got != 1000 {
		t.Errorf("the answer is %d, want 1000", got)
	}
	r.Close()
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
