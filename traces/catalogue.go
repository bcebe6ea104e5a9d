package traces

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/nearest"
)

// Public describes a public trace that can be fetched and verified.
type Public struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	File        string `json:"file"` // its name, in a folder and at its address
	URL         string `json:"url"`
	Bytes       int64  `json:"bytes"`
	SHA256      string `json:"sha256"` // of these bytes, in hex
	Licence     string `json:"licence"`
	Origin      string `json:"origin"` // who published it
}

const (
	mooncake = "https://raw.githubusercontent.com/kvcache-ai/Mooncake/"
	fast25   = "kvcache-ai/Mooncake, FAST25-release: \"Mooncake: Trading More Storage for Less Computation\", FAST'25"
)

// Addresses name a commit, so that what stands there stays.
var public = []Public{
	{
		Name:        "mooncake-conversation",
		Description: "12,031 requests of an hour of chat: lengths, arrivals, 512-token blocks",
		File:        "conversation_trace.jsonl",
		URL:         mooncake + "a2a4b18ac537fd798d50e6e9f57031ce86419a37/FAST25-release/traces/conversation_trace.jsonl",
		Bytes:       3029533,
		SHA256:      "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
		Licence:     "Apache-2.0",
		Origin:      fast25,
	},
	{
		Name:        "mooncake-synthetic",
		Description: "3,993 requests made from public long-context data sets: 512-token blocks",
		File:        "synthetic_trace.jsonl",
		URL:         mooncake + "3cca71daccf2a7afb8fe3f0295358f70e3a69fdb/FAST25-release/traces/synthetic_trace.jsonl",
		Bytes:       1136313,
		SHA256:      "bd070915a98fc0ed264d7cfef2ce746002eb3076a695ec31ba2674c0111ec131",
		Licence:     "Apache-2.0",
		Origin:      fast25,
	},
}

// Omitted is a public trace that kvbench reads but does not fetch, and why.
type Omitted struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
	Why    string `json:"why"`
}

var omitted = []Omitted{
	{"mooncake-toolagent", "kvcache-ai/Mooncake, FAST25-release/traces/toolagent_trace.jsonl", "its sha256 and size have not been established"},
	{"mooncake-arxiv", "kvcache-ai/Mooncake, FAST25-release/arxiv-trace/mooncake_trace.jsonl", "its size has not been established"},
	{"qwen-bailian", "alibaba-edu/qwen-bailian-usagetraces-anon", "its sha256, size and licence have not been established"},
	{"azure-llm-inference", "Azure/AzurePublicDataset", "its sha256 and size have not been established"},
	{"burstgpt", "HPMLL/BurstGPT", "its sha256 and size have not been established"},
}

// Catalogue returns the public traces that can be fetched, sorted by name.
func Catalogue() []Public { return slices.Clone(public) }

// OmittedTraces returns the public traces that cannot be fetched.
func OmittedTraces() []Omitted { return slices.Clone(omitted) }

// Find returns the public trace of that name. The error says what there is.
func Find(name string) (Public, error) {
	for _, p := range public {
		if p.Name == name {
			return p, nil
		}
	}
	for _, o := range omitted {
		if o.Name == name {
			return Public{}, fmt.Errorf("%s is not fetched, as %s; download it from %s and give its file", name, o.Why, o.Origin)
		}
	}
	if _, ok := Lookup(name); ok {
		return Public{}, fmt.Errorf("%s ships with kvbench; give its name in the place of a file", name)
	}
	names := make([]string, len(public))
	for i, p := range public {
		names[i] = p.Name
	}
	text := fmt.Sprintf("there is no trace called %q to fetch; there are %s", name, strings.Join(names, ", "))
	if near, ok := nearest.Name(name, names); ok {
		text += fmt.Sprintf("; did you mean %s?", near)
	}
	return Public{}, errors.New(text)
}
