package host

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string][]int{
		"0":          {0},
		"0-3,8":      {0, 1, 2, 3, 8},
		"8,0-3":      {0, 1, 2, 3, 8},
		"5-5":        {5},
		"8191":       {8191},
		"00,01":      {0, 1},
		"2,1,0,7-10": {0, 1, 2, 7, 8, 9, 10},
	} {
		got, err := ParseCPUs(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseCPUsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "position 1: a CPU number is missing",
		",1":                   "position 1: a CPU number is missing",
		"0,,1":                 "position 3: a CPU number is missing",
		"0,1,":                 "position 5: a CPU number is missing",
		"-1":                   "position 1: a CPU number is missing",
		"1-":                   "position 1: a CPU number is missing",
		"0,x":                  `position 3: "x" is not a CPU number`,
		"0, 1":                 `position 3: " 1" is not a CPU number`,
		"+1":                   `position 1: "+1" is not a CPU number`,
		"1.5":                  `position 1: "1.5" is not a CPU number`,
		"1-2-3":                `position 1: "2-3" is not a CPU number`,
		"0,9-3":                `position 3: the range "9-3" runs backwards`,
		"1,2,1":                "position 5: CPU 1 is named twice",
		"0-3,2-5":              "position 5: CPU 2 is named twice",
		"8192":                 "position 1: CPU 8192 is out of range; the highest is 8191",
		"0-99999999":           "position 1: CPU 99999999 is out of range",
		"99999999999999999999": "position 1: CPU 99999999999999999999 is out of range",
	} {
		got, err := ParseCPUs(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "write it like 0-3,8") && !strings.Contains(want, "twice") {
			t.Errorf("%q: %v, %v; want an error with %q", text, got, err, want)
		}
	}
}

func TestFormatCPUs(t *testing.T) {
	for want, cpus := range map[string][]int{
		"": nil, "7": {7}, "0-1": {0, 1}, "0-3,8": {0, 1, 2, 3, 8}, "0,2,4-5": {0, 2, 4, 5},
	} {
		if got := FormatCPUs(cpus); got != want {
			t.Errorf("%v: %q, want %q", cpus, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.SliceOfNDistinct(rapid.IntRange(0, 64), 1, 40, rapid.ID[int]).Draw(t, "cpus")
		// Written one by one in any order, it is the same set.
		words := make([]string, len(cpus))
		for i, c := range cpus {
			words[i] = strconv.Itoa(c)
		}
		slices.Sort(cpus)
		for _, text := range []string{FormatCPUs(cpus), strings.Join(words, ",")} {
			got, err := ParseCPUs(text)
			if err != nil || !slices.Equal(got, cpus) {
				t.Fatalf("%q: %v, %v; want %v", text, got, err, cpus)
			}
		}
	})
}

func FuzzParseCPUs(f *testing.F) {
	for _, s := range []string{"0-3,8", "0", "3-1", "1,1", "-1", "0-8191", "8192", ",", "1-2-3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := ParseCPUs(text)
		if err != nil {
			if cpus != nil {
				t.Fatalf("%v beside the error %v", cpus, err)
			}
			return
		}
		if len(cpus) == 0 || cpus[0] < 0 || cpus[len(cpus)-1] > maxCPU {
			t.Fatalf("%q: %v", text, cpus)
		}
		for i := 1; i < len(cpus); i++ {
			if cpus[i] <= cpus[i-1] {
				t.Fatalf("%q: not ascending: %v", text, cpus)
			}
		}
		again, err := ParseCPUs(FormatCPUs(cpus))
		if err != nil || !slices.Equal(again, cpus) {
			t.Fatalf("%q: written %q, read %v, %v", text, FormatCPUs(cpus), again, err)
		}
	})
}
