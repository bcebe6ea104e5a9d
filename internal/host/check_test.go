package host

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/results"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// machines are the trees in testdata.
var machines = []string{"bare-metal-smt", "vm", "container-quota", "no-psi", "numa"}

// machine reads a tree of testdata.
func machine(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for _, f := range a.Files {
		out[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return out
}

func onlineOn(t testing.TB, root fs.FS) []int {
	t.Helper()
	cpus, err := ParseCPUs(line(root, sysCPU+"online"))
	if err != nil {
		t.Fatal(err)
	}
	return cpus
}

// calm is what a good machine measures.
func calm(_ context.Context, cpus []int, step func()) (Measured, error) {
	m := Measured{ClockReadNS: 25, TimerLateNS: results.Distribution{N: 200, P50: 52_000, P90: 60_000, P99: 70_000, Max: 90_000}}
	for _, cpu := range cpus {
		m.CPUs = append(m.CPUs, CPUProbe{CPU: cpu, LoopNS: []int64{2_000_000, 2_010_000, 2_000_500, 2_003_000, 2_001_000}, Spread: 0.005,
			WatchedNS: 50e6, Stalls: 2, StallNS: 30_000, LongestStallNS: 18_000})
		step()
	}
	return m, nil
}

// fakeTime moves only when something waits; then meanwhile is called.
func fakeTime(o *Options, meanwhile func(d time.Duration)) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	o.now = func() time.Time { return at }
	o.wait = func(ctx context.Context, d time.Duration) error {
		at = at.Add(d)
		if meanwhile != nil {
			meanwhile(d)
		}
		return ctx.Err()
	}
}

func check(t testing.TB, root fs.FS, change func(*Options)) *Report {
	t.Helper()
	o := Options{Root: root, probe: calm}
	fakeTime(&o, nil)
	if change != nil {
		change(&o)
	}
	if o.Allowed == nil {
		o.Allowed = onlineOn(t, root)
	}
	r, err := Check(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheckGolden(t *testing.T) {
	for _, name := range machines {
		r := check(t, machine(t, name), nil)
		var b strings.Builder
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		for _, threads := range []int{4, 7, 12} {
			s, err := r.Suggest(threads)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString("\n--suggest\n")
			if err := s.WriteText(&b); err != nil {
				t.Fatal(err)
			}
		}
		for l := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(l, "\n")); n > text.Width {
				t.Errorf("%s: %d columns: %s", name, n, l)
			}
		}
		r.Identity.Arch, r.Fingerprint = "arch", "" // those of whoever runs the test
		j, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.NewReplacer(", amd64,", ", arch,", ", arm64,", ", arch,").Replace(b.String())
		// Without the fingerprint, which depends on the architecture.
		plain = fingerprintless(plain)
		for ext, got := range map[string]string{".txt": plain, ".json": string(j) + "\n"} {
			path := filepath.Join("testdata", name+ext)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("%s (go test ./internal/host -update rewrites it): %s", path, d)
			}
		}
	}
}

// TestChecksAreDocumented compares the table in INDEXER_BENCH.md with the findings.
func TestChecksAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../INDEXER_BENCH.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(doc), "## Is the machine fit?")
	table, _, _ = strings.Cut(table, "\n## ")
	if !found {
		t.Fatal("there is no table of the checks")
	}
	var documented, made []string
	for l := range strings.Lines(table) {
		if name, ok := strings.CutPrefix(l, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			documented = append(documented, name)
		}
	}
	for _, f := range check(t, machine(t, "vm"), nil).Findings {
		made = append(made, f.Name)
	}
	if d := cmp.Diff(made, documented); d != "" {
		t.Errorf("made, documented: %s", d)
	}
}

// fingerprintless replaces 16 hexadecimal digits.
func fingerprintless(text string) string {
	words := strings.SplitAfter(text, "fingerprint")
	for i := 1; i < len(words); i++ {
		trimmed := strings.TrimLeft(words[i], " \n")
		words[i] = words[i][:len(words[i])-len(trimmed)] + "0123456789abcdef" + trimmed[16:]
	}
	return strings.Join(words, "")
}

