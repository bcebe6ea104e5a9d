package mocker

import "github.com/kvbench/kvbench/indexer"

// A trace names content by opaque ids, the engine by hashes of its own blocks,
// which may be of any other size. Token i of a trace block is (id, i), and a
// block of the engine is hashed over the stretches of such tokens that it
// covers. So equal content at equal places of a trace block hashes equally, a
// block's hash does not depend on its position in the prompt, and the parts of
// one trace block differ.

// mix spreads two words over one. The constants are those of the finaliser of
// SplitMix64 (Steele, Lea and Flood, 2014). The values of all hashes follow
// from it: a test keeps them.
func mix(a, b uint64) uint64 {
	z := (a+0x9e3779b97f4a7c15)*0xff51afd7ed558ccd + b
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Domains keep hashes of different kinds of content apart.
const (
	promptDomain   = 0x70726f6d7074 // tokens that the trace names
	outputDomain   = 0x6f7574707574 // tokens that the engine generated
	sequenceDomain = 0x73657175656e // chains of blocks
)

// content is the tokens of one request: those of the trace, then the generated.
type content struct {
	ids        []uint64
	traceBlock int    // tokens of an id
	prompt     int    // tokens of the prompt
	output     uint64 // names the stream of generated tokens
}

// local returns the local hash of tokens [from, to).
func (c *content) local(from, to int) indexer.LocalHash {
	h := uint64(0)
	for from < to {
		if from >= c.prompt {
			h = stretch(h, outputDomain, c.output, from-c.prompt, to-from)
			break
		}
		offset := from % c.traceBlock
		n := min(to, c.prompt, from-offset+c.traceBlock) - from
		h = stretch(h, promptDomain, c.ids[from/c.traceBlock], offset, n)
		from += n
	}
	return indexer.LocalHash(h)
}

func stretch(h, domain, name uint64, offset, n int) uint64 {
	return mix(mix(h^domain, name), uint64(offset)<<32|uint64(n))
}

// sequence returns the sequence hash of a block after parent; the first block of
// a prompt has none.
func sequence(parent indexer.SequenceHash, hasParent bool, local indexer.LocalHash) indexer.SequenceHash {
	if !hasParent {
		parent = sequenceDomain
	}
	return indexer.SequenceHash(mix(uint64(parent), uint64(local)))
}
