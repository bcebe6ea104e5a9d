package text

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for name, tc := range map[string]struct{ first, text, want string }{
		"one line":      {"note: ", "a  b\tc", "note: a b c\n"},
		"nothing":       {"note: ", "", "note:\n"},
		"second line":   {"note: ", long, "note: " + strings.TrimSpace(strings.Repeat("word ", 14)) + " word\n      " + strings.TrimSpace(strings.Repeat("word ", 15)) + "\n"},
		"wide indent":   {strings.Repeat("x", 50), strings.Repeat("y", 40), strings.Repeat("x", 50) + strings.Repeat("y", 30) + "\n  " + strings.Repeat("y", 10) + "\n"},
		"cut":           {"", strings.Repeat("y", 170), strings.Repeat("y", 80) + "\n" + strings.Repeat("y", 80) + "\n" + strings.Repeat("y", 10) + "\n"},
		"not printable": {"", "a\x1b[2Jb\u202ec", "a?[2Jb?c\n"},
	} {
		var b Builder
		b.Wrap(tc.first, tc.text)
		if got := b.String(); got != tc.want {
			t.Errorf("%s:\n%q, want\n%q", name, got, tc.want)
		}
	}
}

// TestWrapKeepsTheText wraps anything: no line is too wide, all is printable, and
// no word is lost.
func TestWrapKeepsTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.StringN(0, 30, -1).Draw(t, "first")
		text := rapid.String().Draw(t, "text")
		var b Builder
		b.Wrap(first, text)
		for l := range strings.Lines(b.String()) {
			l = strings.TrimSuffix(l, "\n")
			if utf8.RuneCountInString(l) > Width {
				t.Fatalf("%d columns: %q", utf8.RuneCountInString(l), l)
			}
			for _, r := range l {
				if !unicode.IsPrint(r) {
					t.Fatalf("%q holds %q", l, r)
				}
			}
		}
		count := func(s string) (n int) {
			for _, r := range s {
				if !unicode.IsSpace(r) {
					n++
				}
			}
			return n
		}
		// Spaces of first other than ' ' become question marks.
		first = strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) && r != ' ' {
				return '?'
			}
			return r
		}, first)
		if got, want := count(b.String()), count(first+" "+text); got != want {
			t.Fatalf("%d characters, want %d: %q", got, want, b.String())
		}
	})
}

func TestCount(t *testing.T) {
	for n, want := range []string{"0 routers", "1 router", "2 routers"} {
		if got := Count(n, "router"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
