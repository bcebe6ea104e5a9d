package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tree is a command line with two levels and flags of several kinds.
func tree() *cobra.Command {
	root := &cobra.Command{Use: "tool"}
	root.PersistentFlags().Bool("quiet", false, "")
	root.PersistentFlags().String(FileFlag, "", "")
	replay := &cobra.Command{Use: "replay", Run: func(*cobra.Command, []string) {}}
	replay.Flags().Int("workers", 16, "")
	replay.Flags().Duration("ttl", 0, "")
	replay.Flags().StringArray("variant", nil, "")
	trace := &cobra.Command{Use: "trace"}
	info := &cobra.Command{Use: "info", Run: func(*cobra.Command, []string) {}}
	info.Flags().Bool("json", false, "")
	info.Flags().Int("workers", 1, "")
	info.Flags().IntSlice("cache-blocks", nil, "")
	trace.AddCommand(info)
	root.AddCommand(replay, trace)
	return root
}

// flags returns the flags of a command of the tree after it has seen arguments.
func flags(t *testing.T, root *cobra.Command, command string, args ...string) *pflag.FlagSet {
	t.Helper()
	cmd, _, err := root.Find(strings.Fields(command))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return cmd.Flags()
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "k.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStrength(t *testing.T) {
	const file = "workers: 1\nreplay:\n  workers: 2\n"
	for _, c := range []struct {
		name, file, want string
		environ, args    []string
	}{
		{"default", "", "16", nil, nil},
		{"file", "workers: 1", "1", nil, nil},
		{"command in the file", file, "2", nil, nil},
		{"variable over file", file, "3", []string{"KVBENCH_WORKERS=3"}, nil},
		{"variable of the command", file, "4", []string{"KVBENCH_WORKERS=3", "KVBENCH_REPLAY_WORKERS=4"}, nil},
		{"flag", file, "5", []string{"KVBENCH_REPLAY_WORKERS=4"}, []string{"--workers", "5"}},
		{"another command", "trace:\n  workers: 2\n", "16", []string{"KVBENCH_TRACE_WORKERS=7", "KVBENCH_TRACE_INFO_WORKERS=8"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := tree()
			path := ""
			if c.file != "" {
				path = write(t, c.file)
			}
			s, err := Read(path, append(c.environ, "PATH=/bin", "KVBENCH_PAD=xx"), root)
			if err != nil {
				t.Fatal(err)
			}
			fl := flags(t, root, "replay", c.args...)
			set, err := s.Apply(fl, "replay")
			if err != nil {
				t.Fatal(err)
			}
			if got := fl.Lookup("workers").Value.String(); got != c.want {
				t.Errorf("workers %s, want %s", got, c.want)
			}
			if want := c.want != "16" && c.name != "flag"; (len(set) == 1) != want || fl.Changed("workers") == (c.want == "16") {
				t.Errorf("set %v, changed %v", set, fl.Changed("workers"))
			}
		})
	}
}

