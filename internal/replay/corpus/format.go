package corpus

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unsafe"

	"github.com/kvbench/kvbench/indexer"
)

// FormatVersion is the version of the file format that Write writes and Open
// reads.
//
// # The file format
//
// All numbers are unsigned and little endian unless said otherwise. A file is a
// header and five sections. Offsets count from the start of the file.
//
//	offset  bytes  header
//	     0      8  magic: 89 4B 56 42 43 0D 0A 1A
//	     8      4  format version: 2
//	    12      4  number of sections: 5
//	    16      8  size of the whole file in bytes
//	    24      8  zero
//	    32     32  identity: SHA-256 of bytes 0 to 31 followed by bytes 64 to 383
//	    64    320  section table: five entries of 64 bytes
//
//	offset  bytes  entry of the section table
//	     0      4  number of the section, 1 to 5 in this order
//	     4      4  size of one record in bytes
//	     8      8  offset of the section
//	    16      8  size of the section in bytes, a multiple of the record size
//	    24      8  zero
//	    32     32  SHA-256 of the section's bytes
//
// The first section starts at 384, every other one at the first multiple of 64
// that is not before the end of the one before it; the bytes between are zero.
// The file ends where the last section ends. The identity thus covers every
// byte of the file and is what Corpus.SHA256 returns.
//
//	number  record  section
//	     1       1  manifest: Manifest as JSON in UTF-8
//	     2      16  ranks: worker id (8 bytes), data-parallel rank (4), zero (4)
//	     3      32  requests
//	     4      40  ops
//	     5       8  hashes
//
//	offset  bytes  request
//	     0      4  row of the transformed trace
//	     4      4  session of the transformed trace
//	     8      4  input tokens
//	    12      4  output tokens
//	    16      8  first token in ns from the start of the window; signed, -1: never ran
//	    24      8  end of the request in ns from the start of the window; signed, -1: never ran
//
//	offset  bytes  op
//	     0      8  deadline in ns from the start of the window; signed, not negative
//	     8      8  position in the hashes of the op's first hash
//	    16      8  Stored with a parent: the parent's sequence hash; else zero
//	    24      4  query: its position in the requests; event: its id
//	    28      4  number of blocks n
//	    32      4  slot: position in the ranks
//	    36      1  kind: 0 query, 1 stored, 2 removed, 3 cleared
//	    37      1  1 for a Stored with a parent, else 0
//	    38      2  zero
//
// A query has n local hashes, a Removed n sequence hashes, and a Stored n
// sequence hashes followed by n local hashes; a Cleared has n = 0. What else
// must hold is said at Corpus.Check.
//
// Version 1 had requests of 16 bytes, without the two times. They cannot be made
// up, so a file of that version is refused.
const FormatVersion = 2

const (
	fixedHeader = 64
	entryBytes  = 64
	headerBytes = fixedHeader + numSections*entryBytes
	alignment   = 64
)

// The sections by their position in the table.
const (
	manifestSection = iota
	rankSection
	requestSection
	opSection
	hashSection
	numSections
)

var (
	magic        = [8]byte{0x89, 'K', 'V', 'B', 'C', '\r', '\n', 0x1a}
	sectionNames = [numSections]string{"manifest", "ranks", "requests", "ops", "hashes"}
	recordBytes  = [numSections]uint32{1, 16, 32, 40, 8}
)

// The records of mapped sections are used in place.
const (
	_ = uint(unsafe.Sizeof(Op{})-40) + uint(40-unsafe.Sizeof(Op{}))
	_ = uint(unsafe.Sizeof(Request{})-32) + uint(32-unsafe.Sizeof(Request{}))
)

// image is a corpus as the pieces of its file.
type image struct {
	header   [headerBytes]byte
	sections [numSections][]byte
}

// layout returns where sections of the given sizes lie and how long the file is.
func layout(sizes [numSections]uint64) (offsets [numSections]uint64, total uint64) {
	total = headerBytes
	for i, n := range sizes {
		offsets[i] = (total + alignment - 1) / alignment * alignment
		total = offsets[i] + n
	}
	return offsets, total
}

// newImage lays sections out and computes their digests and the identity.
func newImage(sections [numSections][]byte) image {
	var sizes [numSections]uint64
	for i, s := range sections {
		sizes[i] = uint64(len(s))
	}
	offsets, total := layout(sizes)
	img := image{sections: sections}
	h := img.header[:]
	le := binary.LittleEndian
	copy(h, magic[:])
	le.PutUint32(h[8:], FormatVersion)
	le.PutUint32(h[12:], numSections)
	le.PutUint64(h[16:], total)
	var wg sync.WaitGroup
	for i, s := range sections {
		e := h[fixedHeader+i*entryBytes:][:entryBytes]
		le.PutUint32(e, uint32(i+1))
		le.PutUint32(e[4:], recordBytes[i])
		le.PutUint64(e[8:], offsets[i])
		le.PutUint64(e[16:], sizes[i])
		wg.Go(func() {
			sum := sha256.Sum256(s)
			copy(e[32:], sum[:])
		})
	}
	wg.Wait()
	id := identity(h)
	copy(h[32:], id[:])
	return img
}

