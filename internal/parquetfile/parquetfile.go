// Package parquetfile opens Parquet files of which nothing is known: whole, cut,
// damaged or made to do harm. It checks what the library takes on trust, and turns
// what the library panics about into errors. It knows nothing of columns.
package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

const magic = "PAR1"

// ErrNotParquet says that a file does not begin and end as a Parquet file does.
var ErrNotParquet = errors.New("not a Parquet file, or a damaged one")

// Open reads the footer of a file of so many bytes.
func Open(in io.ReaderAt, size int64) (f *parquet.File, err error) {
	defer Recover(&err)
	if err := checkEnds(in, size); err != nil {
		return nil, err
	}
	if f, err = parquet.OpenFile(in, size); err != nil {
		return nil, fmt.Errorf("damaged Parquet file: %w", err)
	}
	if err := errors.Join(checkRows(f), checkCodecs(f)); err != nil {
		return nil, fmt.Errorf("damaged Parquet file: %w", err)
	}
	return f, nil
}

// Recover turns a panic of the library, which meets damage with some, into an
// error. It is to be deferred.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged Parquet file: %v", p)
	}
}

// checkEnds spares the library the memory that a wrong length of the footer asks
// for.
func checkEnds(in io.ReaderAt, size int64) error {
	const ends = 2*int64(len(magic)) + 4
	if size < ends {
		return ErrNotParquet
	}
	var head [4]byte
	var tail [8]byte
	if _, err := in.ReadAt(head[:], 0); err != nil {
		return err
	}
	if n, err := in.ReadAt(tail[:], size-int64(len(tail))); n < len(tail) {
		return err
	}
	if string(head[:]) != magic || string(tail[4:]) != magic {
		return ErrNotParquet
	}
	if n := int64(binary.LittleEndian.Uint32(tail[:4])); n > size-ends {
		return fmt.Errorf("damaged Parquet file: its footer has %d bytes as it says, and the file has %d", n, size)
	}
	return nil
}

// checkRows holds the numbers of rows of the footer to each other.
func checkRows(f *parquet.File) error {
	m := f.Metadata()
	var sum int64
	for i := range m.RowGroups {
		n := m.RowGroups[i].NumRows
		if n < 0 || sum+n < sum {
			return fmt.Errorf("row group %d has %d rows", i, n)
		}
		sum += n
	}
	if sum != m.NumRows {
		return fmt.Errorf("its row groups have %d rows, and it says that it has %d", sum, m.NumRows)
	}
	return nil
}

// checkCodecs refuses what kvbench does not write and the library decodes without a
// bound on memory: LZ4, for which it takes more and more as long as the data does
// not decode.
func checkCodecs(f *parquet.File) error {
	m := f.Metadata()
	for i := range m.RowGroups {
		for j := range m.RowGroups[i].Columns {
			switch codec := m.RowGroups[i].Columns[j].MetaData.Codec; codec {
			case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd:
			default:
				return fmt.Errorf("column %d of row group %d is compressed with %v; kvbench reads zstd, gzip, Snappy and what is not compressed", j, i, codec)
			}
		}
	}
	return nil
}
