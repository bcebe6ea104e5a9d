package report

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/chart"
	"github.com/kvbench/kvbench/internal/chart/raster"
	"github.com/kvbench/kvbench/internal/report/page"
)

// WriteFigures writes every chart of a page into a folder, which is made if it is
// missing: as SVG, as PNG, and its data with every digit as CSV. The names are the
// ids of the charts in the page. Existing files are replaced only with overwrite;
// without it, nothing is written if one exists.
func WriteFigures(dir string, p *page.Page, overwrite bool) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	type file struct {
		path  string
		write func(io.Writer) error
	}
	var files []file
	for _, f := range p.Figures() {
		base := filepath.Join(dir, f.ID)
		files = append(files,
			file{base + ".svg", func(w io.Writer) error { return chart.WriteSVG(w, f.Chart) }},
			file{base + ".png", func(w io.Writer) error { return raster.WritePNG(w, f.Chart) }},
			file{base + ".csv", chart.Full(f.Chart).WriteCSV})
	}
	for _, f := range files {
		if err := atomicfile.CheckWritable(f.path, overwrite); err != nil {
			return fmt.Errorf("figures: %w", err)
		}
	}
	for _, f := range files {
		if err := atomicfile.Write(f.path, overwrite, f.write); err != nil {
			return fmt.Errorf("figures: %w", err)
		}
	}
	return nil
}
