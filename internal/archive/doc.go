// Package archive works on results that were kept: it finds them in folders, says
// what they are, compares, exports and merges them. It measures nothing and changes
// nothing that is there.
//
//	found := archive.Find([]string{"runs/"})          // whatever is a result, and why the rest is none
//	s, err := archive.Open("runs/exp")                // an experiment, sweep, record, list of records or table
//	d, err := archive.Compare(a, b, archive.Selection{})
//	err = archive.ExportCSV(w, rows)
package archive
