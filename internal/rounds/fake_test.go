package rounds

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/replay/corpus"
	"github.com/kvbench/kvbench/internal/replay/trial"
	"github.com/kvbench/kvbench/results"
)

// TestMain lets the test binary be a child and a parent of rounds as well.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "fake-child":
			os.Exit(fakeChild(os.Args[2:]))
		case "fake-parent":
			os.Exit(fakeParent(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// fakeChild is a program that writes a record, or does something else.
func fakeChild(args []string) int {
	fs := flag.NewFlagSet("fake-child", flag.ExitOnError)
	work := fs.String("corpus", "", "")
	out := fs.String("out", "", "")
	mode := fs.String("mode", "ok", "")
	value := fs.Float64("value", 100, "")
	windows := fs.Float64("windows", 2, "length of the trial in windows")
	state := fs.String("state", "", "a file that counts the calls")
	nap := fs.Duration("sleep", 0, "")
	_ = fs.String("ignored", "", "")
	_ = fs.Parse(args)
	calls := 1
	if *state != "" {
		b, _ := os.ReadFile(*state)
		_, _ = fmt.Sscan(string(b), &calls)
		_ = os.WriteFile(*state, []byte(fmt.Sprint(calls+1)), 0o666)
	}
	time.Sleep(*nap)
	c, err := corpus.Open(*work)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	const window = 1_000_000
	r := &results.Record{Schema: results.ReplayV1, Kind: results.KindReplay}
	r.Provenance.CorpusSHA256 = c.SHA256()
	r.Validity.Valid = true
	r.Validity.KeptUp = *windows <= 1.1
	r.Timing.WindowNS, r.Timing.EndNS = window, int64(window**windows)
	r.Rates.AchievedBlockOpsPerSec = *value * (1 + 0.01*float64(calls%3))
	r.Queries.Service.P50 = int64(*value)
	switch {
	case *mode == "late" || *mode == "late-once" && calls == 3:
		r.Validity.Valid = false
		r.Validity.Reasons = []results.Reason{{Rule: "issue_span", Detail: "too late"}}
	case *mode == "crash" || *mode == "crash-later" && calls > 2:
		panic("this crash is a test's")
	case *mode == "hang" || *mode == "hang-later" && calls == 2:
		time.Sleep(time.Hour)
	case *mode == "stubborn":
		ignoreTerm()
		time.Sleep(time.Hour)
	case *mode == "garbage":
		_ = os.WriteFile(*out, []byte("\x00{]not JSON"), 0o666)
		return 0
	case *mode == "huge":
		f, _ := os.Create(*out)
		_ = f.Truncate(maxRecord + 10)
		_ = f.Close()
		return 0
	case *mode == "talk":
		for range 1000 {
			fmt.Println(strings.Repeat("\x00\xffx", 1000))
		}
		return 2
	case *mode == "other":
		r.Provenance.CorpusSHA256 = "another"
	case *mode == "nothing":
		return 0
	case *mode == "exit":
		_ = results.Write(*out, r, false)
		return 7
	case *mode == "daemon":
		// Something left behind in the group, which holds the output open.
		cmd := exec.Command("sleep", "3600")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		_ = cmd.Start()
		_ = os.WriteFile(*state, []byte(fmt.Sprint(cmd.Process.Pid)), 0o666)
	case *mode == "escape":
		// Something left behind in a session of its own, which holds output and lock.
		cmd := exec.Command("sleep", "3600")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.ExtraFiles = []*os.File{os.NewFile(3, "lock")}
		_ = cmd.Start()
		_ = os.WriteFile(*state, []byte(fmt.Sprint(cmd.Process.Pid)), 0o666)
	case *mode == "no-folder":
		_ = os.RemoveAll(filepath.Dir(*out))
		return 0
	case *mode == "file":
		_ = os.RemoveAll(filepath.Dir(*out))
		_ = os.WriteFile(filepath.Dir(*out), nil, 0o666)
		return 0
	case *mode == "self-kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if err := results.Write(*out, r, false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if !r.Validity.Valid {
		return 3
	}
	return 0
}

// fakeParent runs what is left of an experiment.
func fakeParent(dir string) int {
	e, err := Open(dir)
	if err == nil {
		err = e.Run(context.Background(), RunOptions{QuickHost: true, Sole: true})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

type noProgress struct{}

func (noProgress) Step(string, int64) {}
func (noProgress) Advance(int64)      {}

// smallCorpus is prepared once for all tests.
var smallCorpus = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kvbench-rounds")
	if err != nil {
		return "", err
	}
	c, _, err := trial.Open(context.Background(), trial.Input{Source: "conversation-small", Options: corpus.Options{
		Workers: 1, DPRanks: 1, TraceBlockSize: 512, BlockSize: 512, GPUBlocks: 1000, LengthFactor: 1, DuplicationFactor: 1, SpeedUp: 1, Rescale: corpus.RescaleRank,
	}, Seed: 1, Window: time.Second}, noProgress{})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "small.corpus")
	return path, c.Write(path, false)
})

// fake is a variant that runs this test binary as a child.
func fake(t testing.TB, name, flags string) Variant {
	t.Helper()
	v, err := ParseVariant(fmt.Sprintf("%s=!%s fake-child --corpus {corpus} --out {out} %s", name, os.Args[0], flags))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// fakePlan is a plan without any waiting.
func fakePlan(t testing.TB, rounds int, variants ...Variant) *Plan {
	t.Helper()
	path, err := smallCorpus()
	if err != nil {
		t.Fatal(err)
	}
	return &Plan{
		Variants: variants, Work: trial.Input{Source: path}, Rounds: rounds, Warmup: 1, Order: Balanced, Seed: 7,
		Rules: Rules{TrialTimeout: time.Minute, ParentCPU: AutoCPU},
	}
}

func create(t testing.TB, p *Plan) *Experiment {
	t.Helper()
	e, _, err := Create(context.Background(), filepath.Join(t.TempDir(), "exp"), p, noProgress{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func run(t testing.TB, e *Experiment) error {
	t.Helper()
	return e.Run(context.Background(), RunOptions{QuickHost: true})
}

// steps are what the trials of an experiment are of.
func steps(e *Experiment) []Step {
	var out []Step
	for _, t := range e.Trials {
		out = append(out, Step{t.Round, t.Slot, t.Variant, t.Attempt})
	}
	return out
}
