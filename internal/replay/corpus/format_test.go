package corpus

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/indexer"
)

// encode returns the file of a corpus, aligned as a mapping would be.
func encode(t testing.TB, c *Corpus) []byte {
	t.Helper()
	img, err := c.seal()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := img.writeTo(&b); err != nil {
		t.Fatal(err)
	}
	return aligned(b.Bytes())
}

func aligned(b []byte) []byte {
	return append(bytesOf(make([]uint64, len(b)/8+1))[:0], b...)
}

// The description of the format, followed to the letter by a reader that shares
// no code with the package.
func TestFormatByHand(t *testing.T) {
	c := random(3, 60)
	b := encode(t, c)
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32(b[at:])) }
	u64 := func(at int) int { return int(binary.LittleEndian.Uint64(b[at:])) }

	if want := []byte{0x89, 0x4B, 0x56, 0x42, 0x43, 0x0D, 0x0A, 0x1A}; !bytes.Equal(b[:8], want) {
		t.Fatalf("magic % x", b[:8])
	}
	if u32(8) != 2 || u32(12) != 5 || u64(16) != len(b) || u64(24) != 0 {
		t.Fatalf("header % x", b[:32])
	}
	id := sha256.Sum256(append(bytes.Clone(b[:32]), b[64:384]...))
	if !bytes.Equal(id[:], b[32:64]) {
		t.Fatal("identity is not as described")
	}
	if got := c.SHA256(); got != hex.EncodeToString(id[:]) {
		t.Fatalf("SHA256 %s, want %x", got, id)
	}
	end := 384
	var offset, size [6]int
	for n := 1; n <= 5; n++ {
		e := 64 + (n-1)*64
		record := []int{0, 1, 16, 32, 40, 8}[n]
		offset[n], size[n] = u64(e+8), u64(e+16)
		if u32(e) != n || u32(e+4) != record || offset[n] != (end+63)/64*64 || size[n]%record != 0 || u64(e+24) != 0 {
			t.Fatalf("entry %d: % x", n, b[e:e+64])
		}
		if sum := sha256.Sum256(b[offset[n]:][:size[n]]); !bytes.Equal(sum[:], b[e+32:e+64]) {
			t.Fatalf("digest of section %d", n)
		}
		for _, x := range b[end:offset[n]] {
			if x != 0 {
				t.Fatalf("padding before section %d", n)
			}
		}
		end = offset[n] + size[n]
	}
	if end != len(b) {
		t.Fatalf("sections end at %d of %d", end, len(b))
	}

	var m Manifest
	if err := json.Unmarshal(b[offset[1]:][:size[1]], &m); err != nil || m != c.Manifest {
		t.Fatalf("manifest %+v (%v)", m, err)
	}
	for i, r := range c.Ranks {
		at := offset[2] + 16*i
		if binary.LittleEndian.Uint64(b[at:]) != r.Worker || u32(at+8) != int(r.DP) || u32(at+12) != 0 {
			t.Fatalf("rank %d", i)
		}
	}
	for i, r := range c.Requests {
		at := offset[3] + 32*i
		if (Request{uint32(u32(at)), uint32(u32(at + 4)), uint32(u32(at + 8)), uint32(u32(at + 12)), int64(u64(at + 16)), int64(u64(at + 24))}) != r {
			t.Fatalf("request %d", i)
		}
	}
	for i, op := range c.Ops {
		at := offset[4] + 40*i
		got := Op{Deadline: int64(u64(at)), Hashes: uint64(u64(at + 8)), Parent: binary.LittleEndian.Uint64(b[at+16:]),
			Seq: uint32(u32(at + 24)), Len: uint32(u32(at + 28)), Slot: uint32(u32(at + 32)), Kind: Kind(b[at+36]), HasParent: b[at+37]}
		if got != op || b[at+38] != 0 || b[at+39] != 0 {
			t.Fatalf("op %d: %+v, want %+v", i, got, op)
		}
	}
	for i, h := range c.Hashes {
		if binary.LittleEndian.Uint64(b[offset[5]+8*i:]) != h {
			t.Fatalf("hash %d", i)
		}
	}
}

func TestParseGivesBackTheCorpus(t *testing.T) {
	for seed := range uint64(30) {
		c := random(seed, int(seed)*7)
		got, err := parse(encode(t, c))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		assertSame(t, c, got)
	}
}