// identity computes the SHA-256 of a header without its identity field.
func identity(header []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(header[:32])
	h.Write(header[fixedHeader:headerBytes])
	return [sha256.Size]byte(h.Sum(nil))
}

// writeTo writes the file.
func (img *image) writeTo(w io.Writer) error {
	if _, err := w.Write(img.header[:]); err != nil {
		return err
	}
	at := uint64(headerBytes)
	var zeros [alignment]byte
	for _, s := range img.sections {
		if pad := -at % alignment; pad > 0 {
			if _, err := w.Write(zeros[:pad]); err != nil {
				return err
			}
			at += pad
		}
		if len(s) == 0 {
			continue
		}
		if _, err := w.Write(s); err != nil {
			return err
		}
		at += uint64(len(s))
	}
	return nil
}

// seal returns the corpus as the pieces of its file, computed once.
func (c *Corpus) seal() (*image, error) {
	c.sealOnce.Do(func() {
		if c.sealErr = checkByteOrder(); c.sealErr != nil {
			return
		}
		manifest, err := encodeManifest(&c.Manifest)
		if err != nil {
			c.sealErr = fmt.Errorf("corpus: manifest: %w", err)
			return
		}
		c.sealed = newImage([numSections][]byte{
			manifest,
			encodeRanks(c.Ranks),
			bytesOf(c.Requests),
			bytesOf(c.Ops),
			bytesOf(c.Hashes),
		})
	})
	return &c.sealed, c.sealErr
}

// SHA256 returns the identity of the corpus in lower-case hex: the one that its
// file has, whether or not it has been written yet. The first call for a corpus
// that was not opened from a file reads the whole corpus. It panics if Check
// refuses the manifest or the corpus is closed.
func (c *Corpus) SHA256() string {
	img, err := c.seal()
	if err != nil {
		panic(err)
	}
	return hex.EncodeToString(img.header[32:fixedHeader])
}

// SizeBytes returns the memory that ranks, requests, ops and hashes take, which
// is within a kilobyte or two the size of the file.
func (c *Corpus) SizeBytes() int64 {
	return int64(16*len(c.Ranks) + 32*len(c.Requests) + 40*len(c.Ops) + 8*len(c.Hashes))
}

// parse checks a whole file in memory, which must start at a multiple of 8, and
// returns the corpus that lies in it.
func parse(data []byte) (*Corpus, error) {
	if err := checkByteOrder(); err != nil {
		return nil, err
	}
	img, err := parseHeader(data)
	if err != nil {
		return nil, err
	}
	c := &Corpus{mapping: data, sealed: *img}
	c.sealOnce.Do(func() {})

	// The pass over the ops stands on its own feet, so that it can run beside
	// the digests. A wrong digest explains a wrong op, hence is reported first.
	var digestErrs [numSections]error
	var wg sync.WaitGroup
	for i := range img.sections {
		wg.Go(func() { digestErrs[i] = img.checkDigest(i) })
	}
	checkErr := c.decode()
	wg.Wait()
	if err := errors.Join(digestErrs[:]...); err != nil {
		return nil, err
	}
	if checkErr != nil {
		return nil, fmt.Errorf("checksums are right but the content is not: %w", checkErr)
	}
	return c, nil
}

// ErrNotCorpus says that a file is something else than a corpus.
var ErrNotCorpus = errors.New("not a kvbench corpus")

