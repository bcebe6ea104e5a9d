package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// agenticDecoder reads lines of Agentic: see Reader.
type agenticDecoder struct {
	r        *Reader
	v2       bool
	requests map[string]agentRequest
	branches map[string]string // a request that another has named as its branch, and that one
	sessions map[string]bool
}

// agentRequest is what is kept of a request for those that wait for it.
type agentRequest struct {
	session    string
	start, end float64 // by estimate, ms
	continued  bool
}

// dependency is what a request waits for.
type dependency struct {
	request  string
	dispatch bool // for its dispatch, not its end
	delay    float64
}

func newAgenticDecoder(r *Reader) *agenticDecoder {
	r.notes = append(r.notes, "hash_ids are taken to name whole prompts and to mean the same in all rows")
	return &agenticDecoder{r: r, requests: map[string]agentRequest{}, branches: map[string]string{}, sessions: map[string]bool{}}
}

func (d *agenticDecoder) more(*Request) bool { return false }

func (d *agenticDecoder) line(line []byte, req *Request) bool {
	r := d.r
	o, ok := r.object(line)
	if !ok {
		return false
	}
	if o.values[fieldSchema] != nil {
		d.header(o)
		return false
	}
	r.common(o, req)
	id := r.text(o, fieldRequest)
	if id == "" && !r.failed() {
		r.fail("request_id", errors.New("is missing; others wait for a request by it"))
	}
	if _, ok := d.requests[id]; ok {
		r.fail("request_id", fmt.Errorf("%s is that of an earlier row; give every request its own", excerpt(id)))
	}
	if o.values[fieldHashIDs] == nil {
		r.fail("hash_ids", errors.New("is missing; give the ids of the prompt's blocks, as in [1, 2, 3]"))
	} else {
		r.ids(o, req)
		r.input(o, req)
	}
	waits := d.waits(o, id)
	notBefore := r.time(o, fieldNotBefore)
	if d.v2 {
		req.Timestamp = notBefore
	}
	toolWait := r.time(o, fieldToolWait)
	if r.failed() {
		return false
	}
	d.place(req, id, waits, finite(req.Delay)+finite(toolWait))
	if r.failed() {
		return false
	}
	for _, branch := range r.names(o, fieldBranches) {
		d.branches[branch] = id
	}
	return !r.failed()
}

// begins reads the first line if it is a header, as it says how long blocks are.
func (d *agenticDecoder) begins(first []byte) bool {
	if !validObject(first) {
		return false
	}
	o, ok := d.r.object(first)
	if !ok || o.values[fieldSchema] == nil {
		d.r.problems = d.r.problems[:0]
		return false
	}
	d.r.lines.holds = false
	d.header(o)
	return true
}

// header reads the first line of version 2.
func (d *agenticDecoder) header(o *object) {
	r := d.r
	if len(d.requests) > 0 || d.v2 {
		r.fail("schema", errors.New("a header stands after other lines; give one trace in a file"))
		return
	}
	if v := string(o.values[fieldVersion]); v != "2" {
		r.fail("version", fmt.Errorf("is %s; version 2 is read, and version 1, which has no header", excerpt(v)))
		return
	}
	d.v2 = true
	if o.values[fieldBlockSize] == nil {
		r.fail("block_size", errors.New("is missing; give the tokens that an id stands for"))
		return
	}
	size := r.length(o, fieldBlockSize)
	if r.failed() {
		return
	}
	switch {
	case size < 1:
		r.fail("block_size", fmt.Errorf("is %d; give 1 or more", size))
	case r.sized && r.opts.BlockSize != size:
		r.fail("block_size", fmt.Errorf("is %d and --trace-block-size %d; leave the flag out", size, r.opts.BlockSize))
	default:
		r.opts.BlockSize = size
	}
}

