//go:build race

package rounds

// raceEnabled says that children are built with the race detector, too, and take
// seconds to start on a small machine.
const raceEnabled = true
