package micro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/indexer"
	"github.com/kvbench/kvbench/indexer/flat"
	"github.com/kvbench/kvbench/indexer/noop"
	"github.com/kvbench/kvbench/indexer/runs"
)

// TestMain makes this program the measuring process too.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	if len(args) != 3 || args[0] != "alone" {
		os.Exit(m.Run())
	}
	if args[2] == "broken" {
		fmt.Fprintln(os.Stderr, "cannot")
		os.Exit(3)
	}
	t, err := ResidentWriteAlone(context.Background(), runs.Factory(), args[1], args[2], 2)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(t); err != nil {
		os.Exit(1)
	}
}

func alone(t testing.TB) func(c, variant string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return ThisProgram(program, "alone", func(c, variant string) []string { return []string{"alone", c, variant} })
}

func TestResidentWriteMeasuresInProcesses(t *testing.T) {
	child := alone(t)
	var order []string
	o := &ResidentWriteOptions{Index: runs.Factory(), Cases: []string{"1-block"}, Rounds: 2, Passes: 2,
		Child: func(c, variant string) *exec.Cmd {
			order = append(order, variant)
			return child(c, variant)
		}}
	r, err := ResidentWrite(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	const a, b = ResidentWriteBase, writeTracked
	if want := []string{a, b, b, a, a, b}; !slices.Equal(order, want) {
		t.Errorf("the order was %v, want %v", order, want)
	}
	for _, metric := range []string{"stored event", "clear of a rank"} {
		for _, v := range ResidentWriteVariants() {
			if s := r.find("1-block", v, metric); s == nil || len(s.Values) != 2 || !(s.Values[0] > 0) {
				t.Errorf("%s, %s: %+v", v, metric, s)
			}
		}
	}
	with, without, cost := r.find("1-block", b, "stored event"), r.find("1-block", a, "stored event"), r.find("1-block", b, writeCost)
	if cost == nil || cost.Values[1] != with.Values[1]-without.Values[1] {
		t.Errorf("the cost is %+v", cost)
	}
	if r.find("1-block", a, writeCost) != nil {
		t.Error("the base has a cost")
	}
}

func TestResidentWriteAlone(t *testing.T) {
	for _, f := range []indexer.Factory{runs.Factory(), flat.Factory()} {
		for _, c := range residentWriteCases {
			for _, v := range ResidentWriteVariants() {
				got, err := ResidentWriteAlone(t.Context(), f, c.name, v, 1)
				if err != nil {
					t.Errorf("%s, %s, %s: %v", f.Name, c.name, v, err)
					continue
				}
				if len(got.StoreNS) != 1 || !(got.StoreNS[0] > 0) || len(got.ClearNS) != 1 || got.Blocks != c.blocks || got.Tracked != (v == writeTracked) || got.Index != f.Name {
					t.Errorf("%s, %s, %s: %+v", f.Name, c.name, v, got)
				}
			}
		}
	}
	if _, err := ResidentWriteAlone(t.Context(), runs.Factory(), "1-block", "watched", 1); err == nil || !strings.Contains(err.Error(), `no variant is named "watched"`) {
		t.Errorf("error %v", err)
	}
}

func TestResidentWriteChildFails(t *testing.T) {
	child := alone(t)
	o := &ResidentWriteOptions{Index: runs.Factory(), Rounds: 1, Passes: 1}
	for want, make := range map[string]func(c, v string) *exec.Cmd{
		"exit status 3: cannot": func(c, _ string) *exec.Cmd { return child(c, "broken") },
		"no result":             func(string, string) *exec.Cmd { return exec.Command("true") },
		"no such file":          func(string, string) *exec.Cmd { return exec.Command("/nothing/here") },
		"the process measured":  func(c, _ string) *exec.Cmd { return child(c, writeTracked) },
	} {
		o.Child = make
		if _, err := ResidentWrite(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	o.Child = func(string, string) *exec.Cmd {
		cancel(stop)
		return exec.Command("sleep", "60")
	}
	if _, err := ResidentWrite(ctx, o); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

func TestResidentWriteOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		o    ResidentWriteOptions
		want string
	}{
		{ResidentWriteOptions{Index: runs.Factory(), Passes: 1}, "0 rounds"},
		{ResidentWriteOptions{Index: runs.Factory(), Rounds: 1}, "0 passes"},
		{ResidentWriteOptions{Index: noop.Factory(), Rounds: 1, Passes: 1}, "nothing to measure"},
		{ResidentWriteOptions{Index: runs.Factory(), Rounds: 1, Passes: 1, Cases: []string{"2-blocks"}}, `no case is named "2-blocks"; there are 1-block, 16-blocks`},
	} {
		if _, err := ResidentWrite(t.Context(), &c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}
