package trace

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// ExpandPrefix makes every prompt f times as long: id h becomes the ids f*h,
// f*h+1, ... f*h+f-1, and input lengths are multiplied. Block size, output
// lengths and times stay. f is 1 or more; 1 returns t.
func (t *Trace) ExpandPrefix(f int) (*Trace, error) {
	if f < 1 {
		return nil, fmt.Errorf("the length factor is %d; give 1 or more", f)
	}
	if f == 1 {
		return t, nil
	}
	// Everything is checked before the memory for it is asked for.
	factor := uint64(f)
	for i := range t.rows {
		r := &t.rows[i]
		if hi, lo := bits.Mul64(uint64(r.input), factor); hi != 0 || lo > maxLength {
			return nil, fmt.Errorf("%s: an input of %d tokens becomes longer than %d; lower the length factor", t.at(i), r.input, maxLength)
		}
		if hi, lo := bits.Mul64(uint64(r.numIDs), factor); hi != 0 || lo > math.MaxUint32 {
			return nil, fmt.Errorf("%s: %d ids become more than 2^32-1; lower the length factor", t.at(i), r.numIDs)
		}
		for _, id := range t.hashIDs(i) {
			hi, lo := bits.Mul64(id, factor)
			if hi != 0 || lo > math.MaxUint64-(factor-1) {
				return nil, fmt.Errorf("%s: the id %d becomes larger than 2^64-1; lower the length factor", t.at(i), id)
			}
		}
	}

	out := *t
	out.rows = slices.Clone(t.rows)
	for i := range out.rows {
		r := &out.rows[i]
		r.input *= uint32(f)
		r.numIDs *= uint32(f)
		r.firstID *= factor
	}
	out.ids = make([]uint64, 0, len(t.ids)*f)
	for _, id := range t.ids {
		for k := range factor {
			out.ids = append(out.ids, id*factor+k)
		}
	}
	return &out, nil
}

// Duplicate makes c copies of all sessions, those of copy 0 first, then those of
// copy 1, and so on. Copy k has the ids id + k x (largest id + 1), and its named
// sessions are called "<session>:copy_k". Times stay, so that the load is c
// times as high at the same instants; rows of different copies are not in the
// order of time. c is 1 or more; 1 returns t.
func (t *Trace) Duplicate(c int) (*Trace, error) {
	if c < 1 {
		return nil, fmt.Errorf("the duplication factor is %d; give 1 or more", c)
	}
	if c == 1 {
		return t, nil
	}
	if hi, lo := bits.Mul64(uint64(len(t.rows)), uint64(c)); hi != 0 || lo > math.MaxUint32 {
		return nil, fmt.Errorf("%d rows become more than 2^32-1; lower the duplication factor", len(t.rows))
	}
	largest := uint64(0)
	for _, id := range t.ids {
		largest = max(largest, id)
	}
	// The last copy's largest id is c x (largest+1) - 1.
	if hi, lo := bits.Mul64(largest+1, uint64(c)); largest == math.MaxUint64 || hi > 1 || hi == 1 && lo > 0 {
		return nil, fmt.Errorf("the id %d becomes larger than 2^64-1 in copy %d; lower the duplication factor", largest, c-1)
	}

	out := &Trace{
		BlockSize: t.BlockSize,
		rows:      make([]row, 0, len(t.rows)*c),
		ids:       make([]uint64, 0, len(t.ids)*c),
		sessions:  make([]session, 0, len(t.sessions)*c),
	}
	for k := range c {
		for _, s := range t.sessions {
			if s.name != "" {
				s.name = fmt.Sprintf("%s:copy_%d", s.name, k)
			}
			out.sessions = append(out.sessions, s)
		}
		for _, r := range t.rows {
			r.session += uint32(k * len(t.sessions))
			r.firstID += uint64(k * len(t.ids))
			out.rows = append(out.rows, r)
		}
		for _, id := range t.ids {
			out.ids = append(out.ids, id+uint64(k)*(largest+1))
		}
	}
	out.group()
	return out, nil
}

// SpeedUp divides all timestamps and delays by r, which is finite and above 0.
func (t *Trace) SpeedUp(r float64) (*Trace, error) {
	if !(r > 0) || math.IsInf(r, 0) {
		return nil, fmt.Errorf("the speed-up is %v; give a finite number above 0", r)
	}
	if r == 1 {
		return t, nil
	}
	return t.retime(func(_ int, r0 *row) {
		r0.timestamp /= r
		r0.delay /= r
	}, "raise the speed-up")
}

