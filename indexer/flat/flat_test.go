package flat

import (
	"testing"

	"github.com/kvbench/kvbench/indexer/indextest"
	"github.com/kvbench/kvbench/indexer/reference"
)

func TestConformance(t *testing.T) { indextest.Run(t, reference.Factory(), Factory()) }
