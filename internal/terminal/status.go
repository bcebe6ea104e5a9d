package terminal

import (
	"fmt"
	"os"

	"golang.org/x/term"
)

// Status returns a function that writes a line of text to f if f is a terminal
// and quiet is false. Unlike a bar it draws nothing by itself between calls.
func Status(f *os.File, quiet bool) func(text string) {
	if quiet || !term.IsTerminal(int(f.Fd())) {
		return func(string) {}
	}
	return func(text string) { fmt.Fprintln(f, text) }
}