func TestVerdictsOfMachines(t *testing.T) {
	for name, want := range map[string]map[string]Verdict{
		"bare-metal-smt":  {"cores": Fit, "smt": Fit, "governor": Doubtful, "turbo": Doubtful, "frequency": Fit, "thermal": Fit, "cpu_quota": Fit, "hypervisor": Fit, "power": Fit, "cpu_pressure": Fit},
		"vm":              {"cores": Fit, "runnable": Doubtful, "load": Doubtful, "governor": Unknown, "frequency": Unknown, "thermal": Unknown, "hypervisor": Doubtful, "clock_source": Fit},
		"container-quota": {"cpu_quota": Unfit, "throttling": Fit, "cores": Fit, "clock_source": Fit},
		"no-psi":          {"cpu_pressure": Unknown, "memory_pressure": Unknown, "clock_source": Doubtful, "aslr": Doubtful, "cpu_quota": Doubtful, "affinity": Unfit, "governor": Fit, "turbo": Fit, "power": Doubtful},
		"numa":            {"numa": Doubtful, "governor": Doubtful, "turbo": Doubtful, "isolation": Fit},
	} {
		r := check(t, machine(t, name), nil)
		for finding, v := range want {
			f, ok := r.Find(finding)
			if !ok || f.Verdict != v {
				t.Errorf("%s: %s is %+v, want %s", name, finding, f, v)
			}
			if (f.Verdict == Doubtful || f.Verdict == Unfit) && f.Remedy == "" {
				t.Errorf("%s: %s has no remedy", name, finding)
			}
		}
		want := Doubtful
		if len(r.With(Unfit)) > 0 {
			want = Unfit
		}
		if r.Verdict != want {
			t.Errorf("%s as a whole is %s, want %s", name, r.Verdict, want)
		}
	}
}

// set replaces a file.
func set(root fstest.MapFS, name, text string) { root[name] = &fstest.MapFile{Data: []byte(text)} }

