package replay

// moment is when something becomes known of a request.
type moment struct {
	at      int64  // ns from the start of the window
	request uint32 // number of the query
	ends    bool   // the request ends; else it has its first token
}

func (a moment) before(b moment) bool {
	return a.at < b.at || a.at == b.at && a.request < b.request
}

// agenda is what is still to become known, the earliest first, equal times by
// request. It has one moment for each request on its way and does not allocate
// once it has its largest size.
type agenda []moment

// push puts a moment on the agenda.
func (a *agenda) push(m moment) {
	h := append(*a, m)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !m.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = m
	*a = h
}

// pop takes the first moment, which there must be.
func (a *agenda) pop() moment {
	h := *a
	first, m := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*a = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(m) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = m
	return first
}
