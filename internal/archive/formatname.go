package archive

import (
	"path/filepath"
	"strings"
)

// FormatOf returns the format that the name of a file says, false if it says none.
func FormatOf(path string) (Format, bool) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".parquet":
		return Parquet, true
	case ".csv":
		return CSV, true
	case ".json", ".jsonl", ".ndjson":
		return JSON, true
	}
	return "", false
}
