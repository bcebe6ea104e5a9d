// Package nearest finds the name that a mistyped one was probably meant to be.
package nearest

// Name returns the name with the smallest edit distance to given. It is false
// if none is close.
func Name(given string, names []string) (string, bool) {
	best, limit := "", max(2, len(given)/3)+1
	for _, name := range names {
		if d := distance(given, name); d < limit {
			best, limit = name, d
		}
	}
	return best, best != ""
}

// distance is the number of insertions, deletions and replacements of bytes
// that turn a into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
