package rounds

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/buildinfo"
	"github.com/kvbench/kvbench/internal/fileid"
	"github.com/kvbench/kvbench/internal/host"
	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/internal/wholefile"
)

// ManifestV1 is the schema name of Manifest.
const ManifestV1 = "kvbench.rounds/v1"

// Plan is what the user asks for. Create turns it into a Manifest.
type Plan struct {
	Variants []Variant
	// Arguments are the flags of replay that all Flags and Binary variants get,
	// without the work and without where the record goes.
	Arguments []string
	Work      trial.Input
	Rounds    int // measured rounds, at least 1
	Warmup    int // rounds before them that are discarded, at least 0
	Order     Order
	Seed      uint64
	// Ratios are what to compare; none: each other variant over the first.
	Ratios []Ratio
	// Metrics are names for ResolveMetric; none: chosen by the load.
	Metrics []string
	// AA adds a second copy of the base, the variant that the first ratio divides
	// by, and compares the two.
	AA    bool
	Rules Rules
	// Env are the names of environment variables that children get beside the
	// usual ones, or NAME=VALUE.
	Env []string
}

// Rules say how trials are run and which count.
type Rules struct {
	Gap           time.Duration `json:"gap_ns"`           // rest before each trial
	QuietLimit    time.Duration `json:"quiet_limit_ns"`   // longest further wait for a quiet machine; 0: none
	QuietPressure float64       `json:"quiet_pressure"`   // CPU pressure, 0 to 1, that is quiet
	TrialTimeout  time.Duration `json:"trial_timeout_ns"` // a child that runs longer is ended
	RetryInvalid  int           `json:"retry_invalid"`    // further attempts for an invalid trial, at the end of its round
	MaxPressure   float64       `json:"max_pressure"`     // CPU pressure during a trial, 0 to 1, above which it is invalid; 0: no limit
	// ParentCPU is where kvbench itself waits: a CPU number, AutoCPU or NoCPU.
	ParentCPU int `json:"parent_cpu"`
}

// Values of Rules.ParentCPU that are no CPU.
const (
	AutoCPU = -1 // a CPU that no trial uses, if there is one
	NoCPU   = -2 // not pinned
)

// DefaultRules are the rules of kvbench rounds.
func DefaultRules() Rules {
	return Rules{Gap: time.Second, QuietLimit: 30 * time.Second, QuietPressure: 0.05, TrialTimeout: 10 * time.Minute, ParentCPU: AutoCPU}
}

// Limits of a plan: far above what anyone can wait for.
const (
	maxRounds   = 1_000_000
	maxVariants = 64
)

// Manifest is everything about an experiment that must not change.
type Manifest struct {
	Schema    string    `json:"schema"`
	Created   string    `json:"created"` // RFC 3339, UTC
	Tool      Tool      `json:"kvbench"` // that made the manifest
	Dir       string    `json:"working_directory"`
	Variants  []Entrant `json:"variants"`
	Arguments []string  `json:"arguments"` // flags of replay that all kvbench variants get
	Work      Work      `json:"work"`
	Rounds    int       `json:"rounds"`
	Warmup    int       `json:"warmup_rounds"`
	Order     Order     `json:"order"`
	Seed      uint64    `json:"seed"`
	// Sequence holds the variants' numbers by slot for each measured round.
	Sequence [][]int       `json:"sequence"`
	Rules    Rules         `json:"rules"`
	Env      []string      `json:"environment"` // of every child, without padding; sorted
	Host     host.Identity `json:"host"`

	// What Analyse shows unless told otherwise.
	Ratios  []Ratio  `json:"ratios"`
	Metrics []string `json:"metrics"`
	Base    string   `json:"base"`              // the variant that the first ratio divides by
	Control string   `json:"control,omitempty"` // the second copy of the base
}

// Tool is a kvbench.
type Tool struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go_version"`
}

func toolNow() Tool {
	b := buildinfo.Read()
	return Tool{Version: b.Version, Commit: b.Commit, Modified: b.Modified, Go: b.Go}
}

// Entrant is a variant with its program as it was found.
type Entrant struct {
	Variant
	Path   string `json:"path"` // of the program, absolute
	SHA256 string `json:"sha256"`
	// Files are those that its arguments name, such as the policy of a flag or the
	// script that an interpreter runs.
	Files []File `json:"files,omitempty"`
}

