package trace

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// bailianDecoder reads lines of Bailian: see Reader.
type bailianDecoder struct {
	r     *Reader
	chats map[int64]chat
}

// chat is where in a session a chat is.
type chat struct {
	session   int64 // the chat that began it
	continued bool  // another row names it as its parent
}

func newBailianDecoder(r *Reader) *bailianDecoder {
	if r.opts.KeepIDs {
		r.notes = append(r.notes, "ids were kept, although they hash single blocks: an id may stand after different prefixes, and counting equal ids alone overstates what a prefix cache can hit")
	} else {
		r.notes = append(r.notes, "ids hash single blocks, so each was replaced by a hash of itself and all before it, and one id means one prefix")
	}
	r.notes = append(r.notes, "a chat and the first that names it as its parent are turns of a session; a turn waits for the end of the one before it and then for the difference of their timestamps")
	return &bailianDecoder{r: r, chats: map[int64]chat{}}
}

func (d *bailianDecoder) more(*Request) bool { return false }

func (d *bailianDecoder) line(line []byte, req *Request) bool {
	r := d.r
	o, ok := r.object(line)
	if !ok {
		return false
	}
	r.common(o, req)
	req.Session, req.Delay = "", math.NaN()
	chat, parent := r.whole(o, fieldChat, true), r.whole(o, fieldParent, false)
	if o.values[fieldTimestamp] == nil {
		r.fail("timestamp", errors.New("is missing; give the seconds at which the request arrives"))
	}
	if o.values[fieldInput] == nil {
		r.fail(o.name(fieldInput), errors.New("is missing; give the number of tokens of the prompt"))
	}
	if o.values[fieldHashIDs] == nil {
		r.fail("hash_ids", errors.New("is missing; give the ids of the prompt's blocks, as in [1, 2, 3]"))
	} else {
		r.ids(o, req)
		if o.values[fieldInput] != nil {
			r.input(o, req)
		}
	}
	if r.failed() {
		return false
	}
	if !d.session(chat, parent, req) {
		return false
	}
	if !r.opts.KeepIDs {
		chain(req.HashIDs)
	}
	return true
}

func (d *bailianDecoder) session(id, parent int64, req *Request) bool {
	r := d.r
	if _, ok := d.chats[id]; ok {
		r.fail("chat_id", fmt.Errorf("%d is the chat of an earlier row; give every row a chat_id of its own", id))
		return false
	}
	root := id
	if parent >= 0 {
		switch before, known := d.chats[parent]; {
		case !known:
			r.note(unknownParent)
		case before.continued:
			r.note(secondChild)
		default:
			root = before.session
			d.chats[parent] = chat{before.session, true}
		}
	}
	d.chats[id] = chat{session: root}
	req.Session = strconv.FormatInt(root, 10)
	return true
}

// whole reads a signed whole number; -1 if it is missing.
func (r *Reader) whole(o *object, f int, required bool) int64 {
	v := o.values[f]
	if v == nil {
		if required {
			r.fail(o.name(f), errors.New("is missing; give a whole number"))
		}
		return -1
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil && r.opts.Lenient {
		if u, ok := wholeNumber(v); ok && u <= math.MaxInt64 {
			r.note(lenient)
			return int64(u)
		}
		if string(v) == `"-1"` || string(v) == "-1.0" {
			r.note(lenient)
			return -1
		}
	}
	switch {
	case err != nil:
		r.fail(o.name(f), fmt.Errorf("%s is no id; give a whole number below 2^63, -1 for none", excerpt(string(v))))
	case n < -1 || n < 0 && required:
		r.fail(o.name(f), fmt.Errorf("%d is no id; give 0 or more", n))
	}
	return n
}

// chain replaces each id by a hash of itself and all before it. The hash is part
// of what a conversion gives, so it never changes: with 128-bit products,
//
//	h[-1] = 0x9e3779b97f4a7c15
//	h[i]  = fold((h[i-1] ^ 0xa0761d6478bd642f) x fold((id[i] ^ 0xe7037ed1a0b428db) x 0x8ebc6af09c88c6e3))
//
// where fold adds the halves of a product with xor, and a factor of 0 is taken
// as 1.
func chain(ids []uint64) {
	h := uint64(0x9e3779b97f4a7c15)
	for i, id := range ids {
		h = fold(h^0xa0761d6478bd642f, fold(id^0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3))
		ids[i] = h
	}
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(max(a, 1), max(b, 1))
	return hi ^ lo
}
