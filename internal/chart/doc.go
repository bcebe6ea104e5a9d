// Package chart draws the pictures of reports: lines over time, distributions,
// forest plots, paired dots, stacked bars and heat maps.
//
// A chart is a plain value that holds data and words. [Draw] lays it out once, as
// shapes; [WriteFigure] writes them as an HTML figure with the data in a table
// beside it, [WriteSVG] as an SVG file, and package raster as a PNG. The package
// computes no statistics beyond counting samples into bins and thinning lines, and
// reads no records.
//
// # Why SVG drawn here and not a script or a plot library
//
// A report must open in ten years, without a network and from a mail attachment,
// print, follow a dark theme, be zoomed, and be read by a screen reader. SVG in the
// page does that without a line of script, so that a page can forbid scripts
// altogether, and a name from a record that looks like markup stays text. The plot
// libraries in JavaScript cost 50 kB to 4 MB a page and draw on a canvas that no
// screen reader sees. gonum/plot draws well and writes SVG, but colours and sizes
// are fixed inside it: no classes to style for light, dark and print, no titles, no
// roles. So the layout is here, and the canvas of gonum/plot (package raster)
// draws the same shapes where pixels are asked for.
//
// # Size
//
// A line keeps the first, lowest, highest and last value of every column that is
// one unit of the drawing wide, which draws the same picture (U. Jugel, Z. Jerzak,
// G. Hackenbroich and V. Markl, M4, PVLDB 7(10), 2014). [Thinner] does so while
// data streams by, in bounded memory. What was left out is said below the figure.
//
// # Colours
//
// Series differ by colour, dash and marker at once. The colours are those of Okabe
// and Ito, darkened on light ground and lightened on dark ground until each has a
// contrast of at least 3:1 against the ground, and text at least 4.5:1.
//
// Functions are safe for concurrent use as long as nobody changes the chart.
package chart
