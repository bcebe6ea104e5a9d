package vllm

// queue is a line of requests that also takes some at its front.
type queue struct {
	ring  []int32 // a power of two, or empty
	first int
	n     int
}

func (q *queue) len() int { return q.n }

// at returns element i from the front.
func (q *queue) at(i int) int32 { return q.ring[(q.first+i)&(len(q.ring)-1)] }

func (q *queue) front() int32 { return q.at(0) }

func (q *queue) grow() {
	if q.n < len(q.ring) {
		return
	}
	ring := make([]int32, max(16, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = q.at(i)
	}
	q.ring, q.first = ring, 0
}

func (q *queue) pushBack(id int32) {
	q.grow()
	q.n++
	q.ring[(q.first+q.n-1)&(len(q.ring)-1)] = id
}

func (q *queue) pushFront(id int32) {
	q.grow()
	q.first = (q.first - 1) & (len(q.ring) - 1)
	q.ring[q.first] = id
	q.n++
}

func (q *queue) popFront() {
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.n--
}