func assertSame(t *testing.T, want, got *Corpus) {
	t.Helper()
	if got.Manifest != want.Manifest || !reflect.DeepEqual(got.Ranks, want.Ranks) || !reflect.DeepEqual(got.Requests, want.Requests) ||
		!reflect.DeepEqual(got.Ops, want.Ops) || !reflect.DeepEqual(got.Hashes, want.Hashes) {
		t.Fatalf("got %+v\nwant %+v", got, want)
	}
	if a, b := want.SHA256(), got.SHA256(); a != b {
		t.Fatalf("identity %s, want %s", b, a)
	}
}

func TestIdentityDependsOnEverything(t *testing.T) {
	c := random(4, 80)
	seen := map[string]string{}
	note := func(what string, c *Corpus) {
		t.Helper()
		id := c.SHA256()
		if other, dup := seen[id]; dup {
			t.Fatalf("%s and %s have one identity", what, other)
		}
		seen[id] = what
	}
	note("original", c)
	for what, change := range map[string]func(*Corpus){
		"seed":    func(c *Corpus) { c.Manifest.Seed++ },
		"rank":    func(c *Corpus) { c.Ranks[3].DP++ },
		"request": func(c *Corpus) { c.Requests[0].Row++ },
		"first":   func(c *Corpus) { c.Requests[0].FirstToken++ },
		"finish":  func(c *Corpus) { c.Requests[0].Finish++ },
		"op":      func(c *Corpus) { c.Ops[5].Deadline++ },
		"hash":    func(c *Corpus) { c.Hashes[9]++ },
	} {
		changed := clone(c)
		change(changed)
		note(what, changed)
	}
}

func TestManifestThatCannotBeEncoded(t *testing.T) {
	c := random(4, 80)
	c.Manifest.Options.SpeedUp = math.NaN()
	mustPanic(t, func() { c.SHA256() })
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("it does not panic")
		}
	}()
	f()
}

func TestEveryFlippedByteIsFound(t *testing.T) {
	b := encode(t, random(5, 25))
	for i := range b {
		for _, mask := range []byte{1, 0x80, 0xff} {
			b[i] ^= mask
			if _, err := parse(b); err == nil {
				t.Fatalf("byte %d flipped with %x was not found", i, mask)
			}
			b[i] ^= mask
		}
	}
	if _, err := parse(b); err != nil {
		t.Fatalf("the test spoiled the file: %v", err)
	}
}

