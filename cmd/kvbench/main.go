// Command kvbench replays and benchmarks KV-cache-aware routing. Run it with
// --help for its commands.
package main

import (
	"os"

	"github.com/kvbench/kvbench"
)

func main() { os.Exit(kvbench.Main(os.Args, kvbench.Extensions{})) }
