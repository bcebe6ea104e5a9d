// Package kvbench is the whole tool as one function, so that a main of your own
// can add an index or a policy and get every command with it:
//
//	package main
//
//	import (
//		"os"
//
//		"github.com/kvbench/kvbench"
//		"github.com/kvbench/kvbench/indexer"
//	)
//
//	func main() {
//		os.Exit(kvbench.Main(os.Args, kvbench.Extensions{
//			Indexes: []indexer.Factory{{Name: "mine", Summary: "my index", New: newMine}},
//		}))
//	}
package kvbench

import (
	"github.com/kvbench/kvbench/cmd/kvbench/command"
	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/policies/catalogue"
)

// Extensions are what a caller adds to kvbench.
type Extensions struct {
	// Indexes can be named by --index beside the built-in ones. A name that is
	// taken replaces the built-in index.
	Indexes []indexer.Factory
	// Policies can be named by --policy beside the built-in ones. One of the same
	// kind and name takes the place of the built-in one.
	Policies []catalogue.Definition
}

// Main runs kvbench with the arguments of a process, args[0] being the name of
// the program, and returns the exit code: 0 done, 2 error, 3 nothing valid was
// measured, 130 interrupted. It reads and writes the standard streams and
// handles SIGINT and SIGTERM.
func Main(args []string, ext Extensions) int {
	return command.Main(args, command.Extensions{Indexes: ext.Indexes, Policies: ext.Policies})
}
