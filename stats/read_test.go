package stats

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadNumbers(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []float64
	}{
		{"", nil},
		{"\n \n", nil},
		{"1", []float64{1}},
		{"1 2\t3\r\n-4e-3\n\n+5", []float64{1, 2, 3, -0.004, 5}},
		{"# all of it\n1 # one\n#2\n3#three", []float64{1, 3}},
		{"\ufeff1\n2", []float64{1, 2}},
		{".5 5. 0x1p-2", []float64{0.5, 5, 0.25}},
	} {
		got, err := ReadNumbers(strings.NewReader(c.in))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v", c.in, got, err)
		}
	}
	for _, c := range []struct {
		in         string
		line       int
		text, want string
	}{
		{"1\n2 three", 2, "three", "not a number"},
		{"1,5", 1, "1,5", "decimal point"},
		{"\n\ninf", 3, "inf", "not a finite number"},
		{"-Infinity", 1, "-Infinity", "not a finite number"},
		{"NaN", 1, "NaN", "not a finite number"},
		{"1e999", 1, "1e999", "too large"},
		{"1%", 1, "1%", "not a number"},
		{"1\x00", 1, "1\x00", "not a number"},
		{strings.Repeat("x", 100), 1, strings.Repeat("x", 40) + "…", "not a number"},
	} {
		got, err := ReadNumbers(strings.NewReader(c.in))
		var line *LineError
		if got != nil || !errors.As(err, &line) || line.Line != c.line || line.Text != c.text || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, %v", c.in, got, err)
		}
	}
	_, err := ReadNumbers(io.MultiReader(strings.NewReader("1\n2"), iotest.ErrReader(errors.New("broken pipe"))))
	if err == nil || err.Error() != "line 2: broken pipe" {
		t.Errorf("error %v", err)
	}
	// A line of any length.
	got, err := ReadNumbers(strings.NewReader(strings.Repeat("1 ", 200_000)))
	if err != nil || len(got) != 200_000 {
		t.Errorf("%d numbers, %v", len(got), err)
	}
}

// FuzzReadNumbers: what is read is finite and reads the same when written again;
// what is not read names a line that exists.
func FuzzReadNumbers(f *testing.F) {
	for _, s := range []string{"1 2\n3", "# x\n.5", "\ufeff1", "1,5", "nan", "1e999", "0x1p-2", "\r\n-0", "1_000"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := ReadNumbers(bytes.NewReader(in))
		if err != nil {
			var line *LineError
			if !errors.As(err, &line) || line.Line < 1 || line.Line > 1+bytes.Count(in, []byte("\n")) || line.Text == "" || got != nil {
				t.Fatalf("%v, %v", got, err)
			}
			return
		}
		var again bytes.Buffer
		for _, v := range got {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("read %g", v)
			}
			again.WriteString(strconv.FormatFloat(v, 'g', -1, 64) + "\n")
		}
		back, err := ReadNumbers(&again)
		if err != nil || !slices.Equal(back, got) {
			t.Fatalf("%v came back as %v, %v", got, back, err)
		}
	})
}

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		values []float64
		level  float64
		want   string
	}{
		{nil, 0.95, "there are no numbers"},
		{[]float64{1}, 95, "confidence 95"},
		{[]float64{1}, math.NaN(), "confidence NaN"},
		{[]float64{1, math.Inf(1)}, 0.95, "number 2 is +Inf"},
	} {
		if _, err := Summarize(c.values, c.level); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.values, err)
		}
	}
	s, err := Summarize([]float64{5}, 0.95)
	if err != nil || s.N != 1 || s.Median != 5 || s.Min != 5 || s.Max != 5 || s.BootstrapSE != nil || s.Sigma != nil || len(s.Intervals) != len(methods()) {
		t.Errorf("%+v, %v", s, err)
	}
	if err := s.WriteText(failing{}); err == nil {
		t.Error("a writer that fails is no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }
