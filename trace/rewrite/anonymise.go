package rewrite

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"

	"github.com/kvbench/kvbench/trace"
)

// Anonymise says how to take out of a trace what may identify its users: ids, which
// may be hashes of text that someone can guess, names of sessions, and the time of
// day. Lengths, gaps and what is shared with what stay as they are; they are what a
// trace is for, and whoever knows some of them can find them again.
type Anonymise struct {
	// Key decides what ids and names become. Who has it can undo the former and
	// test guesses of the latter. The same key gives the same result, so that ids
	// stay comparable between traces.
	Key []byte
	// Numbered numbers ids from 0 in the order in which they appear, whatever the
	// key. Else each becomes another by a permutation that the key picks, which
	// takes no memory.
	Numbered bool
	// KeepTimes leaves times as they are. Else they count from the first row.
	KeepTimes bool
}

// NewAnonymiser returns a source of an anonymised src. Memory grows with the
// distinct ids if they are numbered, else not at all. Rows lose their line numbers.
func NewAnonymiser(src Source, a Anonymise) Source {
	sum := func(what string) []byte {
		m := hmac.New(sha256.New, a.Key)
		m.Write([]byte(what))
		return m.Sum(nil)
	}
	block, err := aes.NewCipher(sum("ids"))
	if err != nil {
		panic(err) // a key of 32 bytes is one
	}
	out := &anonymiser{src: src, opts: a, block: block, names: hmac.New(sha256.New, sum("sessions")), base: math.NaN()}
	if a.Numbered {
		out.numbers = map[uint64]uint64{}
	}
	return out
}

type anonymiser struct {
	src     Source
	opts    Anonymise
	block   cipher.Block
	names   hash.Hash
	numbers map[uint64]uint64 // of ids; nil: they are permuted
	base    float64
	text    [aes.BlockSize]byte
}

func (a *anonymiser) Read(q *trace.Request) error {
	if err := a.src.Read(q); err != nil {
		return err
	}
	if !a.opts.KeepTimes {
		if err := rebase(q, &a.base); err != nil {
			return fmt.Errorf("%w (or pass --keep-times)", err)
		}
	}
	if q.Session != "" {
		a.names.Reset()
		a.names.Write([]byte(q.Session))
		q.Session = "s" + hex.EncodeToString(a.names.Sum(nil)[:12])
	}
	for i, id := range q.HashIDs {
		if a.numbers == nil {
			q.HashIDs[i] = a.permute(id)
			continue
		}
		n, ok := a.numbers[id]
		if !ok {
			n = uint64(len(a.numbers))
			a.numbers[id] = n
		}
		q.HashIDs[i] = n
	}
	return nil
}

// permute is a Feistel network of six rounds over the halves of an id, with AES as
// the round function: M. Luby, C. Rackoff, "How to construct pseudorandom
// permutations from pseudorandom functions", SIAM J. Comput. 17(2), 1988, where
// four rounds suffice.
func (a *anonymiser) permute(id uint64) uint64 {
	left, right := uint32(id>>32), uint32(id)
	for round := range byte(6) {
		a.text = [aes.BlockSize]byte{4: round}
		binary.LittleEndian.PutUint32(a.text[:], right)
		a.block.Encrypt(a.text[:], a.text[:])
		left, right = right, left^binary.LittleEndian.Uint32(a.text[:])
	}
	return uint64(left)<<32 | uint64(right)
}
