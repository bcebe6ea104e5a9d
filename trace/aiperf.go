package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// aiperfDecoder reads lines of AIPerf: see Reader.
type aiperfDecoder struct {
	r        *Reader
	content  content
	sessions map[string]aiperfSession
}

// aiperfSession is what the next turn of a session continues.
type aiperfSession struct {
	prompt prefix
	output int
}

func newAIPerfDecoder(r *Reader) *aiperfDecoder {
	return &aiperfDecoder{r: r, content: content{blockSize: r.opts.BlockSize}, sessions: map[string]aiperfSession{}}
}

func (d *aiperfDecoder) more(*Request) bool { return false }

func (d *aiperfDecoder) line(line []byte, req *Request) bool {
	r := d.r
	o, ok := r.object(line)
	if !ok {
		return false
	}
	r.common(o, req)
	hasText, hasInput, hasIDs := o.values[fieldText] != nil, o.values[fieldInput] != nil, o.values[fieldHashIDs] != nil
	switch {
	case hasText && (hasInput || hasIDs):
		r.fail("text_input", errors.New("stands beside input_length or hash_ids; keep the text or the lengths"))
	case hasText:
		d.text(o.values[fieldText], req)
	case hasIDs:
		r.ids(o, req)
		r.input(o, req)
	case hasInput:
		if req.InputLength = r.length(o, fieldInput); !r.failed() {
			d.fresh(req)
			r.note(madeUpIDs)
		}
	default:
		r.fail("input_length", errors.New("is missing; give the number of tokens of the prompt, or text_input"))
	}
	if r.failed() {
		return false
	}
	if req.Session != "" {
		d.accumulate(req)
	}
	return !r.failed()
}

// accumulate puts what the session has said before in front of the prompt.
func (d *aiperfDecoder) accumulate(req *Request) {
	size := d.content.blockSize
	before, later := d.sessions[req.Session]
	whole := req.InputLength / size
	prompt := prefix{ids: append([]uint64(nil), req.HashIDs[:min(whole, len(req.HashIDs))]...), tail: req.InputLength % size}
	if later {
		total := int64(before.prompt.tokens(size)) + int64(before.output) + int64(req.InputLength)
		if total > maxLength {
			d.r.fail("input_length", fmt.Errorf("the session's prompt reaches %d tokens, more than %d; split the session", total, maxLength))
			return
		}
		start := d.content.nextID
		prompt = d.content.extend(before.prompt, before.output+req.InputLength)
		ids := d.content.prompt(prompt)
		// The counter must not meet ids that the trace gives.
		for i := len(before.prompt.ids); i < len(ids); i++ {
			ids[i] = madeUp(start + uint64(i-len(before.prompt.ids)))
		}
		copy(prompt.ids[len(before.prompt.ids):], ids[len(before.prompt.ids):])
		req.HashIDs = append(req.HashIDs[:0], ids...)
		req.InputLength = int(total)
		d.r.note(accumulated)
	}
	d.sessions[req.Session] = aiperfSession{prompt, req.OutputLength}
}

// fresh gives a prompt ids that no other has.
func (d *aiperfDecoder) fresh(req *Request) {
	req.HashIDs = req.HashIDs[:0]
	for rest := req.InputLength; rest > 0; rest -= d.content.blockSize {
		req.HashIDs = append(req.HashIDs, madeUp(d.content.newID()))
	}
}

// madeUp spreads a counter over all 64 bits, one to one.
func madeUp(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// text gives a prompt of text its length and ids, which are hashes of all bytes
// to the end of the block, so that equal beginnings have equal ids.
func (d *aiperfDecoder) text(v []byte, req *Request) {
	r := d.r
	var text string
	if err := json.Unmarshal(v, &text); err != nil {
		r.fail("text_input", fmt.Errorf("%s is no text; give the prompt as one string", excerpt(string(v))))
		return
	}
	perToken := r.opts.BytesPerToken
	if perToken == 0 {
		r.fail("text_input", errors.New("its length takes a tokenizer; pass --bytes-per-token, such as 4, to take one token for every so many bytes, or give input_length"))
		return
	}
	tokens := math.Ceil(float64(len(text)) / perToken)
	if tokens > maxLength {
		r.fail("text_input", badLength(fmt.Sprint(tokens)))
		return
	}
	r.note(madeUpText)
	req.InputLength, req.HashIDs = int(tokens), req.HashIDs[:0]
	before := [8]byte{}
	for block, start := 0, 0; start < len(text); block++ {
		end := min(max(int(float64(block+1)*float64(d.content.blockSize)*perToken), start+1), len(text))
		if len(req.HashIDs)+1 == (req.InputLength+d.content.blockSize-1)/d.content.blockSize {
			end = len(text)
		}
		sum := sha256.Sum256(append(before[:], text[start:end]...))
		copy(before[:], sum[:])
		req.HashIDs = append(req.HashIDs, binary.LittleEndian.Uint64(sum[:]))
		start = end
	}
}
