package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// encoded returns a table as bytes.
func encoded[T Row](t testing.TB, rows []T) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := newWriter[T](&b, testMeta)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(rows), w.flush(), w.out.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// decoded reads a table from bytes.
func decoded[T Row](b []byte) (rows []T, err error) {
	r, err := open[T](bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	piece := make([]T, 64)
	for {
		n, err := r.Read(piece)
		rows = append(rows, piece[:n]...)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// FuzzRead reads whatever bytes as tables of all kinds: what opens has as many rows
// as it says, or is an error, and nothing else happens. The corpus has files with a
// byte flipped in the length of the footer, a codec, a name and a header of a page.
func FuzzRead(f *testing.F) {
	for seed := range uint64(2) {
		f.Add(encoded(f, randomRows[Operation](seed, 3)))
		f.Add(encoded(f, randomRows[Decision](seed, 3)))
		f.Add(encoded(f, randomRows[Request](seed, 2)))
	}
	f.Add(encoded[Operation](f, nil))
	f.Add([]byte("PAR1\x00\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, _, err := head(bytes.NewReader(b), int64(len(b))); err != nil {
			return // for every kind of rows
		}
		fuzzRead[Operation](t, b)
		fuzzRead[Decision](t, b)
		fuzzRead[Request](t, b)
		fuzzRead[Trial](t, b)
	})
}

func fuzzRead[T Row](t *testing.T, b []byte) {
	rows, err := decoded[T](b)
	if err != nil {
		return
	}
	table, _, _, err := head(bytes.NewReader(b), int64(len(b)))
	if err != nil || table.NumRows() != int64(len(rows)) {
		t.Errorf("%d rows were read of a table that says %d (%v)", len(rows), table.NumRows(), err)
	}
}

// TestFooterOfAnotherLength would take gigabytes if the length was believed.
func TestFooterOfAnotherLength(t *testing.T) {
	b := encoded(t, randomRows[Decision](1, 10))
	for _, top := range []byte{0x01, 0x7f, 0xff} {
		b[len(b)-5] = top
		if _, err := decoded[Decision](b); err == nil || !strings.Contains(err.Error(), "its footer has") {
			t.Errorf("%#x: error %v", top, err)
		}
	}
}

// TestDamagedNames flips a bit in the name of each column, which made it another
// column, and the known one null in every row.
func TestDamagedNames(t *testing.T) {
	whole := encoded(t, randomRows[Decision](1, 10))
	for _, c := range Columns[Decision]() {
		found := allIndexes(whole, c.Name)
		if len(found) == 0 {
			t.Fatalf("no column %s", c.Name)
		}
		for _, at := range found {
			b := bytes.Clone(whole)
			b[at] ^= 0x40
			rows, err := decoded[Decision](b)
			if err == nil && !sameRows(t, whole, rows) {
				t.Errorf("%s at %d: other rows, and no error", c.Name, at)
			}
		}
	}
}

func allIndexes(b []byte, s string) (all []int) {
	for at := 0; ; at++ {
		i := bytes.Index(b[at:], []byte(s))
		if i < 0 {
			return all
		}
		at += i
		all = append(all, at)
	}
}

func sameRows[T Row](t *testing.T, whole []byte, rows []T) bool {
	t.Helper()
	want, err := decoded[T](whole)
	if err != nil {
		t.Fatal(err)
	}
	texts := func(rows []T) (out []string) {
		for i := range rows {
			for _, c := range Columns[T]() {
				out = append(out, fmt.Sprint(Value(&rows[i], c)))
			}
		}
		return out
	}
	return slices.Equal(texts(want), texts(rows))
}
