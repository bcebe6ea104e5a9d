package mocker

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/trace"
)

// A block's stretch and number say what its sequence hash says: two blocks of any
// two requests have the same hash exactly if they have the same stretch and place.
func TestPromptsNameBlocksAsHashesDo(t *testing.T) {
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		traceBlock := rapid.IntRange(1, 9).Draw(t, "trace block")
		size := rapid.IntRange(1, 9).Draw(t, "size")
		rows := make([]trace.Request, rapid.IntRange(1, 12).Draw(t, "rows"))
		for i := range rows {
			var ids []uint64
			if i > 0 && rapid.Bool().Draw(t, "follows") {
				before := rows[rapid.IntRange(0, i-1).Draw(t, "whom")].HashIDs
				ids = append(ids, before[:rapid.IntRange(0, len(before)).Draw(t, "keeps")]...)
			}
			for range rapid.IntRange(0, 6).Draw(t, "more") {
				ids = append(ids, rapid.Uint64Range(0, 3).Draw(t, "id"))
			}
			least := max(0, (len(ids)-1)*traceBlock)
			rows[i] = trace.Request{
				HashIDs: ids, InputLength: rapid.IntRange(min(len(ids), least+1), len(ids)*traceBlock).Draw(t, "input"),
				OutputLength: rapid.IntRange(0, 20).Draw(t, "output"),
			}
		}
		tr, err := trace.New(traceBlock, rows)
		if err != nil {
			t.Fatal(err)
		}
		p := NewPrompts(tr, size)
		type place struct{ id, block int32 }
		byPlace := map[place]indexer.SequenceHash{}
		byHash := map[indexer.SequenceHash]place{}
		var c Chain
		for row := range rows {
			c.StartIn(p, row, 7)
			_, sequences := c.Blocks(c.Prompt() + rows[row].OutputLength)
			path := c.Path()
			for i, s := range sequences {
				for int(path[0].End) <= i {
					path = path[1:]
				}
				at := place{path[0].ID, int32(i)}
				if old, ok := byPlace[at]; ok && old != s {
					t.Fatalf("row %d, block %d: %+v has the hash %x, was %x", row, i, at, s, old)
				}
				if old, ok := byHash[s]; ok {
					shared++
					if old != at {
						t.Fatalf("row %d, block %d: hash %x is at %+v, was at %+v", row, i, s, at, old)
					}
				}
				byPlace[at], byHash[s] = s, at
			}
		}
	})
	if shared == 0 {
		t.Error("no two requests ever had a block in common")
	}
}
