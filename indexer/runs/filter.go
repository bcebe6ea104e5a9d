package runs

import "math/bits"

// filter says of a name that a rank does not have it, or that it probably has. A
// name is a tag of 15 bits of its hash in one of the four lanes of a word, or of
// the next words if that is full. The highest bit of a lane that is in use is set,
// and lanes are used from the lowest on. A name that is not there is taken for one
// with a chance of about 1 : 10,000.
//
// Equal tags are kept as often as they were inserted, so that removing a name does
// not hide another one. A name that is not removed when it goes costs its room, and
// a search when it comes back. A search for a tag goes on behind a word whose last
// lane is in use; so a word that was full once stays so, and a tag that goes leaves
// a tombstone in it until the filter is made anew.
type filter struct {
	words []uint64
	used  int // lanes, with tombstones
}

const (
	lowBits   = 1<<48 | 1<<32 | 1<<16 | 1
	highBits  = lowBits << 15
	tombstone = 1 << 15 * lowBits // no name has this tag
	lane      = 1<<16 - 1

	// Lanes in use for each word at which the filter is full.
	fullWord  = 3
	minFilter = 8
)

// start returns the word in which a name begins to be looked for, and its tag in
// all lanes.
func (f *filter) start(hash uint64) (i int, tags uint64) {
	tag := hash & (1<<15 - 1)
	tag += (tag - 1) >> 63 // 0 is the tombstone's
	return int(uint64(uint32(hash>>32)) * uint64(len(f.words)) >> 32), (tag | 1<<15) * lowBits
}

// warmAhead is how many names are looked for at a time.
const warmAhead = 64

// hashed are hashes of some names.
type hashed [warmAhead]uint64

// touch hashes names and loads their words. The filter of a rank is rarely in a
// cache when its event comes, and what is in a word cannot be guessed: looking names
// up one by one waits for one word after the other, while these loads wait together.
// The sum of the words keeps the loads alive.
func (f *filter) touch(names []uint64, to *hashed) (sum uint64) {
	words := f.words
	n := uint64(len(words))
	for i, name := range names[:min(len(names), len(to))] {
		h := mix(name)
		to[i] = h
		sum += words[uint64(uint32(h>>32))*n>>32]
	}
	return sum
}

// equal has bits in the lowest lane of a word that equals the tag, and perhaps in
// higher ones; it is 0 if there is none. A lane that equals it becomes 0 by the
// exclusive or, and one that is free has its highest bit set.
func equal(word, tags uint64) uint64 {
	x := word ^ tags
	return (x - lowBits) & ^x & highBits
}

// has says whether a name may be there.
func (f *filter) has(hash uint64) bool {
	words := f.words
	for i, tags := f.start(hash); ; {
		word := words[i]
		if equal(word, tags) != 0 {
			return true
		}
		if word < 1<<63 {
			return false
		}
		if i++; i == len(words) {
			i = 0
		}
	}
}

// add inserts a name, for which there is room, unless it may be there, and says
// whether it may.
func (f *filter) add(hash uint64) (had bool) {
	words := f.words
	for i, tags := f.start(hash); ; {
		word := words[i]
		if equal(word, tags) != 0 {
			return true
		}
		if word < 1<<63 {
			words[i] = word | tags&lane<<(64-bits.LeadingZeros64(word)) // a multiple of 16
			f.used++
			return false
		}
		if i++; i == len(words) {
			i = 0
		}
	}
}

// insert adds a name, for which there is room.
func (f *filter) insert(hash uint64) {
	words := f.words
	i, tags := f.start(hash)
	for words[i] >= 1<<63 {
		if i++; i == len(words) {
			i = 0
		}
	}
	words[i] |= tags & lane << (64 - bits.LeadingZeros64(words[i]))
	f.used++
}

// remove takes a name away that was inserted.
func (f *filter) remove(hash uint64) {
	words := f.words
	for i, tags := f.start(hash); ; {
		word := words[i]
		if eq := equal(word, tags); eq != 0 {
			at := bits.TrailingZeros64(eq) - 15
			if word >= 1<<63 {
				words[i] = word&^(lane<<at) | tombstone&(lane<<at)
				return
			}
			// The lanes above come down by one.
			words[i] = word&(1<<at-1) | word>>16&^(1<<at-1)
			f.used--
			return
		}
		if i++; i == len(words) {
			i = 0
		}
	}
}

// full says whether n more names are too many.
func (f *filter) full(n int) bool { return f.used+n > fullWord*len(f.words) }

// filterWords returns how many words a filter has when it is made: 7/12 of the lanes
// that it may use are in use then.
func filterWords(names int) int { return max(minFilter, (4*names+6)/7) }

// wide says whether the filter is much larger than so many names need.
func (f *filter) wide(names int) bool { return len(f.words) > 6*filterWords(names) }

// make empties the filter and gives it room for so many names. One that fits for a
// while is used again, so that a rank whose content only changes does not allocate.
func (f *filter) make(names int) {
	want := filterWords(names)
	if len(f.words) >= want*7/8 && len(f.words) <= 3*want {
		clear(f.words)
	} else {
		f.words = make([]uint64, want)
	}
	f.used = 0
}
