package chart

import (
	"fmt"
	"strings"
)

// Ink is what a shape is drawn with: a role, which a theme gives a colour.
type Ink string

// The inks that are no series and no level of a heat map.
const (
	Ground Ink = "bg"
	Letter Ink = "tx" // text
	Quiet  Ink = "mu" // text of less weight, axes
	Grid   Ink = "gr"
	Good   Ink = "ok"
	Bad    Ink = "no"
)

// Groups is the number of series that look different.
const Groups = 8

// levels is the number of steps of a heat map.
const levels = 9

// seriesInk is the ink of a series; from Groups on they repeat.
func seriesInk(n int) Ink { return Ink(fmt.Sprintf("s%d", n%Groups)) }

func heatInk(level int) Ink { return Ink(fmt.Sprintf("h%d", level)) }

// Theme gives every ink a colour, as "#rrggbb".
type Theme map[Ink]string

// Light returns the theme for light ground.
func Light() Theme {
	return theme("#ffffff", "#1b1f24", "#57606a", "#d8dee4", "#116329", "#b3261e",
		[]string{"#0072b2", "#c2500a", "#00805d", "#a8478a", "#8a6100", "#1f7fb0", "#5b5bd6", "#3b434b"},
		"#e9f2fb", "#5aa2d6", "#082f66")
}

// Dark returns the theme for dark ground.
func Dark() Theme {
	return theme("#14181d", "#e6edf3", "#9da7b1", "#323b45", "#56d364", "#ff8f85",
		[]string{"#58b4ee", "#f0884d", "#33c79b", "#e59ac9", "#e6a81e", "#9fd3f5", "#a5a5ff", "#c9d1d9"},
		"#17283a", "#3f8fc5", "#eaf4fd")
}

func theme(ground, letter, quiet, grid, good, bad string, series []string, low, middle, high string) Theme {
	t := Theme{Ground: ground, Letter: letter, Quiet: quiet, Grid: grid, Good: good, Bad: bad}
	for i, c := range series {
		t[seriesInk(i)] = c
	}
	for i := range levels {
		share := float64(i) / (levels - 1)
		if share < 0.5 {
			t[heatInk(i)] = mix(low, middle, 2*share)
		} else {
			t[heatInk(i)] = mix(middle, high, 2*share-1)
		}
	}
	return t
}

func mix(a, b string, share float64) string {
	x, y := RGB(a), RGB(b)
	var out [3]int
	for i := range out {
		out[i] = int(float64(x[i])*(1-share) + float64(y[i])*share + 0.5)
	}
	return fmt.Sprintf("#%02x%02x%02x", out[0], out[1], out[2])
}

// RGB returns the parts of a colour of a theme.
func RGB(colour string) [3]uint8 {
	var c [3]uint8
	// The colours are those of this file.
	_, _ = fmt.Sscanf(colour, "#%02x%02x%02x", &c[0], &c[1], &c[2])
	return c
}

// inks lists all inks in order.
func inks() []Ink {
	out := []Ink{Ground, Letter, Quiet, Grid, Good, Bad}
	for i := range Groups {
		out = append(out, seriesInk(i))
	}
	for i := range levels {
		out = append(out, heatInk(i))
	}
	return out
}

// Variables writes a theme as CSS declarations: "--bg:#ffffff;--tx:…".
func (t Theme) Variables() string {
	var b strings.Builder
	for _, k := range inks() {
		fmt.Fprintf(&b, "--%s:%s;", k, t[k])
	}
	return b.String()
}

// CSS returns the rules for the shapes of SVG figures. They need the variables of
// a theme.
func CSS() string {
	var b strings.Builder
	b.WriteString("svg.chart{display:block;width:100%;height:auto;font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Liberation Sans\",Arial,sans-serif}")
	b.WriteString("svg.chart path,svg.chart circle{fill:none}svg.chart text{stroke:none}")
	for _, k := range inks() {
		fmt.Fprintf(&b, "svg.chart .l-%s{stroke:var(--%s)}svg.chart .f-%s{fill:var(--%s)}", k, k, k, k)
	}
	return b.String()
}
