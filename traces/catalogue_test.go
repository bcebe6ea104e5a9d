package traces

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestCatalogue(t *testing.T) {
	hex64 := regexp.MustCompile(`^[0-9a-f]{64}$`)
	var names []string
	for _, p := range Catalogue() {
		names = append(names, p.Name)
		u, err := url.Parse(p.URL)
		if err != nil || u.Scheme != "https" || path.Base(u.Path) != p.File {
			t.Errorf("%s: address %q of %s (%v)", p.Name, p.URL, p.File, err)
		}
		if p.Bytes <= 0 || !hex64.MatchString(p.SHA256) || p.Licence == "" || p.Origin == "" || p.Description == "" {
			t.Errorf("%s is not described in full: %+v", p.Name, p)
		}
		if got, err := Find(p.Name); err != nil || got != p {
			t.Errorf("Find(%q) = %+v, %v", p.Name, got, err)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Concat(names, Names()))) != len(names)+len(Names()) {
		t.Errorf("names %q beside %q", names, Names())
	}
	for name, want := range map[string]string{
		"mooncake-toolagent":   "its sha256",
		"conversation-small":   "ships with kvbench",
		"mooncake-conversaton": "did you mean mooncake-conversation?",
		"nothing-like-that-at": "there are mooncake-conversation, mooncake-synthetic",
	} {
		if _, err := Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%q): %v, want %q", name, err, want)
		}
	}
}

// The trace that lies beside the repository is what the catalogue says.
func TestCatalogueIsTrue(t *testing.T) {
	b, err := os.ReadFile(filepath.FromSlash("../../shared/traces/mooncake/conversation_trace.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the public trace is not beside the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := Find("mooncake-conversation")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if int64(len(b)) != p.Bytes || hex.EncodeToString(sum[:]) != p.SHA256 {
		t.Errorf("%d bytes with sha256 %x, want %d with %s", len(b), sum, p.Bytes, p.SHA256)
	}
}

// The README says what the catalogue says.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, e := range Embedded() {
		rows = append(rows, "| "+e.Name+" | "+strings.TrimSuffix(e.Description, " (generated)")+" |")
	}
	for _, p := range Catalogue() {
		rows = append(rows, fmt.Sprintf("| %s | %s | %d | %s | %s |", p.Name, p.File, p.Bytes, p.SHA256, p.Licence))
	}
	for _, o := range OmittedTraces() {
		missing := strings.TrimSuffix(strings.TrimSuffix(o.Why, " have not been established"), " has not been established")
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", o.Name, o.Origin, missing))
	}
	for _, row := range rows {
		if !strings.Contains(string(b), row+"\n") {
			t.Errorf("no row %s", row)
		}
	}
	if n := strings.Count(string(b), "\n| ") - 3; n != len(rows) {
		t.Errorf("%d rows, want %d", n, len(rows))
	}
}
