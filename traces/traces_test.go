package traces

import (
	"bytes"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/kvbench/kvbench/trace"
)

var update = flag.Bool("update", false, "write the embedded traces again")

func params() map[string]trace.GenerateParams {
	return map[string]trace.GenerateParams{
		"agentic-small":      trace.AgenticParams(),
		"conversation-small": trace.ConversationParams(),
	}
}

func generate(t *testing.T, p trace.GenerateParams) []byte {
	t.Helper()
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := trace.NewWriter(&b)
	if err := w.SetGenerator(p.Record()); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteTrace(tr); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The parameters recorded in each embedded trace give it again, byte for byte.
func TestRegenerate(t *testing.T) {
	if *update {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range params() {
			if err := os.WriteFile(name+suffix, z.EncodeAll(generate(t, p), nil), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Skip("written; run the test again without -update")
	}
	for _, name := range Names() {
		f, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zstd.NewReader(bytes.NewReader(stored))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		plain, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		_, src, err := trace.LoadReader(t.Context(), bytes.NewReader(stored), name, trace.ReaderOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := trace.ParseGenerateParams(src.Generator)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p != params()[name] {
			t.Errorf("%s was generated with other parameters than the ones its name stands for; run go generate ./traces", name)
		}
		if !bytes.Equal(generate(t, p), plain) {
			t.Errorf("%s is not what its parameters give; if the generator is meant to have changed, raise its version and run go generate ./traces", name)
		}
	}
}

func TestEntries(t *testing.T) {
	if want := []string{"agentic-small", "conversation-small"}; !slices.Equal(Names(), want) {
		t.Fatalf("names %v, want %v", Names(), want)
	}
	for _, name := range Names() {
		e, ok := Lookup(name)
		if !ok || e.Name != name || e.Description == "" || e.Bytes < 1000 || e.Bytes > 300<<10 {
			t.Errorf("Lookup(%q) = %+v, %v", name, e, ok)
		}
		f, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		tr, src, err := trace.LoadReader(t.Context(), f, name, trace.ReaderOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if src.Name != name || src.Bytes != e.Bytes || len(src.Warnings) > 0 {
			t.Errorf("source %+v", src)
		}
		info := trace.Describe(tr)
		if info.Requests < 1000 || info.Requests > 2500 {
			t.Errorf("%s has %d requests", name, info.Requests)
		}
		if s := info.PrefixHitTokenShare; s < 0.4 || s > 0.7 {
			t.Errorf("%s: %.3f of the tokens are reused, want 0.4 to 0.7", name, s)
		}
		t.Logf("%s: %+v", name, info)
	}
	if _, ok := Lookup("nothing"); ok {
		t.Error("there is a trace called nothing")
	}
	if _, err := Open("nothing"); err == nil {
		t.Error("nothing can be opened")
	}
}

func TestOpenFile(t *testing.T) {
	t.Chdir(t.TempDir())
	read := func(source string) (string, error) {
		f, err := OpenFile(source)
		if err != nil {
			return "", err
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		return string(b), err
	}
	if b, err := read("agentic-small"); err != nil || len(b) < 1000 {
		t.Errorf("an embedded trace: %d bytes, %v", len(b), err)
	}
	// A file comes before an embedded trace of its name.
	if err := os.WriteFile("agentic-small", []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if b, err := read("agentic-small"); err != nil || b != "mine" {
		t.Errorf("a file: %q, %v", b, err)
	}
	for source, want := range map[string]string{
		".": "is a directory", "none": "no embedded trace of that name; there are agentic-small", "./conversation-small": "cannot read the trace",
		"mooncake-conversation": "kvbench trace fetch mooncake-conversation",
	} {
		if _, err := read(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}