// File is a file with the hash of its content.
type File = fileid.File

// Work is the corpus and how it was made.
type Work struct {
	Source string `json:"source"` // trace, embedded trace or corpus, as an absolute path where it is a file
	// How the corpus is made from a trace; absent if Source is a corpus.
	Options  *corpus.Options `json:"options,omitempty"`
	Seed     uint64          `json:"seed,omitempty"`
	WindowNS int64           `json:"window_ns,omitempty"`

	Corpus string `json:"corpus"` // path of the corpus; relative to the experiment's folder
	SHA256 string `json:"sha256"`
}

// names lists the variants.
func (m *Manifest) names() []string {
	names := make([]string, len(m.Variants))
	for i, v := range m.Variants {
		names[i] = v.Name
	}
	return names
}

// Check finds what is wrong with a plan before anything is made or run.
func (p *Plan) Check() error {
	if len(p.Variants) == 0 {
		return errors.New("no variant; add --variant name=--flags")
	}
	if len(p.Variants) > maxVariants {
		return fmt.Errorf("%d variants; at most %d are possible", len(p.Variants), maxVariants)
	}
	var names []string
	for _, v := range p.Variants {
		if err := errors.Join(checkName(v.Name), v.check()); err != nil {
			return err
		}
		if slices.Contains(names, v.Name) {
			return fmt.Errorf("two variants are called %s; give each a name of its own", v.Name)
		}
		names = append(names, v.Name)
	}
	if base, control := p.control(); p.AA && slices.Contains(names, control) {
		return fmt.Errorf("--aa adds a second %s as %s, and a variant of that name exists; rename it", base, control)
	} else if p.AA {
		names = append(names, control)
	}
	for _, r := range p.Ratios {
		if err := checkRatio(r, names); err != nil {
			return err
		}
	}
	for _, m := range p.Metrics {
		if _, err := ResolveMetric(m); err != nil {
			return err
		}
	}
	if _, err := ParseOrder(string(p.Order)); err != nil {
		return err
	}
	switch r := &p.Rules; {
	case p.Rounds < 1 || p.Rounds > maxRounds:
		return fmt.Errorf("%d rounds; give 1 to %d", p.Rounds, maxRounds)
	case p.Warmup < 0 || p.Warmup > maxRounds:
		return fmt.Errorf("%d warm-up rounds; give 0 to %d", p.Warmup, maxRounds)
	case r.Gap < 0 || r.QuietLimit < 0:
		return errors.New("a rest or a wait is negative")
	case r.TrialTimeout <= 0:
		return fmt.Errorf("the time limit of a trial is %v; it must be positive", r.TrialTimeout)
	case r.RetryInvalid < 0 || r.RetryInvalid > 100:
		return fmt.Errorf("%d retries; give 0 to 100", r.RetryInvalid)
	case !(r.QuietPressure >= 0 && r.QuietPressure <= 1) || !(r.MaxPressure >= 0 && r.MaxPressure <= 1):
		return errors.New("a limit of CPU pressure is not between 0 and 100%")
	case r.ParentCPU < NoCPU:
		return fmt.Errorf("parent CPU %d; give a CPU number", r.ParentCPU)
	}
	return nil
}

// control returns the base and the name of its second copy.
func (p *Plan) control() (base, control string) {
	base = p.Variants[0].Name
	if len(p.Ratios) > 0 {
		base = p.Ratios[0].To
	}
	return base, base + "-aa"
}