func TestEveryTruncationIsFound(t *testing.T) {
	b := encode(t, random(5, 25))
	for n := range b {
		_, err := parse(b[:n:n])
		switch {
		case err == nil:
			t.Fatalf("%d of %d bytes were accepted", n, len(b))
		case n >= len(magic) && !strings.Contains(err.Error(), "truncated: has"):
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := parse(append(b, 0)); err == nil || !strings.Contains(err.Error(), "appended") {
		t.Fatalf("a byte too many: %v", err)
	}
}

// reseal makes the checksums of a spoiled file right again, as a faulty writer
// would, wherever its section table can be followed.
func reseal(b []byte) {
	if len(b) < headerBytes {
		return
	}
	for i := range int(numSections) {
		e := b[fixedHeader+i*entryBytes:][:entryBytes]
		at, n := binary.LittleEndian.Uint64(e[8:]), binary.LittleEndian.Uint64(e[16:])
		if at <= uint64(len(b)) && n <= uint64(len(b))-at {
			sum := sha256.Sum256(b[at : at+n])
			copy(e[32:], sum[:])
		}
	}
	id := identity(b)
	copy(b[32:], id[:])
}

func TestParseRefuses(t *testing.T) {
	c := random(6, 100)
	good := encode(t, c)
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	put64 := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
	}
	start := func(section int) int { return int(binary.LittleEndian.Uint64(good[64+64*section+8:])) }
	for _, tc := range []struct {
		name   string
		reseal bool
		spoil  func([]byte) []byte
		want   string
	}{
		{"empty", false, func(b []byte) []byte { return b[:0] }, "not a kvbench corpus: the file is empty"},
		{"json", false, func([]byte) []byte { return aligned([]byte(`{"timestamp": 0}`)) }, "not a kvbench corpus: it starts with 7b"},
		{"text mode", false, func(b []byte) []byte { return aligned(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))) }, "not a kvbench corpus"},
		{"version 3", true, put32(8, 3), "use a newer kvbench"},
		{"version 1", true, put32(8, 1), "write the corpus again from its trace with 'kvbench corpus write'"},
		{"version 0", true, put32(8, 0), "damaged"},
		{"sections", true, put32(12, 6), "malformed header"},
		{"header zero", true, put64(24, 1), "malformed header"},
		{"file size", true, put64(16, 1<<40), "truncated: has"},
		{"section number", true, put32(64+64*1, 3), "section ranks"},
		{"record size", true, put32(64+64*3+4, 48), "section ops"},
		{"offset", true, put64(64+64*2+8, 0), "section requests"},
		{"entry zero", true, put64(64+64*2+24, 1), "section requests"},
		{"size", true, put64(64+64*3+16, 40), "the sections need"},
		{"size not whole", true, put64(64+64*3+16, 41), "section ops has 41 bytes"},
		{"size huge", true, put64(64+64*4+16, 1<<63), "section hashes has"},
		{"digest manifest", false, put32(start(manifestSection), 0), "checksum mismatch in section manifest"},
		{"digest ranks", false, put32(start(rankSection), 7), "checksum mismatch in section ranks"},
		{"digest requests", false, put32(start(requestSection), 7), "checksum mismatch in section requests"},
		{"digest ops", false, put32(start(opSection)+36, 99), "checksum mismatch in section ops"},
		{"digest hashes", false, put32(start(hashSection), 7), "checksum mismatch in section hashes"},
		{"digest header", false, put32(70, 7), "checksum mismatch in the header"},
		{"not JSON", true, put32(start(manifestSection), 0), "checksums are right but the content is not: manifest"},
		{"rank reserved", true, put32(start(rankSection)+12, 1), "rank 0: reserved"},
		{"request", true, put64(start(requestSection)+16, 1<<63), "request 0: first token at -9223372036854775808"},
		{"op", true, put32(start(opSection)+40+32, 77), "op 1: slot 77 of 4 ranks"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := tc.spoil(aligned(good))
			if tc.reseal {
				reseal(b)
			}
			_, err := parse(b)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// A manifest with a field of a later writer is kept as it is, so the identity is.
func TestUnknownManifestFieldIsKept(t *testing.T) {
	c := random(7, 30)
	img, err := c.seal()
	if err != nil {
		t.Fatal(err)
	}
	sections := img.sections
	sections[manifestSection] = append([]byte(`{"later": 1, `), sections[manifestSection][1:]...)
	changed := newImage(sections)
	var b bytes.Buffer
	if err := changed.writeTo(&b); err != nil {
		t.Fatal(err)
	}
	got, err := parse(aligned(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got.Manifest != c.Manifest {
		t.Fatalf("manifest %+v", got.Manifest)
	}
	if again := encode(t, got); !bytes.Equal(again, b.Bytes()) {
		t.Fatal("writing it again changed it")
	}
}

func FuzzOpen(f *testing.F) {
	for seed := range uint64(3) {
		b := encode(f, random(seed, 20))
		f.Add(b, false)
		f.Add(b[:len(b)/2], false)
		f.Add(b, true)
		for _, at := range []int{8, 16, 70, 80, 200, len(b) - 1} {
			bad := bytes.Clone(b)
			bad[at]++
			f.Add(bad, true)
		}
	}
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		b = aligned(b)
		if fix {
			reseal(b)
		}
		c, err := parse(b)
		if err != nil {
			if c != nil {
				t.Fatal("a corpus beside an error")
			}
			return
		}
		// What was accepted must be usable and must be the one form of its content.
		var ev indexer.Event
		for i := range c.Ops {
			if c.Ops[i].Kind == Query {
				if r := c.Requests[c.Ops[i].Seq]; r.Ran() && (r.FirstToken < c.Ops[i].Deadline || r.Finish < r.FirstToken) {
					t.Fatalf("request %+v of %+v", r, c.Ops[i])
				}
				for range c.Locals(uint32(i)) {
				}
				continue
			}
			c.Event(uint32(i), &ev)
			_ = c.Ranks[ev.Slot]
		}
		c.Describe(3)
		c.Touch()
		fresh := clone(c)
		sections := c.sealed.sections
		sections[rankSection] = encodeRanks(fresh.Ranks)
		sections[requestSection] = bytesOf(fresh.Requests)
		sections[opSection] = bytesOf(fresh.Ops)
		sections[hashSection] = bytesOf(fresh.Hashes)
		img := newImage(sections)
		var again bytes.Buffer
		if err := img.writeTo(&again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), b) {
			t.Fatal("accepted a file that is not the one form of its content")
		}
	})
}
