package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// spooledRows is the text of n requests of 64 ids, in sessions of two.
func spooledRows(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"session_id":"s%d","timestamp":%d,"input_length":32768,"output_length":%d,"hash_ids":[1`, i/2, i, i%7+1)
		for k := 1; k < 64; k++ {
			fmt.Fprintf(&b, ",%d", i*64+k)
		}
		b.WriteString("]}\n")
	}
	return b.String()
}

func TestSpooledTraceIsTheSame(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	text := spooledRows(9000)
	plain, want, err := LoadReader(t.Context(), strings.NewReader(text), "t.jsonl", ReaderOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	spooled, src, err := LoadReader(t.Context(), strings.NewReader(text), "t.jsonl", ReaderOptions{Spool: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(src, want) {
		t.Errorf("source %+v, want %+v", src, want)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("the folder has %v, %v", left, err)
	}
	for _, speedUp := range []float64{1, 3} {
		a, err := plain.SpeedUp(speedUp)
		if err != nil {
			t.Fatal(err)
		}
		b, err := spooled.SpeedUp(speedUp)
		if err != nil {
			t.Fatal(err)
		}
		var one, other bytes.Buffer
		if err := errors.Join(writeRows(&one, a), writeRows(&other, b)); err != nil {
			t.Fatal(err)
		}
		b.Unload()
		var again bytes.Buffer
		if err := writeRows(&again, b); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one.Bytes(), other.Bytes()) || !bytes.Equal(one.Bytes(), again.Bytes()) {
			t.Errorf("at a speed-up of %g the traces differ", speedUp)
		}
		for s := range a.Sessions() {
			if !reflect.DeepEqual(a.Turns(s), b.Turns(s)) {
				t.Fatalf("session %d has turns %v, want %v", s, b.Turns(s), a.Turns(s))
			}
		}
	}
	if err := errors.Join(spooled.Close(), spooled.Close(), plain.Close()); err != nil {
		t.Error(err)
	}
}

// writeRows writes every field of every row.
func writeRows(w io.Writer, t *Trace) error {
	for i := range t.Len() {
		if _, err := fmt.Fprintf(w, "%+v %d\n", t.Request(i), t.SessionOf(i)); err != nil {
			return err
		}
	}
	return nil
}

// What stays in memory for a request is stated in ReaderOptions.Spool.
func TestSpooledTraceTakesLittleMemory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const n = 20000
	text := spooledRows(n)
	heap := func(opts ReaderOptions) int64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		tr, _, err := LoadReader(t.Context(), strings.NewReader(text), "t.jsonl", opts, nil)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		defer tr.Close()
		return (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(tr.Len())
	}
	if got := heap(ReaderOptions{}); got < 48+64*8 {
		t.Errorf("%d bytes a request in memory; the measurement is wrong", got)
	}
	// Half a session a request, with slices that grew to up to 5/4.
	if got := heap(ReaderOptions{Spool: true}); got > 4+(24*5/4+16)/2+8 {
		t.Errorf("%d bytes a request stay in memory", got)
	}
}

func TestSpoolNeedsRoom(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	_, _, err := LoadReader(t.Context(), strings.NewReader(spooledRows(1000)), "t.jsonl", ReaderOptions{Spool: true}, nil)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("error %v", err)
	}
}
