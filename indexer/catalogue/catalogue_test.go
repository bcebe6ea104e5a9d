package catalogue

import (
	"strings"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

func TestAll(t *testing.T) {
	names := map[string]bool{}
	for _, f := range All() {
		if f.Name != strings.ToLower(f.Name) || f.Name == "" || names[f.Name] {
			t.Errorf("%q: names are lower case and different", f.Name)
		}
		names[f.Name] = true
		if f.Summary == "" || strings.Contains(f.Summary, "\n") {
			t.Errorf("%s: the summary is %q, want one line", f.Name, f.Summary)
		}
		x, err := f.New(indexer.Config{Threads: 1, Slots: 1})
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		w, r := x.Writer(0), x.Reader()
		w.Attach(0)
		w.Apply(&indexer.Event{Kind: indexer.Stored, Sequences: []indexer.SequenceHash{1}, Locals: []indexer.LocalHash{2}})
		var ans indexer.Answer
		r.Find([]indexer.LocalHash{2}, indexer.FindOptions{}, &ans)
		if got := ans.Score(0) == 0 && w.Blocks(0) == 0; got != f.Null {
			t.Errorf("%s: Null is %v; the score of a stored block is %d, the count %d", f.Name, f.Null, ans.Score(0), w.Blocks(0))
		}
		w.Detach(0)
		r.Close()
		if err := x.Close(); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

func TestFind(t *testing.T) {
	for _, f := range All() {
		got, err := Find(All(), f.Name)
		if err != nil || got.Name != f.Name {
			t.Errorf("%s: found %q, %v", f.Name, got.Name, err)
		}
	}
	var names []string
	for _, f := range All() {
		names = append(names, f.Name)
	}
	list := strings.Join(names, ", ")
	for name, want := range map[string][]string{
		"refrence": {`"refrence"`, list, "did you mean reference?"},
		"Flat":     {"did you mean flat?"},
		"":         {`""`, list},
		"zzzzzzzz": {list},
	} {
		_, err := Find(All(), name)
		if err == nil {
			t.Errorf("%q was found", name)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: the error %q does not say %q", name, err, w)
			}
		}
		if name == "zzzzzzzz" && strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%q: the error suggests something far away: %v", name, err)
		}
	}
	if _, err := Find(nil, "flat"); err == nil {
		t.Error("a name was found in an empty list")
	}
}
