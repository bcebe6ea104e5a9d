package nearest

import "testing"

func TestName(t *testing.T) {
	names := []string{"flat", "reference", "noop", "event-workers"}
	for given, want := range map[string]string{"falt": "flat", "refrence": "reference", "event-worker": "event-workers", "zzzzzz": "", "": ""} {
		got, ok := Name(given, names)
		if got != want || ok != (want != "") {
			t.Errorf("Name(%q) = %q, %v; want %q", given, got, ok, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flat", "flat", 0}, {"ab", "ba", 2}} {
		if got := distance(c.a, c.b); got != c.want || distance(c.b, c.a) != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