func parseHeader(data []byte) (*image, error) {
	le := binary.LittleEndian
	switch size := len(data); {
	case size == 0:
		return nil, fmt.Errorf("%w: the file is empty", ErrNotCorpus)
	case !bytes.HasPrefix(data, magic[:]):
		return nil, fmt.Errorf("%w: it starts with % x, a corpus with % x", ErrNotCorpus, data[:min(size, len(magic))], magic)
	case size < 12:
		return nil, fmt.Errorf("truncated: has %d of the %d bytes of the header", size, headerBytes)
	}
	if v := le.Uint32(data[8:]); v != FormatVersion {
		switch {
		case v == 0:
			return nil, errors.New("format version is 0, which never was; the file is damaged")
		case v < FormatVersion:
			return nil, fmt.Errorf("format version is %d and this program reads version %d, which also says when each request had its first token and ended: write the corpus again from its trace with 'kvbench corpus write'", v, FormatVersion)
		}
		return nil, fmt.Errorf("format version is %d and this program reads version %d: use a newer kvbench, or prepare the corpus again", v, FormatVersion)
	}
	if len(data) < headerBytes {
		return nil, fmt.Errorf("truncated: has %d of the %d bytes of the header", len(data), headerBytes)
	}
	if id := identity(data); !bytes.Equal(id[:], data[32:fixedHeader]) {
		return nil, errors.New("checksum mismatch in the header: the file is damaged")
	}
	want := le.Uint64(data[16:])
	switch {
	case uint64(len(data)) < want:
		return nil, fmt.Errorf("truncated: has %d of %d bytes", len(data), want)
	case uint64(len(data)) > want:
		return nil, fmt.Errorf("has %d bytes where its header says %d: something was appended", len(data), want)
	}

	// From here on only a faulty writer can be to blame.
	var sizes [numSections]uint64
	for i := range sizes {
		sizes[i] = le.Uint64(data[fixedHeader+i*entryBytes+16:])
		if sizes[i] > want || sizes[i]%uint64(recordBytes[i]) != 0 {
			return nil, fmt.Errorf("section %s has %d bytes, which is not a number of records of %d bytes within the file", sectionNames[i], sizes[i], recordBytes[i])
		}
	}
	offsets, total := layout(sizes)
	if total != want {
		return nil, fmt.Errorf("the sections need %d bytes where the header says %d", total, want)
	}
	if le.Uint32(data[12:]) != numSections || le.Uint64(data[24:]) != 0 {
		return nil, errors.New("malformed header")
	}
	img := &image{header: [headerBytes]byte(data)}
	end := uint64(headerBytes)
	for i := range sizes {
		e := data[fixedHeader+i*entryBytes:][:entryBytes]
		if le.Uint32(e) != uint32(i+1) || le.Uint32(e[4:]) != recordBytes[i] || le.Uint64(e[8:]) != offsets[i] || le.Uint64(e[24:]) != 0 {
			return nil, fmt.Errorf("malformed entry of section %s", sectionNames[i])
		}
		for at := end; at < offsets[i]; at++ {
			if data[at] != 0 {
				return nil, fmt.Errorf("byte %d before section %s is not zero: the file is damaged", at, sectionNames[i])
			}
		}
		end = offsets[i] + sizes[i]
		img.sections[i] = data[offsets[i]:end:end]
	}
	return img, nil
}

func (img *image) checkDigest(section int) error {
	sum := sha256.Sum256(img.sections[section])
	if !bytes.Equal(sum[:], img.header[fixedHeader+section*entryBytes+32:][:sha256.Size]) {
		return fmt.Errorf("checksum mismatch in section %s: the file is damaged", sectionNames[section])
	}
	return nil
}

// decode sets the fields of c from its sections and checks them.
func (c *Corpus) decode() error {
	s := &c.sealed.sections
	if err := json.Unmarshal(s[manifestSection], &c.Manifest); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	if n := len(s[rankSection]) / int(recordBytes[rankSection]); n > indexer.MaxRanks {
		return fmt.Errorf("%d ranks; at most %d are possible", n, indexer.MaxRanks)
	}
	var err error
	if c.Ranks, err = decodeRanks(s[rankSection]); err != nil {
		return err
	}
	c.Requests = valuesOf[Request](s[requestSection])
	c.Ops = valuesOf[Op](s[opSection])
	c.Hashes = valuesOf[uint64](s[hashSection])
	return c.Check()
}

// encodeManifest is deterministic: fields in the order of the types, no space.
func encodeManifest(m *Manifest) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// encodeRanks exists because indexer.Rank has padding, whose bytes are anything.
func encodeRanks(ranks []indexer.Rank) []byte {
	b := make([]byte, 0, 16*len(ranks))
	for _, r := range ranks {
		b = binary.LittleEndian.AppendUint64(b, r.Worker)
		b = binary.LittleEndian.AppendUint64(b, uint64(r.DP))
	}
	return b
}

func decodeRanks(b []byte) ([]indexer.Rank, error) {
	ranks := make([]indexer.Rank, len(b)/16)
	for i := range ranks {
		dp := binary.LittleEndian.Uint64(b[16*i+8:])
		if dp != uint64(uint32(dp)) {
			return nil, fmt.Errorf("rank %d: reserved bytes are not zero", i)
		}
		ranks[i] = indexer.Rank{Worker: binary.LittleEndian.Uint64(b[16*i:]), DP: uint32(dp)}
	}
	return ranks, nil
}

// checkByteOrder refuses machines on which records cannot be used in place.
func checkByteOrder() error {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return errors.New("corpora need a little-endian machine: their records are used in place")
	}
	return nil
}

// bytesOf returns the memory of records without padding.
func bytesOf[T Op | Request | uint64](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// valuesOf is the inverse of bytesOf. The memory must be aligned for T.
func valuesOf[T Op | Request | uint64](b []byte) []T {
	var zero T
	n := len(b) / int(unsafe.Sizeof(zero))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
