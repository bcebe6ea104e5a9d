package steptime

import (
	"fmt"
	"os"
	"strings"
)

// Preset is a ready model of time.
type Preset struct {
	Name   string
	Model  string // what is served, and on what
	GPU    string
	Source string // where the coefficients come from
	Limits string // what it does not say
	Time   Model
}

// hardware is what a forward pass is computed with, by its maker's figures.
type hardware struct {
	flops     float64 // dense bf16, per second
	bandwidth float64 // bytes per second
}

// dimensions are those of a dense transformer with grouped attention, bf16.
type dimensions struct {
	parameters float64
	layers     float64
	hidden     float64
	kvHeads    float64
	headSize   float64
}

// Assumed shares of the makers' peak figures: matrices of a prefill, attention,
// and reads of memory.
const (
	matrixShare    = 0.55
	attentionShare = 0.40
	bandwidthShare = 0.80
	launch         = 1e6 // ns of a pass that are spent outside the GPU
)

// roofline derives coefficients from the dimensions of a model and the peak
// figures of n GPUs among which it is split evenly.
//
// A pass reads all weights once; a token takes two operations for each parameter;
// a pair of tokens takes four for each layer and hidden unit; a decode reads keys
// and values of its context.
func roofline(d dimensions, h hardware, n float64) Linear {
	const bytes = 2 // bf16
	return Linear{
		Base:       launch + 1e9*d.parameters*bytes/(n*h.bandwidth*bandwidthShare),
		PerToken:   1e9 * 2 * d.parameters / (n * h.flops * matrixShare),
		PerPair:    1e9 * 4 * d.layers * d.hidden / (n * h.flops * attentionShare),
		PerContext: 1e9 * 2 * d.layers * d.kvHeads * d.headSize * bytes / (n * h.bandwidth * bandwidthShare),
	}
}

var (
	llama8B  = dimensions{parameters: 8.03e9, layers: 32, hidden: 4096, kvHeads: 8, headSize: 128}
	llama70B = dimensions{parameters: 70.6e9, layers: 80, hidden: 8192, kvHeads: 8, headSize: 128}

	h100 = hardware{flops: 989e12, bandwidth: 3.35e12}
	a100 = hardware{flops: 312e12, bandwidth: 2.04e12}
)

const (
	rooflineSource = "computed from the model's published dimensions and the GPU's data sheet (dense bf16), at 55% of its peak for matrices, 40% for attention, 80% of its bandwidth, and 1 ms a pass for everything else; the shares are assumed"
	rooflineLimits = "measured on nothing. Reading weights and computing are added up, not overlapped, and communication between GPUs costs nothing. Expect tens of per cent of error in absolute times; the shape (a constant, linear in tokens, growing with context) is what it is for"
)

// Presets returns the ready models, the default first.
func Presets() []Preset {
	return []Preset{
		{
			Name: "llama-3.1-8b/h100", Model: "Llama 3.1 8B, bf16", GPU: "one H100 SXM 80 GB",
			Source: rooflineSource, Limits: rooflineLimits, Time: roofline(llama8B, h100, 1),
		},
		{
			Name: "llama-3.1-8b/a100", Model: "Llama 3.1 8B, bf16", GPU: "one A100 SXM 80 GB",
			Source: rooflineSource, Limits: rooflineLimits, Time: roofline(llama8B, a100, 1),
		},
		{
			Name: "llama-3.1-70b/4xh100", Model: "Llama 3.1 70B, bf16, split over 4 GPUs", GPU: "four H100 SXM 80 GB",
			Source: rooflineSource, Limits: rooflineLimits, Time: roofline(llama70B, h100, 4),
		},
		{
			Name: "polynomial", Model: "none named", GPU: "none named",
			Source: "the polynomials in use by public mock engines, whose origin is not documented",
			Limits: "no term for context: attention of a late chunk over a long prefix is free, and cutting a prompt of 126,195 tokens into chunks of 8,192 makes it 3.3 times as fast, which no engine does. Use it to compare with figures of tools that have it",
			Time:   Polynomial{},
		},
	}
}

// Find returns the preset of that name. The error lists those that there are.
func Find(name string) (Preset, error) {
	var names []string
	for _, p := range Presets() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, fmt.Errorf("no time model %q; there are %s, or a profile as profile:FILE.csv", name, strings.Join(names, ", "))
}

// Load returns the preset of that name, or what profile:FILE.csv names.
func Load(text string) (Preset, error) {
	path, ok := strings.CutPrefix(text, "profile:")
	if !ok {
		return Find(text)
	}
	f, err := os.Open(path)
	if err != nil {
		return Preset{}, fmt.Errorf("time profile: %w", err)
	}
	defer f.Close()
	m, err := ReadProfile(f, path)
	if err != nil {
		return Preset{}, fmt.Errorf("time profile %w", err)
	}
	return Preset{
		Name: text, Model: "that of the profile", GPU: "that of the profile", Source: path,
		Limits: "bilinear between the points of the profile, constant below them, linear beyond; chunks and decodes of one pass are added up",
		Time:   m,
	}, nil
}