// manifest finds programs, hashes them, and fixes everything but the corpus.
func (p *Plan) manifest(created time.Time) (*Manifest, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	report, err := identity()
	if err != nil {
		return nil, err
	}
	m := &Manifest{
		Schema:    ManifestV1,
		Created:   created.UTC().Format(time.RFC3339),
		Tool:      toolNow(),
		Dir:       dir,
		Arguments: append([]string{}, p.Arguments...),
		Rounds:    p.Rounds,
		Warmup:    p.Warmup,
		Order:     p.Order,
		Seed:      p.Seed,
		Rules:     p.Rules,
		Host:      report.Identity,
		Ratios:    append([]Ratio{}, p.Ratios...),
		Metrics:   append([]string{}, p.Metrics...),
	}
	if m.Env, err = environment(p.Env); err != nil {
		return nil, err
	}
	base, control := p.control()
	m.Base = base
	variants := slices.Clone(p.Variants)
	if len(m.Ratios) == 0 {
		for _, v := range variants[1:] {
			m.Ratios = append(m.Ratios, Ratio{Of: v.Name, To: base})
		}
	}
	if p.AA {
		m.Control = control
		again := variants[slices.IndexFunc(variants, func(v Variant) bool { return v.Name == base })]
		again.Name = control
		variants = append(variants, again)
	}
	hashes := map[string]string{} // one program is read once
	for _, v := range variants {
		e, err := m.enter(v, hashes)
		if err != nil {
			return nil, fmt.Errorf("variant %s: %w", v.Name, err)
		}
		m.Variants = append(m.Variants, e)
	}
	m.Sequence = m.Order.Sequence(len(m.Variants), 0, m.Rounds, m.Seed)
	return m, nil
}

// identity says which machine this is, without measuring anything.
func identity() (*host.Report, error) {
	return host.Check(context.Background(), host.Options{NoProbe: true, Watch: -1})
}

// usual are the environment variables that children get. What is left out cannot
// differ between the start and a resume.
var usual = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
	"GOMAXPROCS", "GODEBUG", "GOGC", "GOMEMLIMIT"}

// padName begins the names of variables that only take up room.
const padName = "KVBENCH_PAD"

func environment(more []string) ([]string, error) {
	env := map[string]string{}
	for _, name := range usual {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	for _, s := range more {
		name, value, given := strings.Cut(s, "=")
		switch {
		case name == "" || strings.ContainsRune(s, 0):
			return nil, fmt.Errorf("environment variable %q has no name; write NAME or NAME=VALUE", s)
		case strings.HasPrefix(name, padName):
			return nil, fmt.Errorf("environment variable %s is used by kvbench to make environments equally large", name)
		case !given:
			if value, given = os.LookupEnv(name); !given {
				return nil, fmt.Errorf("environment variable %s is not set here; write %s=VALUE to set it", name, name)
			}
		}
		env[name] = value
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out, nil
}

// enter finds and hashes what a variant runs, and the files that it names.
func (m *Manifest) enter(v Variant, hashes map[string]string) (Entrant, error) {
	e := Entrant{Variant: v}
	var err error
	if v.Kind == Flags {
		e.Path, err = ownPath()
	} else {
		// LookPath takes a path with a slash as it is.
		if e.Path, err = exec.LookPath(v.Program); err == nil || errors.Is(err, exec.ErrDot) {
			e.Path, err = filepath.Abs(e.Path)
		}
	}
	if err != nil {
		return e, err
	}
	if e.SHA256, err = hashOnce(e.Path, hashes); err != nil {
		return e, err
	}
	for _, path := range fileid.Named(m.words(&v), m.Dir) {
		sum, err := hashOnce(path, hashes)
		if err != nil {
			return e, err
		}
		e.Files = append(e.Files, File{Path: path, SHA256: sum})
	}
	return e, nil
}

// ownPath returns a path of the running program. The name it was called by comes
// first, because some programs do different things by different names.
func ownPath() (string, error) {
	exe, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	if path, err := exec.LookPath(os.Args[0]); err == nil {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, exe) {
			return filepath.Abs(path)
		}
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	if info, err := os.Stat(path); err != nil || !os.SameFile(info, exe) {
		return "", fmt.Errorf("the running program was replaced or removed (%s); start the new one", path)
	}
	return path, nil
}

func hashOnce(path string, known map[string]string) (string, error) {
	if sum, ok := known[path]; ok {
		return sum, nil
	}
	sum, err := fileid.Hash(path)
	if err == nil {
		known[path] = sum
	}
	return sum, err
}

// work says what the corpus is made of. Whether it is a corpus already is known
// from the file.
func (p *Plan) work() (w Work, saved bool, err error) {
	in := &p.Work
	if saved, err = trial.IsCorpus(in.Source); err != nil {
		return w, false, err
	}
	w.Source = in.Source
	if _, err := os.Stat(in.Source); err == nil {
		if w.Source, err = filepath.Abs(in.Source); err != nil {
			return w, false, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return w, false, err
	}
	if !saved {
		o := in.Options
		w.Options, w.Seed, w.WindowNS = &o, in.Seed, int64(in.Window)
	}
	return w, saved, nil
}

// What the files of an experiment are at most, in bytes, unpacked.
const (
	maxManifest = 64 << 20
	maxJournal  = 1 << 30
)

// readManifest reads and checks the manifest in a folder.
func readManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestName)
	b, err := wholefile.Read(path, "the manifest of an experiment", maxManifest)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s holds no experiment (there is no %s): %w", dir, manifestName, fs.ErrNotExist)
		}
		return nil, err
	}
	m, err := decodeManifest(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func decodeManifest(b []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("not the manifest of an experiment: %w", err)
	}
	if m.Schema != ManifestV1 {
		return nil, fmt.Errorf("schema is %q; this version of kvbench reads %q", m.Schema, ManifestV1)
	}
	k := len(m.Variants)
	names := m.names()
	switch {
	case k == 0 || k > maxVariants+1:
		return nil, fmt.Errorf("variants: there are %d", k)
	case len(slices.Compact(slices.Sorted(slices.Values(names)))) != k:
		return nil, errors.New("variants: two have the same name")
	case len(m.Sequence) != m.Rounds || m.Rounds < 1 || m.Warmup < 0 || m.Warmup > maxRounds:
		return nil, fmt.Errorf("sequence: it has %d rounds, and rounds is %d", len(m.Sequence), m.Rounds)
	}
	for i, row := range m.Sequence {
		if err := checkRow(row, k); err != nil {
			return nil, fmt.Errorf("sequence, round %d: %w", i+1, err)
		}
	}
	for _, r := range m.Ratios {
		if err := checkRatio(r, names); err != nil {
			return nil, fmt.Errorf("ratios: %w", err)
		}
	}
	return m, nil
}

