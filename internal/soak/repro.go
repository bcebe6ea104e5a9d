package soak

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/kvbench/kvbench/indexer"
)

// ReproSchema names the form of a reproduction: one JSON object a line, the first
// a Repro, each other an operation.
const ReproSchema = "kvbench.soak-repro/v1"

// window is how many operations before a difference a reproduction is made from.
const window = 2000

// Repro is a short history that shows a difference when one goroutine applies it.
type Repro struct {
	Schema  string `json:"schema"`
	Index   string `json:"index"`
	Seed    uint64 `json:"seed"`    // of the soak that it comes from
	Problem string `json:"problem"` // that it showed when it was written
	ops     []op
}

// Len returns the number of operations.
func (r *Repro) Len() int { return len(r.ops) }

// line is an operation in a file.
type line struct {
	Do        string                 `json:"do"` // register, unregister or event
	Rank      int                    `json:"rank"`
	Kind      indexer.EventKind      `json:"kind,omitempty"`
	Parent    *indexer.SequenceHash  `json:"parent,omitempty"`
	Sequences []indexer.SequenceHash `json:"sequences,omitempty"`
	Locals    []indexer.LocalHash    `json:"locals,omitempty"`
}

var actions = map[string]action{"register": register, "unregister": unregister, "event": apply}

// Write writes it.
func (r *Repro) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	if err := enc.Encode(r); err != nil {
		return err
	}
	for i := range r.ops {
		o := &r.ops[i]
		l := line{Rank: o.rank, Kind: o.event.Kind, Sequences: o.event.Sequences, Locals: o.event.Locals}
		for name, do := range actions {
			if do == o.do {
				l.Do = name
			}
		}
		if o.event.HasParent {
			l.Parent = &o.event.Parent
		}
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// ReadRepro reads what Write wrote; name is for errors.
func ReadRepro(name string, in io.Reader) (*Repro, error) {
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 64<<20)
	var r *Repro
	for n := 1; sc.Scan(); n++ {
		text := bytes.TrimSpace(sc.Bytes())
		if r == nil {
			r = &Repro{}
			if err := json.Unmarshal(text, r); err != nil {
				return nil, fmt.Errorf("%s:%d: %w; the first line must be the header that --repro writes", name, n, err)
			}
			if r.Schema != ReproSchema {
				return nil, fmt.Errorf("%s:%d: schema is %q; it must be %q", name, n, r.Schema, ReproSchema)
			}
			continue
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		do, ok := actions[l.Do]
		if !ok {
			return nil, fmt.Errorf("%s:%d: do is %q; it must be register, unregister or event", name, n, l.Do)
		}
		if l.Rank < 0 || l.Rank >= indexer.MaxRanks {
			return nil, fmt.Errorf("%s:%d: rank is %d; it must be 0 to %d", name, n, l.Rank, indexer.MaxRanks-1)
		}
		o := op{do: do, rank: l.Rank, event: indexer.Event{Kind: l.Kind, Sequences: l.Sequences, Locals: l.Locals}}
		if l.Parent != nil {
			o.event.HasParent, o.event.Parent = true, *l.Parent
		}
		r.ops = append(r.ops, o)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r == nil {
		return nil, fmt.Errorf("%s: it is empty; the first line must be the header that --repro writes", name)
	}
	return r, nil
}

// Replay applies the history to an index and to the reference and returns the first
// difference, nil if there is none.
func (r *Repro) Replay(f indexer.Factory) error { return alone(f, r.ops) }

// alone applies operations by one goroutine. Those of a rank that is not there, or
// is there already, are left out.
func alone(f indexer.Factory, ops []op) error {
	return guard(func() error {
		x, err := f.New(indexer.Config{Threads: 1, Slots: 64})
		if err != nil {
			return err
		}
		t, err := newTruth(64)
		if err != nil {
			return err
		}
		w, reader, present := x.Writer(0), x.Reader(), map[int]bool{}
		var ans indexer.Answer
		for i := range ops {
			o := &ops[i]
			slot := indexer.Slot(o.rank)
			if present[o.rank] == (o.do == register) {
				continue
			}
			var got indexer.Effect
			switch o.do {
			case register:
				w.Attach(slot)
			case unregister:
				w.Detach(slot)
			case apply:
				ev := o.event
				ev.Slot = slot
				got = w.Apply(&ev)
			}
			present[o.rank] = o.do != unregister
			if want := t.apply(o); got != want {
				return fmt.Errorf("%v: the effect is %+v, want %+v", o, got, want)
			}
			if o.do == unregister {
				continue
			}
			if got, want := w.Blocks(slot), t.writer.Blocks(slot); got != want {
				return fmt.Errorf("%v: rank %d has %d blocks, want %d", o, o.rank, got, want)
			}
			reader.Find(o.event.Locals, indexer.FindOptions{}, &ans)
			answer, err := read(&ans, indexer.MaxRanks, len(o.event.Locals))
			if err != nil {
				return fmt.Errorf("%v: %w", o, err)
			}
			want := map[indexer.Slot]uint32{}
			for rank, n := range t.find(o.event.Locals) {
				want[indexer.Slot(rank)] = n
			}
			if !maps.Equal(answer, want) {
				return fmt.Errorf("%v: the answer to its blocks is %v, want %v", o, answer, want)
			}
		}
		if err := x.Check(); err != nil {
			return err
		}
		reader.Close()
		return x.Close()
	})
}

// Reproduce makes a short history that shows a difference of a soak, from the
// operations before it. It is an error if one goroutine applying them goes right.
// It leaves out operations for as long as limit.
func Reproduce(o *Options, p *Problem, limit time.Duration) (*Repro, error) {
	if p.Memory {
		return nil, fmt.Errorf("memory that does not come back has no short reproduction; run seed %d again", o.Seed)
	}
	g := newGenerator(o.Seed, o.Ranks)
	var ops []op
	present := make([]bool, o.Ranks)
	for made := uint64(0); made <= p.Operation; {
		next := g.next(nil, int(min(uint64(o.CheckEvery), p.Operation+1-made)))
		made += uint64(len(next))
		ops = append(ops, next...)
		for ; len(ops) > window; ops = ops[1:] {
			present[ops[0].rank] = ops[0].do != unregister
		}
	}
	var begin []op
	for rank, is := range present {
		if is {
			begin = append(begin, op{do: register, rank: rank})
		}
	}
	ops = append(begin, ops...)
	err := alone(o.Index, ops)
	if err == nil {
		return nil, fmt.Errorf("the last %d operations, applied by one goroutine, show no difference; run seed %d again", window, o.Seed)
	}
	end := time.Now().Add(limit)
	for size := len(ops) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(ops) && time.Now().Before(end); {
			fewer := append(append([]op{}, ops[:from]...), ops[from+size:]...)
			if e := alone(o.Index, fewer); e != nil {
				ops, err = fewer, e
			} else {
				from += size
			}
		}
	}
	return &Repro{Schema: ReproSchema, Index: o.Index.Name, Seed: o.Seed, Problem: err.Error(), ops: ops}, nil
}