// NormalizeStarts shifts all timestamps so that the first session starts at 0.
func (t *Trace) NormalizeStarts() *Trace {
	first, _ := t.starts()
	// Timestamps only become smaller, so this cannot fail.
	out, _ := t.retime(func(_ int, r *row) { r.timestamp -= first }, "")
	return out
}

// RescaleStartSpan moves the starts of sessions linearly to the span 0 to ms,
// all to 0 if they are at one time. Delays stay. ms is finite and 0 or more.
// Timestamps of later turns no longer mean anything and are dropped.
func (t *Trace) RescaleStartSpan(ms float64) (*Trace, error) {
	if !(ms >= 0) || math.IsInf(ms, 0) {
		return nil, fmt.Errorf("the span is %v ms; give a finite number, 0 or more", ms)
	}
	first, last := t.starts()
	return t.retime(func(turn int, r *row) {
		switch {
		case turn > 0:
			r.timestamp = math.NaN()
		case last == first:
			r.timestamp = 0
		default:
			r.timestamp = (r.timestamp - first) * ms / (last - first)
		}
	}, "lower the span")
}

// RescaleReadySpan scales starts and delays by one factor so that the last turn
// becomes ready at ms if requests take no time: the factor is ms divided by the
// largest sum of a session's start and delays after the first start, or by 1 ms
// if that is more. ms is finite and 0 or more.
func (t *Trace) RescaleReadySpan(ms float64) (*Trace, error) {
	if !(ms >= 0) || math.IsInf(ms, 0) {
		return nil, fmt.Errorf("the span is %v ms; give a finite number, 0 or more", ms)
	}
	first, ready := t.starts()
	for s := range t.sessions {
		delays := 0.0
		for _, i := range t.Turns(s)[1:] {
			delays += t.rows[i].delay
		}
		ready = max(ready, t.start(s)+delays)
	}
	ratio := ms / max(ready-first, 1)
	return t.retime(func(_ int, r *row) {
		r.timestamp = (r.timestamp - first) * ratio
		r.delay *= ratio
	}, "lower the span")
}

// starts returns the first and the last start of a session, 0 if there is none.
func (t *Trace) starts() (first, last float64) {
	if len(t.sessions) == 0 {
		return 0, 0
	}
	first, last = math.Inf(1), math.Inf(-1)
	for s := range t.sessions {
		first, last = min(first, t.start(s)), max(last, t.start(s))
	}
	return first, last
}

// retime returns a copy whose rows were changed. A time that overflows is an
// error with the remedy.
func (t *Trace) retime(change func(turn int, r *row), remedy string) (*Trace, error) {
	out := *t
	out.rows = slices.Clone(t.rows)
	for s := range out.sessions {
		for turn, i := range out.Turns(s) {
			r := &out.rows[i]
			change(turn, r)
			if math.IsInf(r.timestamp, 0) || math.IsInf(r.delay, 0) {
				return nil, fmt.Errorf("%s: a time becomes infinite; %s", t.at(int(i)), remedy)
			}
		}
	}
	return &out, nil
}

// at names row i in errors.
func (t *Trace) at(i int) string {
	if line := t.rows[i].line; line > 0 {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("row %d", i)
}

// partitionStream keeps the draws of Partition apart from others of the same
// seed. It is part of what never changes.
const partitionStream = 0x706172746974696f

// Partition draws for every session a number in [0, n), each as likely as any
// other. n is 1 or more.
//
// The draws never change: session s gets the upper 64 bits of u x n, where u is
// output s of the PCG-DXSM generator of math/rand/v2 with the seeds seed and
// 0x706172746974696f.
func (t *Trace) Partition(n int, seed uint64) []int {
	if n < 1 {
		panic(errors.New("trace: Partition into less than one part"))
	}
	pcg := rand.NewPCG(seed, partitionStream)
	parts := make([]int, len(t.sessions))
	for s := range parts {
		hi, _ := bits.Mul64(pcg.Uint64(), uint64(n))
		parts[s] = int(hi)
	}
	return parts
}
