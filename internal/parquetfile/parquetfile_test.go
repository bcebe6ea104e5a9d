package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

type row struct {
	A int64  `parquet:"a"`
	B string `parquet:"b"`
}

func file(t *testing.T, codec compress.Codec) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.Compression(codec))
	_, err := w.Write([]row{{1, "x"}, {2, "y"}})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOpen(t *testing.T) {
	whole := file(t, &parquet.Zstd)
	long := bytes.Clone(whole)
	binary.LittleEndian.PutUint32(long[len(long)-8:], 1<<31)
	encrypted := bytes.Clone(whole)
	copy(encrypted[len(encrypted)-4:], "PARE")
	for name, c := range map[string]struct {
		content []byte
		says    string // "": it opens
	}{
		"whole":            {whole, ""},
		"gzip":             {file(t, &parquet.Gzip), ""},
		"Snappy":           {file(t, &parquet.Snappy), ""},
		"not compressed":   {file(t, &parquet.Uncompressed), ""},
		"LZ4":              {file(t, &parquet.Lz4Raw), "is compressed with"},
		"nothing":          {nil, "not a Parquet file"},
		"magic alone":      {[]byte("PAR1PAR1"), "not a Parquet file"},
		"no footer":        {[]byte("PAR1\x00\x00\x00\x00PAR1"), "damaged"},
		"cut":              {whole[:len(whole)-20], "not a Parquet file"},
		"cut at the start": {whole[20:], "not a Parquet file"},
		"length too large": {long, "its footer has 2147483648 bytes"},
		"encrypted":        {encrypted, "not a Parquet file"},
	} {
		f, err := Open(bytes.NewReader(c.content), int64(len(c.content)))
		switch {
		case c.says == "" && (err != nil || f.NumRows() != 2):
			t.Errorf("%s: error %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
}

// Every file that is cut is told so, and none makes the library panic.
func TestCut(t *testing.T) {
	whole := file(t, &parquet.Zstd)
	for n := range whole {
		if _, err := Open(bytes.NewReader(whole[:n]), int64(n)); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a file", n, len(whole))
		}
	}
}
