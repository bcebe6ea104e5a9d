package simulate

// live is what is noted of a request between its arrival and its end.
type live struct {
	prompt   int32 // tokens
	output   int32 // tokens generated
	expected int32 // tokens that the router took to be in the cache of the rank it chose; -1: it does not read CACHE
	maxGap   int64
	again    again
}

// again is what a request had when it was admitted again.
type again struct{ tokens, hits int64 }

// underway has the requests on their way, by row of the trace. Rows lie in pages
// that are there while one of their requests is: memory is in proportion to these
// pages, and 8 bytes for each 32 rows of the trace.
type underway struct {
	pages  []*livePage
	unused []*livePage
}

const livePageBits = 5

type livePage struct {
	n    int // requests on their way
	rows [1 << livePageBits]live
}

func newUnderway(rows int) *underway {
	return &underway{pages: make([]*livePage, (rows+1<<livePageBits-1)>>livePageBits)}
}

// begin makes room for a request, which must not be on its way.
func (u *underway) begin(row uint64) *live {
	at := &u.pages[row>>livePageBits]
	if *at == nil {
		if last := len(u.unused) - 1; last >= 0 {
			*at, u.unused = u.unused[last], u.unused[:last]
		} else {
			*at = new(livePage)
		}
	}
	(*at).n++
	l := (*at).at(row)
	*l = live{expected: -1}
	return l
}

// of returns a request on its way.
func (u *underway) of(row uint64) *live { return u.pages[row>>livePageBits].at(row) }

// end lets a request on its way go.
func (u *underway) end(row uint64) {
	at := &u.pages[row>>livePageBits]
	if (*at).n--; (*at).n == 0 {
		u.unused = append(u.unused, *at)
		*at = nil
	}
}

func (p *livePage) at(row uint64) *live { return &p.rows[row&(1<<livePageBits-1)] }