func checkRow(row []int, k int) error {
	seen := make([]bool, k)
	for _, v := range row {
		if v < 0 || v >= k || seen[v] {
			return fmt.Errorf("%v does not name each of %d variants once", row, k)
		}
		seen[v] = true
	}
	if len(row) != k {
		return fmt.Errorf("%v does not name each of %d variants once", row, k)
	}
	return nil
}

// A Difference is one thing that is not as the manifest says.
type Difference struct {
	Field string // path in the manifest
	What  string // the same in words; "": the field says enough
	Was   string
	Is    string
}

// ChangedError says that an experiment cannot go on because something changed.
type ChangedError struct {
	Dir         string
	Differences []Difference
}

func (e *ChangedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s was begun with other things, and trials before and after would not be comparable:", e.Dir)
	for _, d := range e.Differences {
		fmt.Fprintf(&b, "\n  %s: was %s, is %s", cmp.Or(d.What, d.Field), d.Was, d.Is)
	}
	b.WriteString("\nrestore what was, or begin another experiment in another folder")
	return b.String()
}

// diff lists what differs between two manifests, apart from when and by which
// kvbench they were made, and what follows from other fields.
func diff(was, is *Manifest) ([]Difference, error) {
	a, err := flatten(was)
	if err != nil {
		return nil, err
	}
	b, err := flatten(is)
	if err != nil {
		return nil, err
	}
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	var out []Difference
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		x, inA := a[k]
		y, inB := b[k]
		if inA && inB && x == y {
			continue
		}
		if !inA {
			x = "absent"
		}
		if !inB {
			y = "absent"
		}
		out = append(out, Difference{Field: k, Was: x, Is: y})
	}
	return out, nil
}

func flatten(m *Manifest) (map[string]string, error) {
	c := *m
	c.Created, c.Tool, c.Sequence = "", Tool{}, nil
	b, err := json.Marshal(&c)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(strings.TrimPrefix(path+"."+k, "."), x)
			}
		case []any:
			scalars := !slices.ContainsFunc(v, func(x any) bool { _, ok := x.(map[string]any); return ok })
			if scalars {
				words := make([]string, len(v))
				for i, x := range v {
					words[i] = fmt.Sprint(x)
				}
				out[path] = strconv.Quote(strings.Join(words, " "))
				return
			}
			for i, x := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), x)
			}
		case nil:
		default:
			out[path] = fmt.Sprint(v)
		}
	}
	walk("", v)
	return out, nil
}