// TestWhatHappensMeanwhile changes counters while the check watches.
func TestWhatHappensMeanwhile(t *testing.T) {
	pressure := func(us string) string { return "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + us + "\n" }
	for name, tc := range map[string]struct {
		file, text string
		finding    string
		want       Verdict
		detail     string
	}{
		"pressure of 0.9%":    {"proc/pressure/cpu", pressure("1009000"), "cpu_pressure", Fit, "0.9%"},
		"pressure of 2%":      {"proc/pressure/cpu", pressure("1020000"), "cpu_pressure", Doubtful, "2.0%"},
		"another kvbench":     {"proc/78/stat", "78 (kvbench) S 1 78\n", "other_kvbench", Doubtful, "kvbench runs 1 time beside"},
		"an ended kvbench":    {"proc/78/stat", "78 (kvbench) Z 1 78\n", "other_kvbench", Fit, "no other"},
		"this kvbench":        {"proc/77/stat", "77 (kvbench) R 1 77\n", "other_kvbench", Fit, "no other"},
		"something else":      {"proc/78/stat", "78 (a) (kvbench) S 1 78\n", "other_kvbench", Fit, "no other"},
		"one other thread":    {"proc/stat", "cpu  1 0 1 1 0 0 0 0 0 0\nprocs_running 2\n", "runnable", Fit, "1 other thread ran"},
		"two other threads":   {"proc/stat", "cpu  1 0 1 1 0 0 0 0 0 0\nprocs_running 3\n", "runnable", Doubtful, "2 other threads ran"},
		"pressure of 4.9%":    {"proc/pressure/cpu", pressure("1049000"), "cpu_pressure", Doubtful, "4.9%"},
		"pressure of 5.1%":    {"proc/pressure/cpu", pressure("1051000"), "cpu_pressure", Unfit, "5.1%"},
		"pressure of 6%":      {"proc/pressure/cpu", pressure("1060000"), "cpu_pressure", Unfit, "6.0%"},
		"of the cgroup":       {"sys/fs/cgroup/user.slice/cpu.pressure", pressure("60500"), "cpu_pressure", Unfit, "6.0%"},
		"of memory":           {"proc/pressure/memory", pressure("1060000"), "memory_pressure", Unfit, "6.0%"},
		"steal":               {"proc/stat", "cpu  1 0 1 1 0 0 0 1 0 0\nprocs_running 1\n", "steal", Doubtful, "1.00%"},
		"throttling":          {"sys/fs/cgroup/user.slice/cpu.stat", "nr_throttled 3\nthrottled_usec 5\n", "throttling", Unfit, "3 periods"},
		"heat":                {sysCPU + "cpu5/thermal_throttle/core_throttle_count", "5\n", "thermal", Unfit, "1 time"},
		"swap":                {"proc/vmstat", "pswpin 0\npswpout 7\n", "swap", Unfit, "7 went out"},
		"a counter went back": {"proc/pressure/cpu", pressure("5"), "cpu_pressure", Fit, "0.0%"}, // that of the cgroup is left
		"frequency":           {sysCPU + "cpu3/cpufreq/scaling_cur_freq", "3200000\n", "frequency", Fit, "0%"},
	} {
		root := machine(t, "bare-metal-smt")
		r := check(t, root, func(o *Options) {
			fakeTime(o, func(time.Duration) { set(root, tc.file, tc.text) })
		})
		if f, _ := r.Find(tc.finding); f.Verdict != tc.want || !strings.Contains(f.Detail, tc.detail) {
			t.Errorf("%s: %+v, want %s with %q", name, f, tc.want, tc.detail)
		}
	}
	// The frequency moves while CPUs are tried out.
	root := machine(t, "bare-metal-smt")
	r := check(t, root, func(o *Options) {
		o.probe = func(ctx context.Context, cpus []int, step func()) (Measured, error) {
			set(root, sysCPU+"cpu3/cpufreq/scaling_cur_freq", "4800000\n")
			return calm(ctx, cpus, step)
		}
	})
	if f, _ := r.Find("frequency"); f.Verdict != Doubtful || !strings.Contains(f.Detail, "by up to 50%") {
		t.Errorf("%+v", f)
	}
	// One look in between does not make a busy machine; the median counts.
	root, looks := machine(t, "bare-metal-smt"), 0
	set(root, "proc/stat", "cpu  1 0 1 1 0 0 0 0 0 0\nprocs_running 9\n")
	r = check(t, root, func(o *Options) {
		fakeTime(o, func(time.Duration) {
			looks++
			n := "1"
			if looks == 3 {
				n = "9"
			}
			set(root, "proc/stat", "cpu  1 0 1 1 0 0 0 0 0 0\nprocs_running "+n+"\n")
		})
	})
	if f, _ := r.Find("runnable"); f.Verdict != Fit || looks != 10 {
		t.Errorf("%+v after %d looks", f, looks)
	}
}

func TestWhatIsMeasured(t *testing.T) {
	measured := func(change func(*Measured)) func(*Options) {
		return func(o *Options) {
			o.probe = func(ctx context.Context, cpus []int, step func()) (Measured, error) {
				m, err := calm(ctx, cpus, step)
				change(&m)
				return m, err
			}
		}
	}
	for name, tc := range map[string]struct {
		change  func(*Measured)
		finding string
		want    Verdict
		detail  string
	}{
		"calm":        {func(*Measured) {}, "burn_in", Fit, "0.5% on CPU"},
		"unsteady":    {func(m *Measured) { m.CPUs[3].Spread = 0.11 }, "burn_in", Unfit, "11.0% on CPU 3"},
		"slow":        {func(m *Measured) { m.CPUs[2].LoopNS = []int64{3e6, 3e6, 3e6, 3e6, 3e6} }, "burn_in", Fit, "1.50 x the fastest"},
		"few stalls":  {func(m *Measured) { m.CPUs[1].StallNS = 1e6 }, "stalls", Doubtful, "2.00% of its time on CPU 1"},
		"many stalls": {func(m *Measured) { m.CPUs[1].StallNS = 3e6 }, "stalls", Unfit, "6.00%"},
		"late timer":  {func(m *Measured) { m.TimerLateNS.P50 = 80_000 }, "timer", Doubtful, "80µs at the median"},
		"slow clock":  {func(m *Measured) { m.ClockReadNS = 1400 }, "clock_read", Doubtful, "1400 ns"},
	} {
		r := check(t, machine(t, "bare-metal-smt"), measured(tc.change))
		if f, _ := r.Find(tc.finding); f.Verdict != tc.want || !strings.Contains(f.Detail, tc.detail) {
			t.Errorf("%s: %+v, want %s with %q", name, f, tc.want, tc.detail)
		}
	}
	// Nothing measured: whether it is fit is not known, and watching can be left out.
	r := check(t, machine(t, "bare-metal-smt"), func(o *Options) { o.NoProbe, o.probe, o.Watch = true, nil, -1 })
	if r.Verdict != Unknown {
		t.Errorf("not tried out and %s", r.Verdict)
	}
	for _, name := range []string{"burn_in", "stalls", "timer", "clock_read", "cpu_pressure"} {
		if f, _ := r.Find(name); f.Verdict != Unknown {
			t.Errorf("%+v", f)
		}
	}
	// More CPUs than are tried out: one of each core comes first.
	var got []int
	check(t, machine(t, "numa"), func(o *Options) {
		o.CPUs = []int{0, 16, 1, 17}
		o.probe = func(ctx context.Context, cpus []int, step func()) (Measured, error) {
			got = cpus
			return calm(ctx, cpus, step)
		}
	})
	if !slices.Equal(got, []int{0, 1, 16, 17}) {
		t.Errorf("tried CPUs %v", got)
	}
}

func TestChosenCPUs(t *testing.T) {
	for want, cpus := range map[string][]int{
		"smt unfit 0,8; 3,11":    {0, 3, 8, 11},
		"smt fit cores have":     {0, 1, 2, 3},
		"numa fit all on node 0": {1, 2},
	} {
		name, rest, _ := strings.Cut(want, " ")
		verdict, detail, _ := strings.Cut(rest, " ")
		r := check(t, machine(t, "bare-metal-smt"), func(o *Options) { o.CPUs = cpus })
		if f, _ := r.Find(name); string(f.Verdict) != verdict || !strings.Contains(f.Detail, detail) {
			t.Errorf("CPUs %v: %+v, want %s", cpus, f, want)
		}
	}
	// One node of several.
	r := check(t, machine(t, "numa"), func(o *Options) { o.CPUs = []int{4, 5, 6, 7} })
	if f, _ := r.Find("numa"); f.Verdict != Fit || f.Detail != "all on node 1 of 4 nodes" {
		t.Errorf("%+v", f)
	}
	// The other half of a core belongs to others.
	r = check(t, machine(t, "bare-metal-smt"), func(o *Options) { o.Allowed = []int{0, 1, 2, 3, 8} })
	if f, _ := r.Find("affinity"); f.Verdict != Doubtful || !strings.Contains(f.Detail, "CPUs 9-11 are not allowed") {
		t.Errorf("%+v", f)
	}
	if f, _ := r.Find("cores"); f.Verdict != Fit || !strings.Contains(f.Detail, "5 CPUs on 4 cores (0-3,8)") {
		t.Errorf("%+v", f)
	}
}

// TestNothingReadable must claim nothing and not fail.
func TestNothingReadable(t *testing.T) {
	r := check(t, fstest.MapFS{sysCPU + "online": &fstest.MapFile{Data: []byte("0-1\n")}}, func(o *Options) { o.probe, o.NoProbe = nil, true })
	if r.Verdict != Unknown {
		t.Errorf("%s: %+v", r.Verdict, r.With(Unfit))
	}
	if fit := r.With(Fit); len(fit) > 3 {
		t.Errorf("claims %+v", fit)
	}
	for _, f := range r.With(Unknown, Doubtful, Unfit) {
		if f.Remedy == "" {
			t.Errorf("%s is %s and says nothing to do about it", f.Name, f.Verdict)
		}
	}
	// Without /sys and /proc altogether only the mask is known.
	r = check(t, fstest.MapFS{}, func(o *Options) { o.probe, o.NoProbe, o.Allowed = nil, true, []int{0, 1} })
	if fit := r.With(Fit); r.Verdict != Unknown || len(fit) != 1 || fit[0].Name != "affinity" {
		t.Errorf("%s, claims %+v", r.Verdict, fit)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Error(err)
	}
	if s, err := r.Suggest(8); err != nil || s.TooSmall == "" || s.Flags() != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestMemoryOfAnotherNode: threads on one node whose memory may come only of another.
func TestMemoryOfAnotherNode(t *testing.T) {
	for allowed, want := range map[string]Verdict{"0": Fit, "0-1": Fit, "1": Doubtful, "": Fit, "?": Fit} {
		root := machine(t, "numa")
		if allowed != "" {
			root["proc/self/status"] = &fstest.MapFile{Data: []byte("Name:\tkvbench\nMems_allowed_list:\t" + allowed + "\n")}
		}
		r := check(t, root, nil)
		first := r.Layout.Nodes[0]
		cpus, err := ParseCPUs(first.CPUs)
		if err != nil || first.Node != 0 {
			t.Fatalf("%+v, %v", first, err)
		}
		r = check(t, root, func(o *Options) {
			o.CPUs = slices.DeleteFunc(cpus, func(c int) bool { return !slices.Contains(onlineOn(t, root), c) })
		})
		if f, _ := r.Find("numa"); f.Verdict != want {
			t.Errorf("memory of %q: %+v, want %s", allowed, f, want)
		}
	}
}

func TestCheckEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("enough")
	root := machine(t, "vm")
	o := Options{Root: root, Allowed: []int{0, 1, 2, 3}, wait: wait}
	cancel(cause)
	if r, err := Check(ctx, o); r != nil || !errors.Is(err, cause) {
		t.Errorf("%v, %v", r, err)
	}
	if r, err := Check(context.Background(), Options{Root: root, Allowed: []int{}}); r != nil || err == nil {
		t.Errorf("no CPUs: %v, %v", r, err)
	}
	if r, err := Check(context.Background(), Options{Root: root, Allowed: []int{0, 1}, CPUs: []int{1, 3}}); r != nil || err == nil || err.Error() != "CPU 3 is not one of those that this process may use (0-1)" {
		t.Errorf("a CPU that is not allowed: %v, %v", r, err)
	}
	broken := errors.New("broken")
	o = Options{Root: root, Allowed: []int{0}, Watch: -1, probe: func(context.Context, []int, func()) (Measured, error) { return Measured{}, broken }}
	if r, err := Check(context.Background(), o); r != nil || !errors.Is(err, broken) {
		t.Errorf("a probe that fails: %v, %v", r, err)
	}
}

func TestCheckForReal(t *testing.T) {
	var last, total int
	r, err := Check(context.Background(), Options{Watch: 100 * time.Millisecond, Progress: func(done, of int) {
		if done < last || done > of {
			t.Errorf("progress went from %d to %d of %d", last, done, of)
		}
		last, total = done, of
	}})
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if want := min(len(allowed), maxProbed); len(r.Measured.CPUs) != want || last < want {
		t.Errorf("%d CPUs tried, want %d; progress %d of %d", len(r.Measured.CPUs), want, last, total)
	}
	for _, p := range r.Measured.CPUs {
		if !slices.Contains(allowed, p.CPU) || len(p.LoopNS) != burnRuns-burnDrop || p.WatchedNS < int64(stallWatch) || p.StallNS > p.WatchedNS || p.LongestStallNS > p.StallNS {
			t.Errorf("%+v", p)
		}
	}
	if r.Measured.ClockReadNS <= 0 || r.Measured.TimerLateNS.N != timerRuns || r.Measured.TimerLateNS.P50 < 0 {
		t.Errorf("clock %v, timer %+v", r.Measured.ClockReadNS, r.Measured.TimerLateNS)
	}
	if len(r.Findings) != 27 || r.Fingerprint == "" || r.Fingerprint != r.Identity.Fingerprint() {
		t.Errorf("%d findings, fingerprint %q", len(r.Findings), r.Fingerprint)
	}
	// A report survives its JSON.
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, &again); d != "" {
		t.Error(d)
	}
}