func TestListsAndKinds(t *testing.T) {
	root := tree()
	s, err := Read(write(t, `
# what all have
quiet: true
replay:
  ttl: 1m30s
  variant: [ "a=--x, --y", b= ]
trace:
  info: { cache-blocks: [1, 2], json: "true" }
`), nil, root)
	if err != nil {
		t.Fatal(err)
	}
	fl := flags(t, root, "replay")
	if _, err := s.Apply(fl, "replay"); err != nil {
		t.Fatal(err)
	}
	variants, _ := fl.GetStringArray("variant")
	if diff := cmp.Diff([]string{"a=--x, --y", "b="}, variants); diff != "" {
		t.Error(diff)
	}
	if q, _ := fl.GetBool("quiet"); !q || fl.Lookup("ttl").Value.String() != "1m30s" {
		t.Error("quiet or ttl was not set")
	}
	fl = flags(t, tree(), "trace info") // a flag above is one for the whole tree
	set, err := s.Apply(fl, "trace info")
	if err != nil {
		t.Fatal(err)
	}
	if blocks, _ := fl.GetIntSlice("cache-blocks"); !slices.Equal(blocks, []int{1, 2}) {
		t.Errorf("cache-blocks %v", blocks)
	}
	var args []string
	for _, x := range set {
		args = append(args, x.Arguments()...)
	}
	if want := []string{"--cache-blocks=1", "--cache-blocks=2", "--json=true", "--quiet=true"}; !slices.Equal(args, want) {
		t.Errorf("as arguments %q, want %q", args, want)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"worker: 1", "k.yaml:1:1: worker is no flag; did you mean workers?"},
		{"replay:\n  json: true", "k.yaml:2:3: json is no flag"},
		{"repaly:\n  workers: 1", "k.yaml:1:1: repaly is no command; did you mean replay?"},
		{"workers:\n  a: 1", "workers is no command"},
		{"replay: 4", "replay is no flag"},
		{"workers: 1\nworkers: 2", "k.yaml:2:1: "},
		{"workers:", "k.yaml:1:10: workers needs a value"},
		{"workers: [[1]]", "workers needs a value"},
		{"workers: []", "the list for workers is empty"},
		{"- 1", "keys and values are expected"},
		{"workers: 1\n---\nworkers: 2", "a second document"},
		{"workers: [1", "k.yaml:1:"},
		{"config: x.yaml", "cannot name another"},
		{"help: true", "help is no flag"},
	} {
		_, err := Read(write(t, c.file), nil, tree())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.file, err, c.want)
		}
	}
	if _, err := Read(write(t, strings.Repeat("#", maxFile+1)), nil, tree()); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a huge file: error %v", err)
	}
	if _, err := Read("/nonexistent/k.yaml", nil, tree()); err == nil {
		t.Error("a file that is not there was accepted")
	}
	for name, want := range map[string]string{"KVBENCH_WORKER=1": "did you mean KVBENCH_WORKERS?", "KVBENCH_=1": "names no flag", "KVBENCH_HELP=1": "names no flag"} {
		if _, err := Read("", []string{name}, tree()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

func TestRefusedValuesSayWhereTheyAre(t *testing.T) {
	for _, c := range []struct{ file, variable, want string }{
		{"workers: x", "", `k.yaml:1:1: invalid argument "x" for "--workers"`},
		{"workers: [1, 2]", "", "k.yaml:1:1: --workers takes one value, and this is a list of 2"},
		{"", "KVBENCH_TTL=5", `KVBENCH_TTL: invalid argument "5"`},
	} {
		root := tree()
		path := ""
		if c.file != "" {
			path = write(t, c.file)
		}
		s, err := Read(path, []string{c.variable}, root)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(flags(t, root, "replay"), "replay"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %q: error %v, want %q", c.file, c.variable, err, c.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	environ := []string{"PATH=/bin", "KVBENCH_CONFIG=a.yaml", "KVBENCH_WORKERS=1", "XKVBENCH_=1"}
	if got := Without(environ); !slices.Equal(got, []string{"PATH=/bin", "XKVBENCH_=1"}) {
		t.Errorf("%q is left", got)
	}
	if got := File(environ); got != "a.yaml" {
		t.Errorf("the file is %q", got)
	}
	if got := File(nil); got != "" {
		t.Errorf("the file is %q", got)
	}
}

// TestPrintedFileMeansTheSame reads what was written.
func TestPrintedFileMeansTheSame(t *testing.T) {
	root := tree()
	values := []Value{
		{Setting: Setting{Flag: "quiet", Values: []string{"true"}, Origin: "x"}},
		{Setting: Setting{Command: "replay", Flag: "workers", Values: []string{"3"}, Origin: "KVBENCH_WORKERS"}},
		{Setting: Setting{Command: "replay", Flag: "workers", Values: []string{"4"}, Origin: "k.yaml:1:1"}},
		{Setting: Setting{Command: "replay", Flag: "variant", Values: []string{"a: b # c", `"`, "-", "true", "1e3", "null", "~", "", "0x10", "1_000", "007", "a\tb", "&x", "2026-01-01", "1.", "é<>", "yes", ".inf", "50%"}, Origin: "x"}, List: true},
		{Setting: Setting{Command: "trace info", Flag: "cache-blocks", Values: []string{"1"}, Origin: "x"}, List: true},
	}
	var b strings.Builder
	if err := WriteYAML(&b, values); err != nil {
		t.Fatal(err)
	}
	s, err := Read(write(t, b.String()), nil, root)
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	for _, v := range append(values[:2:2], values[3:]...) {
		i := slices.IndexFunc(s.list, func(x Setting) bool { return x.Command == v.Command && x.Flag == v.Flag })
		if i < 0 || !slices.Equal(s.list[i].Values, v.Values) {
			t.Errorf("%s %s: not %q in\n%s", v.Command, v.Flag, v.Values, b.String())
		}
	}
	if len(s.list) != 4 {
		t.Errorf("%d settings in\n%s", len(s.list), b.String())
	}
}

// TestFilesOfWindows reads a file with a byte order mark and its ends of lines.
func TestFilesOfWindows(t *testing.T) {
	list, err := parse("k.yaml", []byte("\ufeffquiet: true\r\nreplay:\r\n  ttl: 5s\r\n"), known(tree()))
	if err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

func FuzzFile(f *testing.F) {
	for _, text := range []string{"workers: 1", "replay:\n  variant: [a, b]\n", "a: &x [*x]", "? {a: 1} : 2", "<<: {workers: 1}", "trace: {info: {json: true}}", "workers: |\n  3\n", "!!str workers: 1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		root := tree()
		list, err := parse("k.yaml", []byte(text), known(root))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "k.yaml") {
				t.Errorf("error %q does not name the file", err)
			}
			return
		}
		for _, x := range list {
			if len(x.Values) == 0 || x.Flag == "" || !strings.HasPrefix(x.Origin, "k.yaml") {
				t.Errorf("setting %+v", x)
			}
		}
	})
}
