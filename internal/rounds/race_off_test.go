//go:build !race

package rounds

const raceEnabled = false