// waits reads what a request waits for.
func (d *agenticDecoder) waits(o *object, id string) []dependency {
	r := d.r
	var waits []dependency
	for _, name := range r.names(o, fieldWaitFor) {
		waits = append(waits, dependency{request: name})
	}
	if v := o.values[fieldDependencies]; v != nil {
		var list []struct {
			RequestID string  `json:"request_id"`
			Trigger   string  `json:"trigger"`
			DelayMS   float64 `json:"delay_ms"`
		}
		if err := json.Unmarshal(v, &list); err != nil {
			r.fail("dependencies", fmt.Errorf("%w; give objects with request_id, trigger and delay_ms", err))
		}
		for i, w := range list {
			switch {
			case w.Trigger != "completion" && w.Trigger != "dispatch":
				r.fail(fmt.Sprintf("dependencies[%d].trigger", i), fmt.Errorf("is %s; give completion or dispatch", excerpt(w.Trigger)))
			case !(w.DelayMS >= 0 && w.DelayMS <= maxTimeMS):
				r.fail(fmt.Sprintf("dependencies[%d].delay_ms", i), badTime(fmt.Sprint(w.DelayMS)))
			}
			waits = append(waits, dependency{w.RequestID, w.Trigger == "dispatch", w.DelayMS})
		}
	}
	if parent, ok := d.branches[id]; ok && len(waits) == 0 {
		waits = append(waits, dependency{request: parent})
	}
	for _, w := range waits {
		if _, ok := d.requests[w.request]; !ok && !r.failed() {
			r.fail("wait_for", fmt.Errorf("waits for %s, which no earlier row has; put rows after what they wait for", excerpt(w.request)))
		}
	}
	return waits
}

// place puts a request into a session. extra is what it waits beside the delays
// of its dependencies.
func (d *agenticDecoder) place(req *Request, id string, waits []dependency, extra float64) {
	r := d.r
	if len(waits) == 0 {
		if math.IsNaN(req.Timestamp) {
			r.fail("timestamp", errors.New("is missing, and the request waits for no other; give the ms at which it arrives"))
			return
		}
		d.begin(req, id, req.Timestamp+extra)
		return
	}
	// By estimate, the last to let it go.
	var last dependency
	start := math.Inf(-1)
	for _, w := range waits {
		at := d.requests[w.request].end
		if w.dispatch {
			at = d.requests[w.request].start
		}
		if at+w.delay > start {
			last, start = w, at+w.delay
		}
	}
	start += extra
	if len(waits) > 1 {
		r.note(severalDependencies)
	}
	before := d.requests[last.request]
	switch {
	case last.dispatch:
		r.note(dispatchTrigger)
		d.begin(req, id, max(start, finite(req.Timestamp)))
		return
	case before.continued:
		r.note(estimatedStart)
		d.begin(req, id, max(start, finite(req.Timestamp)))
		return
	}
	if d.v2 && req.Timestamp > start {
		r.note(lateNotBefore)
	}
	before.continued = true
	d.requests[last.request] = before
	req.Session, req.Timestamp, req.Delay = before.session, math.NaN(), last.delay+extra
	d.keep(req, id, start)
}

// begin makes the request the first of a session.
func (d *agenticDecoder) begin(req *Request, id string, start float64) {
	name := req.Session
	if name == "" {
		name = id
	}
	if d.sessions[name] {
		name += "/" + id
	}
	for d.sessions[name] {
		name += "'"
	}
	d.sessions[name] = true
	req.Session, req.Timestamp, req.Delay = strings.Clone(name), start, math.NaN()
	d.keep(req, id, start)
}

func (d *agenticDecoder) keep(req *Request, id string, start float64) {
	d.requests[id] = agentRequest{session: req.Session, start: start, end: start + float64(req.OutputLength)*d.r.opts.TokenMS}
}

// finite returns a time, 0 if it is missing.
func finite(ms float64) float64 {
	if math.IsNaN(ms) {
		return 0
	}
	return ms
}

// text reads a name, "" if it is missing.
func (r *Reader) text(o *object, f int) string {
	v := o.values[f]
	if v == nil {
		return ""
	}
	name, err := parseSession(v)
	if err != nil {
		r.fail(o.name(f), err)
	}
	return name
}

// names reads a list of names, which may be missing.
func (r *Reader) names(o *object, f int) []string {
	v := o.values[f]
	if v == nil {
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(v, &list); err != nil {
		r.fail(o.name(f), fmt.Errorf("%s is no list; give the request_id of each", excerpt(string(v))))
		return nil
	}
	var names []string
	for i, element := range list {
		name, err := parseSession(element)
		if err != nil {
			r.fail(fmt.Sprintf("%s[%d]", o.name(f), i), err)
		}
		names = append(names, name)
	}
	return names
}
