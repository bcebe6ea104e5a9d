package policies

import (
	"fmt"
	"strings"
)

// Inputs is a set of inputs.
type Inputs uint16

const (
	// Cache is how much of the prompt each rank holds.
	Cache Inputs = 1 << iota
	// Load is what each rank has to do.
	Load
	// Capacity is how many blocks each rank can hold.
	Capacity
	// Session is where the request's session was served before.
	Session
	// Tags are the labels of each rank.
	Tags

	// ExperimentalResidentBlocks is how many blocks each rank holds, used or
	// idle. Its accessor is in package experimental/residentblocks; it may change
	// or go in any release.
	ExperimentalResidentBlocks Inputs = 1 << 15
)

// inputNames are the names in the order of the bits.
var inputNames = [...]struct {
	input Inputs
	name  string
}{
	{Cache, "CACHE"},
	{Load, "LOAD"},
	{Capacity, "CAPACITY"},
	{Session, "SESSION"},
	{Tags, "TAGS"},
	{ExperimentalResidentBlocks, "RESIDENT_BLOCKS"},
}

const allInputs = Cache | Load | Capacity | Session | Tags | ExperimentalResidentBlocks

// Has says whether all of other are in the set.
func (in Inputs) Has(other Inputs) bool { return in&other == other }

// Names returns the names of the inputs that exist, such as CACHE.
func (in Inputs) Names() []string {
	names := []string{}
	for _, n := range inputNames {
		if in.Has(n.input) {
			names = append(names, n.name)
		}
	}
	return names
}

// String lists the inputs as "CACHE|LOAD", "none" for the empty set.
func (in Inputs) String() string {
	if in == 0 {
		return "none"
	}
	names := in.Names()
	if rest := in &^ allInputs; rest != 0 {
		names = append(names, fmt.Sprintf("unknown(%#x)", uint16(rest)))
	}
	return strings.Join(names, "|")
}

// check returns an error if the set is not one that a pipeline may declare.
func (in Inputs) check() error {
	if rest := in &^ allInputs; rest != 0 {
		return fmt.Errorf("unknown inputs %v", rest)
	}
	return nil
}
