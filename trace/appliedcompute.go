package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// appliedComputeDecoder reads lines of AppliedCompute: see Reader.
type appliedComputeDecoder struct {
	r       *Reader
	content content
	number  int // of sessions begun

	// The session of the current line.
	name    string
	context prefix
	turns   []agentTurn
	next    int
}

// agentTurn is one request of a session and what comes before the next.
type agentTurn struct {
	output, tool int
	waitMS       float64 // before this one
}

func newAppliedComputeDecoder(r *Reader) *appliedComputeDecoder {
	r.notes = append(r.notes, "a line is a session; its turns continue one prompt, which no other session shares")
	return &appliedComputeDecoder{r: r, content: content{blockSize: r.opts.BlockSize}}
}

func (d *appliedComputeDecoder) line(line []byte, req *Request) bool {
	r := d.r
	o, ok := r.object(line)
	if !ok {
		return false
	}
	if r.opts.SessionsPerSecond == 0 {
		r.fail("", errors.New("the trace has no arrival times; pass --arrivals-per-second to have its sessions begin at that rate"))
		return false
	}
	for _, f := range []int{fieldTurns, fieldPrompt, fieldResponses, fieldToolTokens, fieldToolSeconds, fieldFinal} {
		if o.values[f] == nil {
			r.fail(fieldNames[f], errors.New("is missing; it is one of the six fields of a session"))
		}
	}
	if r.failed() {
		return false
	}
	turns, prompt, final := r.length(o, fieldTurns), r.length(o, fieldPrompt), r.length(o, fieldFinal)
	responses, tools, waits := r.list(o, fieldResponses), r.list(o, fieldToolTokens), r.list(o, fieldToolSeconds)
	for f, list := range map[int][]json.RawMessage{fieldResponses: responses, fieldToolTokens: tools, fieldToolSeconds: waits} {
		if !r.failed() && len(list) != turns {
			r.fail(fieldNames[f], fmt.Errorf("has %d elements and num_turns is %d; give one for each turn", len(list), turns))
		}
	}
	if r.failed() {
		return false
	}
	d.turns = append(d.turns[:0], agentTurn{waitMS: math.NaN()})
	total := int64(prompt)
	for i := range turns {
		at := func(f int) string { return fmt.Sprintf("%s[%d]", fieldNames[f], i) }
		var errs [3]error
		var wait float64
		d.turns[i].output, errs[0] = r.parseLength(responses[i])
		d.turns[i].tool, errs[1] = r.parseLength(tools[i])
		wait, errs[2] = r.parseTime(waits[i])
		for k, f := range []int{fieldResponses, fieldToolTokens, fieldToolSeconds} {
			if errs[k] != nil {
				r.fail(at(f), errs[k])
			}
		}
		d.turns = append(d.turns, agentTurn{waitMS: wait})
		total += int64(d.turns[i].output) + int64(d.turns[i].tool)
	}
	d.turns[turns].output = final
	if total > maxLength {
		r.fail("", fmt.Errorf("the session's prompt reaches %d tokens, more than %d; split the session", total, maxLength))
	}
	if r.failed() {
		d.turns = d.turns[:0]
		return false
	}
	d.name, d.next = fmt.Sprintf("line_%d", r.lines.line), 0
	d.context = d.content.extend(prefix{}, prompt)
	r.note(madeUpArrival)
	d.number++
	return d.more(req)
}

func (d *appliedComputeDecoder) more(req *Request) bool {
	if d.next >= len(d.turns) {
		return false
	}
	turn := d.turns[d.next]
	*req = Request{
		Session: d.name, Timestamp: math.NaN(), Delay: turn.waitMS,
		InputLength: d.context.tokens(d.content.blockSize), OutputLength: turn.output,
		HashIDs: append(req.HashIDs[:0], d.content.prompt(d.context)...),
	}
	if d.next == 0 {
		req.Timestamp = float64(d.number-1) / d.r.opts.SessionsPerSecond * 1000
	}
	d.context = d.content.extend(d.context, turn.output+turn.tool)
	d.next++
	return true
}

// list reads a list whose elements stay as they are written.
func (r *Reader) list(o *object, f int) []json.RawMessage {
	var list []json.RawMessage
	if err := json.Unmarshal(o.values[f], &list); err != nil {
		r.fail(o.name(f), fmt.Errorf("%s is no list; give one element for each turn", excerpt(string(o.values[f]))))
	}
	return list
}
