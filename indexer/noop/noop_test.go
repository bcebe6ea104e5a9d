package noop

import (
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

func TestNothingHappens(t *testing.T) {
	f := Factory()
	if !f.Null {
		t.Error("the factory does not say that the index is a null index")
	}
	x, err := f.New(indexer.Config{Threads: 1, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	w, r := x.Writer(0), x.Reader()
	w.Attach(0)
	stored := indexer.Event{Kind: indexer.Stored, Sequences: []indexer.SequenceHash{1}, Locals: []indexer.LocalHash{2}}
	if e := w.Apply(&stored); e != (indexer.Effect{}) || w.Blocks(0) != 0 {
		t.Errorf("effect %+v, %d blocks; want nothing", e, w.Blocks(0))
	}
	// An answer is emptied all the same.
	var ans indexer.Answer
	ans.Set(3, 7)
	query := []indexer.LocalHash{2}
	r.Find(query, indexer.FindOptions{}, &ans)
	if len(ans.Touched()) != 0 || ans.Score(3) != 0 {
		t.Errorf("%d ranks in the answer, want none", len(ans.Touched()))
	}
	if n := testing.AllocsPerRun(100, func() { w.Apply(&stored); r.Find(query, indexer.FindOptions{}, &ans) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	w.Park()
	w.Detach(0)
	r.Close()
	if x.Check() != nil || x.Close() != nil {
		t.Error("nothing can be wrong with it")
	}
}
